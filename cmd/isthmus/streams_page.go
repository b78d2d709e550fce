package main

import (
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

func newStreamsPage(views []grpcapi.ViewStatus) adminapi.Streams {
	page := adminapi.Streams{}
	for _, v := range views {
		page.Streams += v.Streams
		page.Views = append(page.Views, v.View)
	}
	return page
}
