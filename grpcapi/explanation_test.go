package grpcapi

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
)

// TestExplanation: what a proxy would get, by its token, and what proxies have.
func TestExplanation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: -1})
		w.nodes.move("n1", "a")
		w.offer("", pods("10.0.0.1:80")...)
		w.offer("east", pods("10.0.0.1:80", "10.1.0.1:80")...)
		explain := func(q Question) *Explanation {
			t.Helper()
			q.Authority = webAddr
			x, err := w.server.Explain(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		x := explain(Question{Token: `{"ns":"shop","nodeName":"n1"}`, Limit: 10})
		got := fmt.Sprint(x.Authority, x.Port, x.Namespace, x.Client, x.Refusal, x.Verdicts, len(x.Held))
		want := fmt.Sprint(webAddr, 80, "shop", federation.Client{Zone: "a", Node: "n1"}, nil, map[federation.Verdict]int{federation.Served: 2, federation.Taken: 1}, 0)
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := w.server.Streams(); n != 0 {
			t.Errorf("%d streams after it", n)
		}
		if all, _, _ := w.server.getViews.count(); all != 0 {
			t.Errorf("%d views are left", all)
		}

		quick := w.get(webAddr, "n1")
		slow := w.get(webAddr, "n1", gated)
		unknown := w.get(webAddr, "")
		synctest.Wait()
		slow.gate <- struct{}{}
		synctest.Wait()
		began := time.Now()
		time.Sleep(time.Minute / 2)
		w.offer("north", pods("10.2.0.1:80")...)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		x = explain(Question{Addr: netip.MustParseAddr("10.2.0.1"), Limit: 10})
		if len(x.Addresses) != 1 || x.Addresses[0].Verdict != federation.Served {
			t.Errorf("addresses %+v", x.Addresses)
		}
		if len(x.Held) != 2 {
			t.Fatalf("held: %+v", x.Held)
		}
		zoned, other := x.Held[0], x.Held[1]
		if zoned.Zone != "a" || zoned.Streams != 2 || zoned.Version != 2 || zoned.Endpoints != 3 || zoned.UpToDate != 2 || zoned.Slow != 1 ||
			zoned.LastMessage.Sub(began) != time.Minute/2 {
			t.Errorf("held in zone a: %+v", zoned)
		}
		if other.Streams != 1 || other.UpToDate != 1 || other.Slow != 0 {
			t.Errorf("held by others: %+v", other)
		}
		for _, c := range []*caller{quick, slow, unknown} {
			c.hangUp()
		}
	})
}

// TestExplanationRefused: an explanation, too, needs memory for its view. TestExplainRefusals of cmd/isthmus has what else can't be answered.
func TestExplanationRefused(t *testing.T) {
	w := newWorld(t, Options{Linger: -1, ViewBytes: 1})
	if _, err := w.server.Explain(t.Context(), Question{Authority: webAddr}); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}
