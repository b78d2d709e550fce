package federation

import "sync/atomic"

// updateCount is how often what a member offers at a port has changed: in each watched service
// that has the member, since the first of these is watched.
type updateCount struct {
	key  updateKey // fixed
	n    atomic.Uint64
	uses int // under Table.mu: how many services' ports have it
}

// updateKey is what an updateCount counts. The undeclared ports of a member have one count, with
// port 0.
type updateKey struct {
	Member
	port uint16
}

// countUpdates gives a port's members their counts, in place of the counts before. The two lists
// may have members in common, but no memory.
func (t *Table) countUpdates(port uint16, before, now []contribution) {
	if undeclared(now) {
		port = 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range now {
		c := &now[i]
		key := updateKey{c.member, port}
		if c.total = t.updates[key]; c.total == nil {
			c.total = &updateCount{key: key}
			t.updates[key] = c.total
		}
		c.total.uses++
	}
	for i := range before {
		c := &before[i]
		if c.total.uses--; c.total.uses == 0 {
			delete(t.updates, c.total.key)
		}
	}
}
