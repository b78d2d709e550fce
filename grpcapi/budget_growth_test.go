package grpcapi

import (
	"fmt"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
)

// TestBudgetOfGrowth: what a view takes follows its set, also beyond the budget: then
// newcomers are refused until it has become smaller.
func TestBudgetOfGrowth(t *testing.T) {
	for name, port := range map[string]int{"a declared port": 80, "an undeclared port": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{Pace: -1, Linger: -1, ViewBytes: 10 * viewBytes})
				w.declare("", 80)
				offer := func(endpoints int) {
					t.Helper()
					var all []string
					for i := range endpoints {
						all = append(all, fmt.Sprintf("10.0.0.%d:80", i+1))
					}
					w.offer("", pods(all...)...)
					synctest.Wait()
				}
				offer(1)
				c := w.get(webAt(port), "")
				synctest.Wait()
				began := w.server.views.inUse()
				for _, endpoints := range []int{40, 1, 40, 2} { // messages of so few count with no stream
					offer(endpoints)
					if got, want := w.server.views.inUse(), began+int64(endpoints-1)*endpointBytes; got != want {
						t.Errorf("a view of %d endpoints takes %d bytes, want %d", endpoints, got, want)
					}
					other := w.get("made-up."+webAddr, "")
					if endpoints == 40 {
						other.fails(t, codes.ResourceExhausted, "memory")
					} else {
						other.sees(t, "no_endpoints(true)")
					}
					other.hangUp()
				}
				c.hangUp()
				if got := w.server.views.inUse(); got != 0 {
					t.Errorf("%d bytes are in use after all", got)
				}
			})
		})
	}
}
