package local

import (
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
	mu    sync.Mutex
	reads int
}

func (s *slowReader) State(federation.ServiceID) federation.ServiceState { return federation.Present }

func (s *slowReader) Reader(federation.ServiceID, uint16) federation.Reader {
	return s
}

func (s *slowReader) Read() federation.Share {
	time.Sleep(s.Duration)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return federation.Share{State: federation.Present}
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

// membersOf returns the members of a watched Service.
func membersOf(e *env, id federation.ServiceID) []federation.WatchedMember {
	for _, port := range e.table.Watched() {
		if port.Service == id {
			return port.Members
		}
	}
	return nil
}
