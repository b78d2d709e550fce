package federation

import "testing"

// TestLinkInTurn: when a cluster is linked, a namespace with many services does not hold
// up one with few.
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
		t.Errorf("%d of the first 6 of %d are of the namespace with few", few, len(source.services))
	}
}

// reading is a source that remembers what is read, in order.
type reading struct{ services []ServiceID }

func (r *reading) State(ServiceID) ServiceState { return Present }

func (r *reading) Declares(ServiceID, uint16) bool { return true }

func (r *reading) Reader(id ServiceID, _ uint16) Reader {
	r.services = append(r.services, id)
	return r
}

func (r *reading) Read() Share { return Share{State: Present} }
