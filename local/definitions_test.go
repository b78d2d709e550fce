package local

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// slowReader is a source whose members take long to read.
type slowReader struct {
	time.Duration
	slices []*federation.Slice
	mu     sync.Mutex
	reads  int
}

func (s *slowReader) State(federation.ServiceID) federation.ServiceState { return federation.Present }

func (s *slowReader) Declares(federation.ServiceID, uint16) bool { return true }

func (s *slowReader) Reader(federation.ServiceID, uint16) federation.Reader {
	return s
}

func (s *slowReader) Read() federation.Share {
	time.Sleep(s.Duration)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return federation.Share{State: federation.Present, Slices: s.slices}
}

// TestDefinedBeforeReady: once the cluster is ready, all Services are defined.
func TestDefinedBeforeReady(t *testing.T) {
	inBubble(t, func(e *env) {
		w := e.table.Watch(federation.Key{Service: shopWeb, Port: 80})
		defer w.Close()
		e.service(shopWeb, &cluster.Service{})
		close(e.cluster.synced)
		<-e.local.Synced()
		if set, _ := w.Get(); !set.Exists {
			t.Error("a Service is not defined")
		}
	})
}

// TestDefinitionsCollapse: while it takes a second to make the definition of a Service,
// that changes ten times a second. What is made is the newest, and the Services of other
// namespaces do not wait for it.
func TestDefinitionsCollapse(t *testing.T) {
	inBubble(t, func(e *env) {
		slow := &slowReader{Duration: time.Second}
		e.table.Link("far", federation.Ready, slow)
		e.table.Link("farther", federation.Ready, slow)
		e.sync()
		w := e.table.Watch(federation.Key{Service: shopWeb, Port: 80})
		defer w.Close()
		other := federation.ServiceID{Namespace: "other", Name: "web"}
		defined := e.table.Watch(federation.Key{Service: other, Port: 80})
		defer defined.Close()
		for i := range 101 { // 10 s
			item := []string{"web@far", "web@farther"}[i%2]
			e.change(shopWeb, &cluster.Service{Annotations: map[string]string{remoteDiscovery: item}})
			time.Sleep(100 * time.Millisecond)
		}
		e.service(other, &cluster.Service{})
		if set, _ := defined.Get(); !set.Exists {
			t.Error("a Service of another namespace waits")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if members := membersOf(e, shopWeb); len(members) != 1 || members[0].Member.Cluster != "far" || slow.reads > 12 {
			t.Errorf("members %+v, after %d definitions", members, slow.reads)
		}
	})
}

// TestOwnersChange: an address that gets an owner is taken from linked clusters, which is asked for once its owner may have changed,
// and not when it is looked up for profiles.
func TestOwnersChange(t *testing.T) {
	inBubble(t, func(e *env) {
		addr := netip.MustParseAddrPort(podAddr)
		e.table.Link("far", federation.Ready, &slowReader{slices: []*federation.Slice{{Endpoints: []*federation.Endpoint{{Addr: addr, Cluster: "far"}}}}})
		e.service(shopWeb, &cluster.Service{Annotations: map[string]string{remoteDiscovery: "web@far"}})
		e.sync()
		w := e.table.Watch(federation.Key{Service: shopWeb, Port: 80})
		defer w.Close()
		e.cluster.owners = map[netip.Addr]string{addr.Addr(): "Pod shop/web-1"}
		for _, owner := range []bool{false, true} {
			e.cluster.asked = 0
			e.cluster.own.ProfileChanged(cluster.Topic{IP: addr.Addr(), AddressOwner: owner}, time.Now())
			synctest.Wait()
			if set, _ := w.Get(); (e.cluster.asked > 0) != owner || (len(set.Endpoints) == 0) != owner {
				t.Errorf("owner %v: asked %d times, %d endpoints", owner, e.cluster.asked, len(set.Endpoints))
			}
		}
	})
}

// membersOf returns the members of a watched Service.
func membersOf(e *env, id federation.ServiceID) []federation.WatchedMember {
	for _, port := range e.table.Watched() {
		if port.Service == id {
			return port.Members
		}
	}
	return nil
}
