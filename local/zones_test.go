package local

import (
	"strconv"
	"sync"
	"testing"

	"isthmus/federation"
)

func newZones() *Local {
	return &Local{zones: zones{nodes: make(map[string]*federation.Latest[string])}}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestZone(t *testing.T) {
	l := newZones()
	want := func(node, zone string) <-chan struct{} {
		t.Helper()
		got, changed := l.Zone(node)
		if got != zone {
			t.Errorf("zone %q, want %q", got, zone)
		}
		if isClosed(changed) {
			t.Error("the channel is closed already")
		}
		return changed
	}
	moved := func(what string, c <-chan struct{}, want bool) {
		t.Helper()
		if isClosed(c) != want {
			t.Errorf("%s: channel closed: %v", what, !want)
		}
	}
	unknown := want("n1", "")
	l.zones.set("n2", "b", true)
	moved("another node appears", unknown, true)
	unknown = want("n1", "")
	n2 := want("n2", "b")
	l.zones.set("n2", "b", true)
	moved("no change", n2, false)
	l.zones.set("n2", "c", true)
	moved("relabelled", n2, true)
	moved("another node is relabelled", unknown, false)
	l.zones.set("n1", "", true)
	moved("it appears", unknown, true)
	n1, n2 := want("n1", ""), want("n2", "c")
	l.zones.set("n1", "a", true)
	moved("labelled", n1, true)
	l.zones.set("n2", "", false)
	moved("gone", n2, true)
	n2 = want("n2", "")
	l.zones.set("n2", "", false)
	moved("gone again", n2, false)
	l.zones.set("n2", "d", true)
	moved("back", n2, true)
	want("n2", "d")
}

func TestZoneOfNoNode(t *testing.T) {
	if zone, changed := newZones().Zone(""); zone != "" || changed != nil {
		t.Errorf("zone %q, changed %v", zone, changed)
	}
}

func TestUnknownNodesLeaveNothing(t *testing.T) {
	l := newZones()
	_, first := l.Zone("x")
	for i := range 1000 {
		if _, c := l.Zone(strconv.Itoa(i)); c != first {
			t.Fatal("an unknown node has a channel of its own")
		}
	}
	if len(l.zones.nodes) != 0 {
		t.Errorf("%d nodes are known", len(l.zones.nodes))
	}
}

// TestZoneIsNeverMissed: a caller that asks again whenever the channel is closed ends
// up with the newest zone.
func TestZoneIsNeverMissed(t *testing.T) {
	l := newZones()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				zone, changed := l.Zone("n")
				if zone == "last" {
					return
				}
				<-changed
			}
		})
	}
	for i := range 1000 {
		l.zones.set("n", strconv.Itoa(i), i%3 > 0)
	}
	l.zones.set("n", "last", true)
	all.Wait()
}
