package grpcapi

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

func getProfile(t testing.TB, conn *grpc.ClientConn, authority, token string) (pb.Destination_GetProfileClient, context.CancelFunc) {
	t.Helper()
	return openCall(t, pb.NewDestinationClient(conn).GetProfile, authority, token)
}

func receiveProfile(t testing.TB, s pb.Destination_GetProfileClient, want string) {
	t.Helper()
	receiveLine(t, s, wiretest.ProfileLine, want)
}

// TestPanicOfOneProfile: other streams go on, and its view is released.
func TestPanicOfOneProfile(t *testing.T) {
	w := newWorld(t, Options{Pace: -1})
	w.profiles.put(webKey, wiretest.WebProfile())
	w.profiles.cursed = addrKey("10.0.0.1:80")
	conn := w.dial(t)
	good, _ := getProfile(t, conn, webAddr, "")
	receiveProfile(t, good, "web")
	for range 2 {
		bad, _ := getProfile(t, conn, "10.0.0.1:80", "")
		if _, err := bad.Recv(); status.Code(err) != codes.Internal {
			t.Fatalf("got %v", err)
		}
	}
	if n := value(w.server.metrics.panics); n != 2 {
		t.Errorf("%v panics counted", n)
	}
	wiretest.Until(t, "its streams are gone", func() bool { return w.server.Streams() == 1 })
	if all, idle, _ := w.server.profileViews.count(); all != 1 || idle != 0 {
		t.Errorf("%d views, %d idle", all, idle)
	}
	w.profiles.put(webKey, wiretest.WebProfile("a"))
	receiveProfile(t, good, "web routes a")
	w.profiles.put(webKey, &federation.Profile{Reason: federation.NoService}) // an empty message is a message
	receiveProfile(t, good, "nothing")
}

// TestProfilesUnderLoad opens, uses and ends streams of few views from many
// goroutines, while profiles change. The last message of each stream is the newest.
func TestProfilesUnderLoad(t *testing.T) {
	w := newWorld(t, Options{Pace: -1, Linger: time.Millisecond, IdleViews: 2})
	key := func(p int) federation.ProfileKey { return federation.ProfileKey{Service: web, Port: uint16(1 + p)} }
	for p := range 4 {
		w.profiles.put(key(p), wiretest.WebProfile())
	}
	done := make(chan struct{})
	for g := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 200 {
				c := w.getProfile(fmt.Sprintf("web.shop.svc.cluster.local:%d", 1+(g+i)%4), "")
				if i%3 == 0 {
					p := wiretest.WebProfile(fmt.Sprint("r", i%5))
					if i%2 == 0 {
						p = with(p, rejected)
					}
					w.profiles.put(key((g+i)%4), p)
				}
				c.hangUp()
			}
		}()
	}
	for range 8 {
		<-done
	}
	var last []*caller
	for p := range 4 {
		last = append(last, w.getProfile(fmt.Sprintf("web.shop.svc.cluster.local:%d", 1+p), ""))
		w.profiles.put(key(p), wiretest.WebProfile("last"))
	}
	for _, c := range last {
		wiretest.Until(t, "the stream has the newest", func() bool {
			m := c.take()
			return len(m) > 0 && wiretest.ProfileLine(m[len(m)-1].profile) == "web routes last"
		})
		c.hangUp()
	}
	wiretest.Until(t, "no views are left", func() bool { all, _, _ := w.server.profileViews.count(); return all == 0 && w.profiles.open() == 0 })
}
