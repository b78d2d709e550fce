package main

import "isthmus/grpcapi"

// streamsPage is /debug/streams: what proxies watch, and how many streams share it.
type streamsPage struct {
	Streams int                  `json:"streams"`
	Views   []grpcapi.ViewStatus `json:"views"`
}

func newStreamsPage(views []grpcapi.ViewStatus) streamsPage {
	page := streamsPage{Views: views}
	for _, v := range views {
		page.Streams += v.Streams
	}
	return page
}
