package admin

import (
	"cmp"
	"strings"

	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

// streamsHandler serves /debug/streams.
type streamsHandler struct{ *Sources }

func (h streamsHandler) all() (page adminapi.Streams) {
	for _, v := range h.Streams.Views() {
		page.Streams += v.Streams
		page.Views = append(page.Views, v.View)
	}
	return page
}

func (h streamsHandler) list(views []grpcapi.ViewStatus) (lines []adminapi.View) {
	for _, v := range views {
		if v.Streams == 0 {
			continue
		}
		one := v.View
		one.Destination = shown(v.Destination)
		one.Node = shown(v.Node)
		one.Zone = shown(v.Zone)
		one.Namespace = shown(v.Namespace)
		lines = append(lines, one)
	}
	return lines
}

var streamLines = lineKind[adminapi.View]{
	text: func(v *adminapi.View) string {
		return strings.Join([]string{v.Destination, v.Method, v.Node, v.Zone, v.Namespace}, "\n")
	},
	parts: choices[func(*adminapi.View) bool]{
		{"", nil},
		{"Get", func(v *adminapi.View) bool { return v.Method == "Get" }},
		{"GetProfile", func(v *adminapi.View) bool { return v.Method == "GetProfile" }},
	},
	order: choices[func(a, b *adminapi.View) int]{
		{"streams", func(a, b *adminapi.View) int {
			return cmp.Or(cmp.Compare(b.Streams, a.Streams), byDestination(a, b))
		}},
		{"destination", byDestination},
	},
}

func byDestination(a, b *adminapi.View) int {
	return cmp.Or(
		cmp.Compare(a.Destination, b.Destination),
		cmp.Compare(a.Method, b.Method),
		cmp.Compare(a.Zone, b.Zone),
		cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.Namespace, b.Namespace),
	)
}
