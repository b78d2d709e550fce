package local

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// TestRegion: the table has the region that all Nodes carry, also before the cluster is ready, or
// else the one that is given.
func TestRegion(t *testing.T) {
	for _, given := range []string{"", "asia"} {
		inBubbleWith(t, Options{Region: given}, func(e *env) {
			for _, set := range []string{"eu", "us", ""} {
				e.cluster.region.Set(set)
				e.cluster.cfg.LinkChanged()
				time.Sleep(2 * cluster.SignalPause)
				synctest.Wait()
				want := set
				if given != "" {
					want = given
				}
				if l, st := e.written.localLink(), e.local.Status(); l.Region != want || st.Region != want {
					t.Errorf("linked as %+v, status %+v, want region %q", l, st, want)
				}
				if set == "eu" {
					e.sync()
				}
			}
			e.logs.TakeAll()
		})
	}
}

// TestCordonOfLocal: the flag's cordon is there from the beginning, and reported.
func TestCordonOfLocal(t *testing.T) {
	for cordon, reason := range map[federation.Standing]string{
		federation.InService:  "",
		federation.LastResort: "cordoned as last resort by --cordon-local",
		federation.Withdrawn:  "cordoned by --cordon-local",
	} {
		var reported []string
		inBubbleWith(t, Options{Cordon: cordon, Report: func(c cluster.Change) { reported = append(reported, fmt.Sprint(c.Cluster, " ", c.Text)) }}, func(e *env) {
			for range 2 {
				if l := e.written.localLink(); l.Cordon != cordon || l.CordonOver != 0 || l.Lost != federation.InService {
					t.Errorf("linked as %+v, want %v", l, cordon)
				}
				if st := e.local.Status(); st.Standing != cordon.String() || st.StandingReason != reason {
					t.Errorf("standing %q, %q; want %v, %q", st.Standing, st.StandingReason, cordon, reason)
				}
				if e.local.Status().State == cluster.Pending {
					e.sync()
				}
			}
			want := []string{"local pending", "local ready"}
			if reason != "" {
				want = slices.Insert(want, 1, "local "+cordon.String()+": "+reason)
			}
			if !slices.Equal(reported, want) {
				t.Errorf("reported %q, want %q", reported, want)
			}
			e.logs.TakeAll()
		})
	}
}
