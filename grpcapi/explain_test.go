package grpcapi

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
)

// explains is an option that makes a caller request tiers.
func explains(c *caller) { c.explains = true }

// tiers returns the endpoints of an add with their tiers and standings.
func tiers(add *pb.WeightedAddrSet) (list []string) {
	for _, a := range add.GetAddrs() {
		labels := maps.Clone(add.GetMetricLabels())
		if labels == nil {
			labels = make(map[string]string)
		}
		maps.Copy(labels, a.GetMetricLabels())
		list = append(list, fmt.Sprintf("%d:%s/%s",
			a.GetAddr().GetIp().GetIpv4()>>16&255, labels["isthmus_tier"], labels["isthmus_standing"]))
	}
	slices.Sort(list)
	return list
}

// prefer defines a preference of web: the client's zone, then the local cluster, then all others.
func (w *world) prefer() {
	d := *w.table.Definitions()[web]
	d.Preference = &federation.Preference{
		Tiers: []federation.Tier{
			{{Kind: federation.ClientZone}},
			{{Kind: federation.LocalCluster}},
			{{Kind: federation.AnyCluster}},
		},
		MinReady: federation.MinReady{Count: 3},
	}
	w.table.Define(web, &d)
}

// TestExplain checks that a client that requests tiers gets tiers and standings, even if nothing
// else changes. A tier with many clusters gets a short name. Proxies receive neither labels of
// tiers and standings nor messages about tiers.
func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: -1})
		w.nodes.move("n1", "a")
		inA := pod("10.1.0.1:80")
		inA.Zone = "a"
		w.offer("", pods("10.0.0.1:80")...)
		w.offer("east", inA)
		proxy, c := w.get(webAddr, "n1"), w.get(webAddr, "n1", explains)
		defer proxy.hangUp()
		defer c.hangUp()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, m := range c.take() {
				if m.update.GetAdd() == nil {
					t.Errorf("message %v", m.update)
				}
				got = append(got, tiers(m.update.GetAdd())...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		expect("0:/", "1:/")
		d, x := *w.table.Definitions()[web], strings.Repeat("x", 100)
		d.Preference = &federation.Preference{Tiers: []federation.Tier{{
			{Kind: federation.LocalCluster},
			{Kind: federation.Named, Cluster: "east"},
			{Kind: federation.Named, Cluster: federation.ClusterName(x)},
		}}}
		w.table.Define(web, &d)
		long := ("local+east+" + x)[:100] + ".../in-service"
		expect("0:"+long, "1:"+long)
		w.prefer()
		expect("0:local/in-service", "1:zone/in-service")
		w.table.SetLink("east",
			federation.Link{State: federation.Ready, Source: w.clusters["east"], Cordon: federation.LastResort})
		w.offer("")
		synctest.Wait()
		c.take()
		w.table.SetLink("east", federation.Link{State: federation.Ready, Source: w.clusters["east"]})
		expect("1:zone/in-service")
		w.table.SetLink("east",
			federation.Link{State: federation.Ready, Source: w.clusters["east"], Lost: federation.LastResort})
		expect("1:last-resort/last-resort")
		w.table.SetLink("east", federation.Link{
			State:  federation.Ready,
			Source: w.clusters["east"],
			Lost:   federation.LastResort,
			Cordon: federation.LastResort,
			Region: "r",
		})
		expect() // its standing and its tier have not changed
		synctest.Wait()
		for _, m := range proxy.take() {
			if text := m.update.String(); strings.Contains(text, "isthmus") {
				t.Errorf("a proxy got %s", text)
			}
		}
		w.table.SetLink("east", federation.Link{State: federation.Ready, Source: w.clusters["east"]})
		expect("1:zone/in-service")
		d = *w.table.Definitions()[web]
		d.Preference = new(*d.Preference)
		d.Preference.MinReady.Count = 2 // does not change tiers
		w.table.Define(web, &d)
		expect()
		named := d
		named.Preference = new(*d.Preference)
		named.Preference.Tiers = slices.Clone(d.Preference.Tiers)
		named.Preference.Tiers[0] = federation.Tier{
			{Kind: federation.ClientZone},
			{Kind: federation.Named, Cluster: "elsewhere"},
		}
		w.table.Define(web, &named)
		expect("1:zone+elsewhere/in-service") // the same tier with another name
		w.table.Define(web, &d)
		expect("1:zone/in-service")
		proxy.sees(t, "")
		w.offer("east", inA, pod("10.2.0.1:80"))
		expect("2:any/in-service") // contains only the change
		w.offer("east", inA)
		c.sees(t, "remove 10.2.0.1:80")
		proxy.sees(t, "add 10.2.0.1:80; remove 10.2.0.1:80")
	})
}

// TestExplainIsBounded checks that messages for one client count as memory of views until the
// stream ends. The client is refused if no memory is left.
func TestExplainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: -1, ViewBytes: small + small/2})
		w.offer("", pods("10.0.0.1:80")...)
		proxy := w.get(webAddr, "")
		defer proxy.hangUp()
		proxy.sees(t, "add 10.0.0.1:80")
		alone := w.server.viewMemory.inUse()
		w.get(webAddr, "", explains).fails(t, codes.ResourceExhausted, "memory")
		again := w.get(webAddr, "")
		defer again.hangUp()
		again.sees(t, "add 10.0.0.1:80")
		if got := w.server.viewMemory.inUse(); got != alone {
			t.Errorf("%d bytes are in use after the refusal, want %d", got, alone)
		}
	})
}

// TestExplainCounts checks that the memory for messages of one client follows the size of the
// newest set until the stream ends.
func TestExplainCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: -1})
		w.offer("", pods("10.0.0.1:80")...)
		proxy := w.get(webAddr, "")
		proxy.sees(t, "add 10.0.0.1:80")
		alone := w.server.viewMemory.inUse()
		c := w.get(webAddr, "", explains)
		c.sees(t, "add 10.0.0.1:80")
		if got := w.server.viewMemory.inUse(); got != 2*alone {
			t.Errorf("%d bytes are in use, want %d", got, 2*alone)
		}
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		c.sees(t, "add 10.0.0.2:80")
		proxy.sees(t, "add 10.0.0.2:80")
		if got, want := w.server.viewMemory.inUse(), 2*(alone+endpointBytes); got != want {
			t.Errorf("%d bytes are in use after a change, want %d", got, want)
		}
		c.hangUp()
		if got, want := w.server.viewMemory.inUse(), alone+endpointBytes; got != want {
			t.Errorf("%d bytes are in use after the stream ended, want %d", got, want)
		}
		proxy.hangUp()
		if used, owed := w.server.viewMemory.inUse(), w.server.viewMemory.charged; used != 0 || owed != 0 {
			t.Errorf("%d bytes are in use at the end, and %d charged", used, owed)
		}
	})
}

// TestExplanation checks what an explanation says about a proxy's token and the sets of open
// streams.
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
		want := fmt.Sprint(
			webAddr,
			80,
			"shop",
			federation.Client{Zone: "a", Node: "n1"},
			nil,
			map[federation.Verdict]int{federation.Served: 2, federation.Taken: 1},
			0,
		)
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := w.server.Streams(); n != 0 {
			t.Errorf("%d streams are open after the explanation", n)
		}
		if all, _, _ := w.server.getViews.count(); all != 0 {
			t.Errorf("%d views remain", all)
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
			t.Fatalf("sets of open streams: %+v", x.Held)
		}
		zoned, other := x.Held[0], x.Held[1]
		if zoned.Zone != "a" || zoned.Streams != 2 || zoned.Version != 2 || zoned.Endpoints != 3 ||
			zoned.UpToDate != 2 ||
			zoned.Slow != 1 ||
			zoned.LastMessage.Sub(began) != time.Minute/2 {
			t.Errorf("sets of open streams in zone a: %+v", zoned)
		}
		if other.Streams != 1 || other.UpToDate != 1 || other.Slow != 0 {
			t.Errorf("sets of other streams: %+v", other)
		}
		for _, c := range []*caller{quick, slow, unknown} {
			c.hangUp()
		}
	})
}

// TestExplanationRefused checks that an explanation is refused if no memory is left for its view.
// TestExplainRefusals in cmd/isthmus/internal/admin covers the other refusals.
func TestExplanationRefused(t *testing.T) {
	w := newWorld(t, Options{Linger: -1, ViewBytes: 1})
	_, err := w.server.Explain(t.Context(), Question{Authority: webAddr})
	if status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}
