package cluster

import (
	"testing"
)

// TestSliceEqual: slices are equal only if their addresses have the same hostnames and places.
func TestSliceEqual(t *testing.T) {
	data := func(address string) *slice {
		d, ok := compactSlice(aSlice("s", "web", "http=80", address), false, "")
		if !ok {
			t.Fatalf("%s is left out", address)
		}
		return d
	}
	for _, address := range []string{"10.0.0.1", "10.0.0.1 host=a", "10.0.0.1 zone=a"} {
		if !data(address).alike(data(address), true) {
			t.Errorf("%s is not equal to itself", address)
		}
		if other := data("10.0.0.1 host=b zone=b"); other.alike(data(address), true) || data(address).alike(other, true) {
			t.Errorf("%s is equal to another", address)
		}
	}
	if data("10.0.0.1").alike(data("10.0.0.1 host=a"), true) {
		t.Error("without a hostname it is equal to one with it")
	}
}

// TestUnreadyAlone: an address that is not ready is not connected with its Pod, whose changes are none of it.
func TestUnreadyAlone(t *testing.T) {
	w := newWorld(t, nil)
	last := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p node=n unready")
	w.put(aService("web", "http=80"), last)
	w.marked()
	w.put(last, aPod("p"), aPod("p", meshed), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p node=n unready hint=a"))
	w.del(aPod("p"))
	if marked := w.marked(); len(marked) > 0 || w.state.size() != 2 {
		t.Errorf("reported %q, %d objects are kept", marked, w.state.size())
	}
}
