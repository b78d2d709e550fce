package local

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/internal/pace"
)

func localWithZones() *Cluster { return &Cluster{zones: newZones()} }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestUnknownNodesLeaveNothing(t *testing.T) {
	l := localWithZones()
	_, first := l.Zone("x")
	for i := range 1000 {
		if _, c := l.Zone(strconv.Itoa(i)); c != first {
			t.Fatal("an unknown node has its own channel")
		}
	}
	if len(l.zones.nodes) != 0 {
		t.Errorf("%d nodes are cached", len(l.zones.nodes))
	}
}

// TestRestlessZones checks that a flapping Node wakes its clients and those of unknown Nodes at
// most once a second. The last zone is not missed. All zones known before clients are served are
// passed on by then.
func TestRestlessZones(t *testing.T) {
	inBubble(t, func(e *env) {
		for i := range 5 {
			e.cluster.own.NodeChanged("n"+strconv.Itoa(i), "a", true)
		}
		e.sync()
		for i := range 5 {
			if zone, _ := e.local.Zone("n" + strconv.Itoa(i)); zone != "a" {
				t.Errorf("when clients are served, node %d is in zone %q", i, zone)
			}
		}
		for _, x := range []struct {
			asked string
			flap  func(i int)
		}{
			{"n1", func(i int) { e.cluster.own.NodeChanged("n1", strconv.Itoa(i), true) }},
			{"n1", func(i int) { e.cluster.own.NodeChanged("n1", strconv.Itoa(i), i%2 > 0) }},
			{"unknown", func(i int) { e.cluster.own.NodeChanged("n1", strconv.Itoa(i), i%2 > 0) }},
		} {
			time.Sleep(2 * pace.SignalPause)
			wakes := 0
			for i := range 1000 { // in ten seconds
				_, changed := e.local.Zone(x.asked)
				x.flap(i)
				time.Sleep(pace.SignalPause / 100)
				synctest.Wait()
				if isClosed(changed) {
					wakes++
				}
			}
			if wakes > 12 {
				t.Errorf("a client of node %s was woken %d times in ten seconds", x.asked, wakes)
			}
			time.Sleep(pace.SignalPause)
			synctest.Wait()
			if zone, _ := e.local.Zone("n1"); zone != "999" {
				t.Errorf("the last zone is %q", zone)
			}
		}
	})
}
