package cluster

import (
	"fmt"
	"strings"
	"testing"
	"unique"

	"isthmus/internal/spec"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func aNode(name, region string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	o.Labels = map[string]string{zoneLabel: "z"}
	if region != "" {
		o.Labels[regionLabel] = region
	}
	return o
}

// aLocalNode returns a Node of the local cluster with the given addresses.
func aLocalNode(name string, addresses ...string) *corev1.Node {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, text := range addresses {
		o.Status.Addresses = append(o.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: text})
	}
	return o
}

// TestRegion checks that a cluster has a region if all Nodes agree on one. Each change is reported
// once, after it took effect.
//
// Behaviours: ZR-03, ZR-05, ZR-07.
func TestRegion(t *testing.T) {
	var reported []string
	var w *world
	w = newWorld(t, func(c *Config) {
		c.LinkChanged = func() { reported = append(reported, w.region()) }
	})
	for i, x := range []struct {
		nodes []any // the Nodes of the next list
		want  string
	}{
		{[]any{aNode("a", "north"), aNode("b", "north")}, "north"},
		{[]any{aNode("a", "north")}, "north"},
		{[]any{aNode("a", "north"), aNode("b", "south"), aNode("c", "north")}, ""},
		{[]any{aNode("b", "south")}, "south"},
		{[]any{aNode("b", "south"), aNode("c", "")}, ""},
		{[]any{aNode("c", "west")}, "west"},
		{[]any{aNode("c", "\xff")}, ""}, // not printable
		{[]any{aNode("c", strings.Repeat("x", maxSentText+1))}, ""},
		{nil, ""},
	} {
		before := w.region()
		w.store("nodes").Replace(x.nodes...)
		if got := w.region(); got != x.want || len(reported) > 1 || (len(reported) == 1) != (got != before) ||
			len(reported) == 1 && reported[0] != got {
			t.Errorf("step %d: %q, want %q; reported %q", i, got, x.want, reported)
		}
		reported = nil
	}
}

// TestRegionReference compares the regions of clusters with random Nodes with package spec.
func TestRegionReference(t *testing.T) {
	w := newWorld(t, nil)
	drawRegion := rapid.SampledFrom([]string{"north", "north", "north", "south", "", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		regions := rapid.SliceOfN(drawRegion, 0, 4).Draw(t, "regions")
		var nodes []any
		for i, region := range regions {
			nodes = append(nodes, aNode(fmt.Sprint("node-", i), region))
		}
		w.store("nodes").Replace(nodes...)
		if got, want := w.region(), spec.CommonRegion(regions); got != want {
			t.Fatalf("region %q, want %q: %q", got, want, regions)
		}
	})
}

// TestRegionOfMany checks that an event of one Node is handled without a walk over all Nodes. A
// cluster may have 200,000 Nodes.
func TestRegionOfMany(t *testing.T) {
	w := newWorld(t, nil)
	w.put(aNode("a", "north"))
	w.cache.nodes.byName["b"] = node{region: unique.Make("south")} // found only by a walk over all Nodes
	node := aNode("a", "north")
	for _, zone := range []string{"z", "y"} {
		node.Labels[zoneLabel] = zone
		if w.put(node); w.region() != "north" {
			t.Errorf("zone %s: region %q", zone, w.region())
		}
	}
}

// region returns the region of the cluster, or "" if there is none.
func (w *world) region() string {
	region, _ := w.Region()
	return region
}
