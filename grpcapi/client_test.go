package grpcapi

import (
	"testing"
	"testing/synctest"

	"isthmus/federation"
)

func TestTrafficPolicyOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		a, b := pod("10.0.0.1:80"), pod("10.0.0.2:80")
		a.Node, b.Node = "n1", "n2"
		slice := sliceOf("", a, b)
		policy := func(local bool) {
			w.share("", federation.Share{State: federation.Present, NodeLocal: local, Slices: []*federation.Slice{slice}})
		}
		policy(false)
		w.offer("east", pods("10.1.0.1:80")...)
		one, two, none := w.get(webAddr, "n1"), w.get(webAddr, "n2"), w.get(webAddr, "")
		defer one.hangUp()
		defer two.hangUp()
		defer none.hangUp()
		for _, c := range []*caller{one, two, none} {
			c.sees(t, "add 10.0.0.1:80 10.0.0.2:80 10.1.0.1:80")
		}
		if all, _, _ := w.server.getViews.count(); all != 1 {
			t.Errorf("%d views, want one for all nodes", all)
		}
		policy(true)
		one.sees(t, "remove 10.0.0.2:80")
		two.sees(t, "remove 10.0.0.1:80")
		none.sees(t, "remove 10.0.0.1:80 10.0.0.2:80")
		late := w.get(webAddr, "n2") // its first key knows no node
		defer late.hangUp()
		late.sees(t, "add 10.0.0.2:80 10.1.0.1:80")
		policy(false)
		one.sees(t, "add 10.0.0.2:80")
		two.sees(t, "add 10.0.0.1:80")
		none.sees(t, "add 10.0.0.1:80 10.0.0.2:80")
		if all, idle, _ := w.server.getViews.count(); all-idle != 1 {
			t.Errorf("%d views in use, want one for all nodes again", all-idle)
		}
	})
}
