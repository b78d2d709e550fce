package main

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

// manyShops has so many clusters and federated services of three members each, all of them watched.
func manyShops(tb testing.TB, clusters, services int) *shop {
	o := newShop(federation.NewTable(federation.Options{}))
	o.own.ports = []uint16{80, 8080}
	for i := range clusters {
		name := federation.ClusterName(fmt.Sprintf("c%03d", i))
		o.linked = append(o.linked, adminapi.Cluster{Cluster: string(name), Secret: "s", ClusterStatus: cluster.Status{State: cluster.Ready, Standing: "in-service"}})
		from := numbered(name, i, 1)
		if all := from.offers; i%2 == 1 {
			from.offers = func(id federation.ServiceID) []netip.AddrPort {
				if strings.HasSuffix(id.Name, "7") {
					return nil
				}
				return all(id)
			}
		}
		o.table.Link(name, federation.Ready, from)
	}
	for i := range services {
		id := federation.ServiceID{Namespace: fmt.Sprint("ns-", i%100), Name: fmt.Sprint("web-", i)}
		d := &federation.Definition{Federated: true}
		for m := range 3 {
			d.Members = append(d.Members, federation.Member{Cluster: federation.ClusterName(o.linked[(i+m)%clusters].Cluster), Service: id})
		}
		o.table.Define(id, d)
		tb.Cleanup(o.table.Watch(federation.Key{Service: id, Port: 80}).Close)
		o.served.views = append(o.served.views, grpcapi.ViewStatus{Service: id, View: adminapi.View{Method: "Get", Destination: id.Name, Streams: 1 + i%3}})
	}
	return o
}

func TestListContent(t *testing.T) {
	o := manyShops(t, 4, 8)
	plain, mirrored, typo := federation.ServiceID{Namespace: "a", Name: "plain"}, federation.ServiceID{Namespace: "a", Name: "cart-c001"}, federation.ServiceID{Namespace: "a", Name: "typo"}
	for id, member := range map[federation.ServiceID]federation.Member{
		plain: {Service: plain}, mirrored: {Cluster: "c001", Service: federation.ServiceID{Namespace: "a", Name: "cart"}}, typo: {Service: typo},
	} {
		o.table.Define(id, &federation.Definition{Members: []federation.Member{member}})
	}
	unknown := federation.ServiceID{Namespace: "a", Name: "unknown"}
	defer o.table.Watch(federation.Key{Service: unknown, Port: 81}).Close()
	o.own.problems = []adminapi.Problem{{Service: "a/typo", Problems: []string{"<b>\x1b[1m"}}}
	o.linked[2].Standing, o.linked[2].StandingReason = "withdrawn", "cordoned\n"
	w := o.lists()
	if len(w.Clusters) != 5 || w.Clusters[0].Cluster != "local" || w.Clusters[3].StandingReason != "cordoned " || len(w.Streams) != 8 {
		t.Errorf("%+v", w.Clusters)
	}
	got := map[string]string{}
	for _, s := range w.Services {
		text := fmt.Sprintf("%s :%d %v streams=%d serving=%d endpoints=%d %q", s.Kind, s.Port, s.Ports, s.Streams, s.Serving, s.Endpoints, s.Problems)
		for _, m := range s.Members {
			text += fmt.Sprintf(" | %s %s %d %s %s", m.Cluster, m.Service, m.Endpoints, m.Reason, m.Standing)
		}
		got[s.Namespace+"/"+s.Name] = text
	}
	for name, want := range map[string]string{
		"ns-0/web-0":  `federated :80 [80 8080] streams=1 serving=3 endpoints=3 [] | c000  1   | c001  1   | c002  1  withdrawn`,
		"ns-7/web-7":  `federated :80 [80 8080] streams=2 serving=1 endpoints=1 [] | c003  0 no such Service in the cluster  | c000  1   | c001  0 no such Service in the cluster `,
		"a/cart-c001": `mirrored :80 [80 8080] streams=0 serving=1 endpoints=0 [] | c001 a/cart 0  `,
		"a/typo":      `plain :80 [80 8080] streams=0 serving=1 endpoints=0 ["<b>` + "\ufffd" + `[1m"] | local  0  `,
		"a/unknown":   `undefined :81 [80 81 8080] streams=0 serving=0 endpoints=0 []`,
		"a/plain":     "",
	} {
		if got[name] != want {
			t.Errorf("%s:\n%s, want\n%s", name, got[name], want)
		}
	}
}

// TestManyMembers: those that do not serve are listed, whatever the number of others.
func TestManyMembers(t *testing.T) {
	o := manyShops(t, 60, 1)
	id := federation.ServiceID{Namespace: "a", Name: "web-7"}
	d := &federation.Definition{Federated: true}
	for i := range 60 {
		d.Members = append(d.Members, federation.Member{Cluster: federation.ClusterName(fmt.Sprintf("c%03d", i)), Service: id})
	}
	d.Members = append(d.Members[:40:40], d.Members[58:]...)
	o.table.Define(id, d)
	for _, s := range o.lists().Services {
		if s.Name == "web-7" && (len(s.Members) != maxMembers || s.MoreMembers != 30 || s.Serving != 21 || s.Members[0].Reason == "") {
			t.Errorf("%+v", s)
		}
	}
}

// BenchmarkListContent is making the lists anew, which the page at / asks for.
func BenchmarkListContent(b *testing.B) {
	for _, n := range []struct{ clusters, services int }{{3, 100}, {250, 10_000}} {
		b.Run(fmt.Sprintf("clusters=%d/services=%d", n.clusters, n.services), func(b *testing.B) {
			o := manyShops(b, n.clusters, n.services)
			b.ReportAllocs()
			for b.Loop() {
				if w := o.lists(); len(w.Services) != n.services {
					b.Fatal(len(w.Services))
				}
			}
		})
	}
}
