package federation

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestShared uses a table from many goroutines at once. The test checks that each published set is
// consistent, and that the last set is the newest.
//
// Behaviours: X-22.
func TestShared(t *testing.T) {
	w := newWorld(Options{})
	w.table.opts.Report = nil
	id := ServiceID{"ns", "web"}
	w.table.Define(id, &Definition{Federated: true, Members: []Member{{Local, id}, {"east", id}}})
	var wg sync.WaitGroup
	for _, c := range []ClusterName{Local, "east"} {
		src := w.cluster(c)
		wg.Go(func() {
			for i := range 200 {
				e, _ := endpoint("10.0.0.1")
				e.Zone = []string{"a", "b", "c"}[i%3]
				src.set(id, "s", e)
				if w.table.Changed(c, id, time.Now()); i%10 == 0 {
					w.table.Unlink(c)
				}
				w.table.Link(c, Ready, src)
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			for range 100 {
				x := w.table.Watch(Key{Service: id, Port: 80})
				var last *Set
				for range 5 {
					now, _ := x.Get()
					if Diff(last, now); len(now.Endpoints) > 1 || last != nil && now.Version < last.Version {
						t.Error("inconsistent or outdated set:", now)
					}
					last = now
				}
				x.Close()
			}
		})
	}
	wg.Wait()
	x := w.table.Watch(Key{Service: id, Port: 80})
	defer x.Close()
	if now, _ := x.Get(); len(now.Endpoints) != 1 || now.Endpoints[0].Cluster != Local || now.Endpoints[0].Zone != "b" {
		t.Fatalf("final set: %+v", now)
	}
}

// broken is a source that panics when it is first read.
type broken struct{ *flip }

func (b *broken) Reader(ServiceID, uint16) Reader {
	if b.n++; b.n == 1 {
		panic("broken")
	}
	return b.flip
}

// TestBrokenSource checks that the table holds no incomplete state if a source panics while a watch
// begins.
func TestBrokenSource(t *testing.T) {
	table, id := NewTable(Options{}), ServiceID{"ns", "web"}
	table.Link("east", Ready, &broken{newFlip(0, 1)})
	table.Define(id, &Definition{Members: []Member{{"east", id}}})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Watch did not panic")
			}
		}()
		table.Watch(Key{Service: id, Port: 80})
	}()
	w := table.Watch(Key{Service: id, Port: 80})
	if set, _ := w.Get(); len(set.Endpoints) != 100 {
		t.Errorf("%d endpoints", len(set.Endpoints))
	}
	w.Close()
	if len(table.watched.list) != 0 || len(table.byMember) != 0 || len(table.updates) != 0 {
		t.Errorf("the table still holds %v %v %v", table.watched.list, table.byMember, table.updates)
	}
}

// TestLinkInTurn checks the updates when a cluster is linked. A namespace with many services does
// not delay a namespace with few services.
func TestLinkInTurn(t *testing.T) {
	table := NewTable(Options{})
	source := &reading{}
	watch := func(namespace, name string) {
		id := ServiceID{namespace, name}
		table.Define(id, &Definition{Members: []Member{{"east", id}}})
		w := table.Watch(Key{Service: id, Port: 80})
		t.Cleanup(w.Close)
	}
	for i := range 100 {
		watch("many", string(rune('0'+i)))
	}
	watch("few", "a")
	watch("few", "b")
	table.Link("east", Ready, source)
	few := 0
	for _, id := range source.services[:6] {
		if id.Namespace == "few" {
			few++
		}
	}
	if few != 2 || len(source.services) != 102 {
		t.Errorf("%d of the first 6 of %d services are in the small namespace", few, len(source.services))
	}
}

// reading is a source that records the services that are read, in order.
type reading struct{ services []ServiceID }

func (r *reading) State(ServiceID) ServiceState { return Present }

func (r *reading) Declares(ServiceID, uint16) bool { return true }

func (r *reading) Reader(id ServiceID, _ uint16) Reader {
	r.services = append(r.services, id)
	return r
}

func (r *reading) Read() Share { return Share{State: Present} }
