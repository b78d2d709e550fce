package federation

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Latest[int]
		v, stale := l.Get()
		if v != 0 {
			t.Fatalf("zero value: %d", v)
		}
		woken := 0
		var wg sync.WaitGroup
		wg.Go(func() { <-stale; woken++ })
		synctest.Wait()
		if woken != 0 {
			t.Fatal("woken before anything was set")
		}
		l.Set(1)
		l.Set(2)
		wg.Wait()
		if v, stale := l.Get(); v != 2 {
			t.Fatalf("got %d, want the newest", v)
		} else {
			select {
			case <-stale:
				t.Fatal("the newest value is stale")
			case <-time.After(time.Hour):
			}
		}
	})
}

// TestShared uses a table from many goroutines at once: what is published must
// be consistent in itself, and after all is quiet be the newest.
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
						t.Error("a set that can't be", now)
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
		t.Fatalf("in the end: %+v", now)
	}
}

// broken is a source that panics the first time it is read.
type broken struct{ *flip }

func (b *broken) Reader(ServiceID, uint16) Reader {
	if b.n++; b.n == 1 {
		panic("broken")
	}
	return b.flip
}

// TestBrokenSource: a source that panics while a watch is opened leaves nothing
// half built.
func TestBrokenSource(t *testing.T) {
	table, id := NewTable(Options{}), ServiceID{"ns", "web"}
	table.Link("east", Ready, &broken{newFlip(0, 1)})
	table.Define(id, &Definition{Members: []Member{{"east", id}}})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not come out")
			}
		}()
		table.Watch(Key{Service: id, Port: 80})
	}()
	w := table.Watch(Key{Service: id, Port: 80})
	if set, _ := w.Get(); len(set.Endpoints) != 100 {
		t.Errorf("%d endpoints", len(set.Endpoints))
	}
	w.Close()
	if len(table.watched) != 0 || len(table.users) != 0 {
		t.Errorf("left behind: %v %v", table.watched, table.users)
	}
}
