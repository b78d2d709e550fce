package cluster

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"isthmus/clusterstore/budget"
)

func aNode(name, region string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.Labels = map[string]string{zoneLabel: "z"}
	if region != "" {
		o.Labels[regionLabel] = region
	}
	return o
}

// regions is a cluster that follows its Nodes, and the regions that it had when it
// reported a change.
type regions struct {
	*world
	reported []string
}

func newRegions(t testing.TB) *regions {
	r := &regions{}
	r.world = newWorld(t, func(c *Config) {
		c.Nodes = true
		c.RegionChanged = func() { r.reported = append(r.reported, r.Region()) }
	})
	return r
}

// TestRegionOfList: no part of a list counts as the Nodes.
func TestRegionOfList(t *testing.T) {
	r := newRegions(t)
	replace := func(nodes ...any) {
		t.Helper()
		if err := r.store("nodes").Replace(nodes, ""); err != nil {
			t.Fatal(err)
		}
	}
	replace(aNode("a", "north"), aNode("b", "south"))
	if len(r.reported) > 0 {
		t.Errorf("reported %q", r.reported)
	}
	replace(aNode("c", "north"), aNode("b", "north"))
	replace(aNode("d", "south"), aNode("e", "south"))
	replace()
	if want := []string{"north", "south", ""}; !slices.Equal(r.reported, want) {
		t.Errorf("reported %q, want %q", r.reported, want)
	}
}

// TestRegionReference compares the region after random events with the one that all Nodes have, and
// checks that every change of it is reported once, after it.
func TestRegionReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, all := newRegions(t), make(map[string]string)
		name, region := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"", "north", "north", "south", "\xff", strings.Repeat("x", maxText+1)})
		before := ""
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				n := name.Draw(rt, "name")
				all[n] = region.Draw(rt, "region")
				r.put(aNode(n, all[n]))
			},
			"delete": func(rt *rapid.T) {
				n := name.Draw(rt, "name")
				delete(all, n)
				r.del(aNode(n, ""))
			},
			"relist": func(rt *rapid.T) {
				clear(all)
				var list []any
				for range rapid.IntRange(0, 3).Draw(rt, "n") {
					n := name.Draw(rt, "name")
					all[n] = region.Draw(rt, "region")
				}
				for n, of := range all {
					list = append(list, aNode(n, of))
				}
				must(rt, r.store("nodes").Replace(list, ""))
			},
			"": func(rt *rapid.T) {
				want := ""
				if of := slices.Compact(slices.Sorted(maps.Values(all))); len(of) == 1 && sendableText(of[0]) { // others can't be shown
					want = of[0]
				}
				if got := r.Region(); got != want {
					rt.Fatalf("%q of %v, want %q", got, all, want)
				}
				if changed := want != before; changed != (len(r.reported) == 1) || len(r.reported) > 1 {
					rt.Fatalf("from %q to %q, reported %q", before, want, r.reported)
				}
				before, r.reported = want, nil
			},
		})
		must(rt, r.store("nodes").Replace(nil, ""))
		if x := r.state.nodes; len(x.byName)+len(x.regions) > 0 || x.region != "" {
			rt.Fatalf("left behind: %+v", x)
		}
	})
}

// TestRegionOptional: Nodes that can't be read delay nothing, and don't make a cluster
// stale; the region is known as soon as they can. What was read stays unless the API has
// no Nodes any more.
func TestRegionOptional(t *testing.T) {
	for name, err := range map[string]error{
		"forbidden": forbidden("nodes"),
		"absent":    apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, ""),
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(c *Config, tr *trouble) {
				c.Nodes = true
				tr.set("* nodes", err)
			}, func(r *running) {
				healthy := func() {
					t.Helper()
					if h := r.Health(); !r.isSynced() || h.Err != nil || !h.StaleSince.IsZero() {
						t.Errorf("%+v", h)
					}
				}
				r.create(aNode("a", "north"))
				time.Sleep(time.Hour)
				if healthy(); r.Region() != "" {
					t.Errorf("%q of Nodes that can't be read", r.Region())
				}
				r.trouble.set("* nodes", nil)
				r.until("region", 30*time.Second, func() bool { return r.Region() == "north" })
				r.trouble.set("* nodes", forbidden("nodes"))
				r.trouble.cut()
				time.Sleep(time.Hour)
				if healthy(); r.Region() != "north" {
					t.Errorf("%q when Nodes can't be read any more", r.Region())
				}
			})
		})
	}
}

// TestRegionHangingCallback: while RegionChanged runs no lock is held. It holds up nothing
// but Nodes.
func TestRegionHangingCallback(t *testing.T) {
	var hang chan struct{}
	inCluster(t, func(c *Config, _ *trouble) {
		hang, c.Nodes = make(chan struct{}), true
		c.RegionChanged = func() { <-hang }
	}, func(r *running) {
		r.create(aNode("a", "north"))
		r.create(aPod("p"))
		r.create(aNode("b", "south"))
		if got := r.addrs(); got != "10.0.0.1:8080" || r.Region() != "north" {
			t.Errorf("%q, region %q", got, r.Region())
		}
		close(hang)
		synctest.Wait()
		if r.Region() != "" {
			t.Errorf("%q", r.Region())
		}
	}, aService("web", "http=80"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"))
}

// TestEndlessNodes: made-up Nodes of a linked cluster are bounded by its budget, and their
// regions leave nothing behind.
func TestEndlessNodes(t *testing.T) {
	const limit = 4 << 20
	b := budget.NewPool(budget.Limits{Cluster: limit, All: 2 * limit}).Add()
	w := newWorld(t, func(c *Config) { c.Nodes, c.Budget = true, b })
	feed := w.store("nodes")
	before := heap()
	for i := range 30_000 {
		if err := feed.Update(aNode(fmt.Sprint("n", i), fmt.Sprint("r", i))); err != nil {
			t.Fatal(err)
		}
	}
	x := &w.state.nodes
	if n := len(x.byName); n < 1000 || n > 20_000 || len(x.regions) != n {
		t.Errorf("%d Nodes and %d regions are kept", n, len(x.regions))
	}
	if took := heap() - before; took > limit*3/2 {
		t.Errorf("they take %d KiB", took>>10)
	}
	for name := range maps.Clone(x.byName) {
		w.del(aNode(name, ""))
	}
	for i := range 20_000 { // one Node with ever other regions
		w.put(aNode("n", fmt.Sprint("s", i)))
	}
	if len(x.regions) != 1 {
		t.Errorf("%d regions are kept", len(x.regions))
	}
	took := heap() - before
	for range 10 { // texts that are unique go once a goroutine of the runtime has noticed that they are garbage
		took = min(took, heap()-before)
	}
	runtime.KeepAlive(w)
	if took > limit/2 {
		t.Errorf("%d KiB are left", took>>10)
	}
}
