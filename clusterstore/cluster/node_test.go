package cluster

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
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
		if s := r.state; len(s.nodes) > 0 || s.region != "" {
			rt.Fatalf("left behind: %v, %q", s.nodes, s.region)
		}
	})
}
