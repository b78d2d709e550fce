package federation

import (
	"net/netip"
	"testing"
	"time"
)

// TestOrigin: a set says where and when its newest change happened; nowhere, if
// that was a link.
func TestOrigin(t *testing.T) {
	web := ServiceID{"ns", "web"}
	table, east := NewTable(Options{}), newCluster("east")
	table.Define(web, &Definition{Federated: true, Members: []Member{{Local, web}, {"east", web}}})
	table.Link(Local, Ready, newCluster(Local))
	table.Link("east", Ready, east)
	w := table.Watch(Key{Service: web, Port: 80})
	defer w.Close()
	expect := func(cluster ClusterName, at time.Time) {
		t.Helper()
		if s, _ := w.Get(); s.Origin != cluster || !s.Changed.Equal(at) {
			t.Errorf("changed in %q at %v, want %q at %v", s.Origin, s.Changed, cluster, at)
		}
	}
	expect("", time.Time{})
	at := time.Unix(1e9, 0)
	east.set(web, "a", Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:0")})
	table.Changed("east", web, at)
	expect("east", at)
	table.Unlink("east")
	expect("", time.Time{})
}
