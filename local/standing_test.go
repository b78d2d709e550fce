package local

import (
	"testing"
	"testing/synctest"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// TestRegionFollowsNodes: the table has the region that all Nodes carry, before and
// after the cluster is ready.
func TestRegionFollowsNodes(t *testing.T) {
	inBubble(t, func(e *env) {
		region := func(set, want string, state federation.LinkState) {
			t.Helper()
			e.cluster.region.Set(set)
			e.cluster.cfg.RegionChanged()
			time.Sleep(2 * cluster.SignalPause)
			synctest.Wait()
			if l := e.written.localLink(); l.Region != want || l.State != state || (l.Source == e.cluster) != (state == federation.Ready) {
				t.Errorf("linked as %+v, want region %q", l, want)
			}
			if st := e.local.Status(); st.Region != want || st.Standing != "in-service" || st.StandingReason != "" {
				t.Errorf("status %+v, want region %q", st, want)
			}
		}
		region("", "", federation.Pending)
		region("eu", "eu", federation.Pending)
		e.sync()
		region("eu", "eu", federation.Ready)
		region("us", "us", federation.Ready)
		e.cluster.cfg.RegionChanged()
		region("us", "us", federation.Ready)
		region("", "", federation.Ready)
		const line = "region of a cluster changed"
		e.logged("cluster ready", line, line)
	})
}

// TestRestlessRegion: whoever writes Nodes can't make the table look at all services all
// the time. The last region is not missed.
func TestRestlessRegion(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync()
		for i := range 40 {
			e.cluster.region.Set([]string{"us", "eu"}[i%2])
			e.cluster.cfg.RegionChanged()
			synctest.Wait()
		}
		const line = "region of a cluster changed"
		e.logged("cluster ready")
		time.Sleep(cluster.SignalPause)
		synctest.Wait()
		e.logged(line)
		if l := e.written.localLink(); l.Region != "eu" {
			t.Errorf("linked as %+v, want region eu", l)
		}
	})
}

// TestGivenRegion: Nodes do not matter if the region is given.
func TestGivenRegion(t *testing.T) {
	inBubbleWith(t, Options{Region: "eu"}, func(e *env) {
		for range 2 {
			e.cluster.region.Set("us")
			e.cluster.cfg.RegionChanged()
			synctest.Wait()
			if l, st := e.written.localLink(), e.local.Status(); l.Region != "eu" || st.Region != "eu" {
				t.Errorf("linked as %+v, status %+v", l, st)
			}
		}
		e.logged()
	})
}

func TestCordonOfLocal(t *testing.T) {
	for cordon, reason := range map[federation.Standing]string{
		federation.InService:  "",
		federation.LastResort: "cordoned as last resort by --cordon-local",
		federation.Withdrawn:  "cordoned by --cordon-local",
	} {
		inBubbleWith(t, Options{Cordon: cordon}, func(e *env) {
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
			if reason == "" {
				e.logged("cluster ready")
			} else {
				e.logged("standing of a cluster changed", "cluster ready")
			}
		})
	}
}
