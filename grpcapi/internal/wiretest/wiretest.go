// Package wiretest has what the tests of grpcapi and grpcapi/wire share: a short
// notation of messages, and endpoints and profiles to make messages of. It does not import what it tests.
package wiretest

import (
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"
)

// Until waits until ok, which another goroutine makes true.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
		<-time.After(time.Millisecond)
	}
}

// Unmarshal reads a frame with its codec.
func Unmarshal(codec encoding.CodecV2, frame any, to proto.Message) error {
	data, err := codec.Marshal(frame)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data.Materialize(), to)
}

// Decode returns the updates of frames, and fails if any of them has fields that
// proxies do not know.
func Decode[Frame any](t testing.TB, codec encoding.CodecV2, frames []Frame) []*pb.Update {
	t.Helper()
	var all []*pb.Update
	for _, f := range frames {
		u := &pb.Update{}
		if err := Unmarshal(codec, f, u); err != nil {
			t.Fatal(err)
		}
		if len(u.ProtoReflect().GetUnknown()) > 0 {
			t.Fatalf("unknown fields in %v", u)
		}
		all = append(all, u)
	}
	return all
}
