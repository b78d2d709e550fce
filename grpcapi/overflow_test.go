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
	if one := o.of[strings.Join(labels, "\x00")]; one != nil {
		return int(one.n)
	}
	return 0
}

// TestOverflowsAreBounded: clients that ask for whatever they like, and take
// nothing, make no more series than that; and those go with the service.
func TestOverflowsAreBounded(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	table.Define(web, &federation.Definition{Members: []federation.Member{{Service: web}}})
	o := newOverflows(table, "x", "x", "fqn", "port")
	for i := range 3 * maxOverflows {
		for range 2 {
			o.inc(web, fmt.Sprintf("made-up-%d.web.shop.svc.cluster.local", i), "80")
		}
	}
	if n := series(o); n != maxOverflows+1 {
		t.Errorf("%d series", n)
	}
	if n := o.count("made-up-0.web.shop.svc.cluster.local", "80"); n != 2 {
		t.Errorf("%d of the first name", n)
	}
	if n := o.of[""].n; n != 4*maxOverflows {
		t.Errorf("%d without a name", n)
	}
	table.Define(web, nil)
	if n := series(o); n != 1 {
		t.Errorf("%d series of a service that is gone", n)
	}
}
