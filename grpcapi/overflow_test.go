package grpcapi

import (
	"fmt"
	"strings"
	"testing"

	"isthmus/federation"
)

// count is how many are counted under these labels.
func (o *overflows) count(labels ...string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	one, ok := o.of.Peek(strings.Join(labels, "\x00"))
	if !ok {
		return 0
	}
	return int(one.n)
}

// TestOverflowsAreBounded: clients that ask for whatever they like, and take
// nothing, make no more series than that, and take none from what keeps stalling;
// and those go with the service.
func TestOverflowsAreBounded(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	table.Define(web, &federation.Definition{Members: []federation.Member{{Service: web}}})
	o := newOverflows(table, "x", "x", "fqn", "port")
	made := func(i int) string { return fmt.Sprintf("made-up-%d.web.shop.svc.cluster.local", i) }
	for i := range 3 * maxOverflows {
		o.inc(web, made(i), "80")
		if i%(maxOverflows/2) == 0 {
			o.inc(web, "web.shop.svc.cluster.local", "80")
		}
	}
	if n := series(o); n != maxOverflows {
		t.Errorf("%d series", n)
	}
	for name, want := range map[string]int{"web.shop.svc.cluster.local": 6, made(0): 0, made(2 * maxOverflows): 0, made(3*maxOverflows - 1): 1} {
		if n := o.count(name, "80"); n != want {
			t.Errorf("%d of %s, want %d", n, name, want)
		}
	}
	table.Define(web, nil)
	if n := series(o); n != 0 {
		t.Errorf("%d series of a service that is gone", n)
	}
}
