package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

// TestPageIsIndentedJSON: a page that is written piece by piece is what encoding/json makes of it as a whole.
func TestPageIsIndentedJSON(t *testing.T) {
	views := []grpcapi.ViewStatus{{View: adminapi.View{Method: "Get", Destination: "<web>", Streams: 2}}, {View: adminapi.View{Method: "GetProfile", Node: "node-1"}}}
	for _, page := range []any{
		[]adminapi.Service(nil),
		[]adminapi.Service{},
		[]adminapi.Service{{Service: "shop/web", Ports: []adminapi.Port{{Port: 80, Members: []adminapi.PortMember{{Cluster: "local", Service: "shop/web", Endpoints: 1}}}}}, {Service: "shop/all"}},
		adminapi.Clusters{},
		adminapi.Clusters{
			Secrets: adminapi.LinkSecrets{Reason: `"no"`}, Problems: []adminapi.Problem{{}, {}},
			Unserved: []adminapi.Unserved{{Service: "a", Cluster: "east", Member: "b", Reason: "c"}}, Writer: &adminapi.SliceWriter{},
		},
		newStreamsPage(views),
		newStreamsPage(nil),
	} {
		want, err := json.MarshalIndent(page, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := writePage(&got, page, func() {}); err != nil || got.String() != string(want)+"\n" {
			t.Errorf("%v: %s\nwant %s", err, got.String(), want)
		}
	}
}

// longest notes the longest write.
type longest int

// Write implements io.Writer.
func (l *longest) Write(p []byte) (int, error) {
	*l = max(*l, longest(len(p)))
	return len(p), nil
}

// TestPageIsWrittenInPieces: what is in memory of a page does not grow with it, and a client that has gone ends it.
func TestPageIsWrittenInPieces(t *testing.T) {
	page := make([]adminapi.Service, 10_000)
	for i := range page {
		page[i].Service = fmt.Sprintf("shop/web-%d", i)
	}
	var l longest
	if err := writePage(&l, page, func() {}); err != nil || l > pageBuffer {
		t.Errorf("%d bytes at a time, %v", l, err)
	}
	r, w := io.Pipe()
	gone := errors.New("the client has gone")
	r.CloseWithError(gone)
	if err := writePage(w, page, func() {}); !errors.Is(err, gone) {
		t.Errorf("error %v, want %v", err, gone)
	}
}
