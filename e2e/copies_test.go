package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

// TestCopies makes east's API unreachable and replaces both replicas, first one by one and then by
// killing both. No proxy may lose an endpoint, and no endpoint may change. When east returns with
// new Pods, each proxy must receive them in one step, and the copy must be deleted.
func TestCopies(t *testing.T) {
	t.Parallel()
	l := newLostEast(t)
	before := l.states(t)
	l.mark()
	lost := l.lose(t)
	l.awaitCopy(t)
	if waited := time.Since(lost); waited < 10*time.Second {
		t.Errorf("east was copied after %v", waited)
	}
	generations := l.copies(t)

	for _, kill := range []bool{false, true} {
		l.restart(t, kill)
		when := fmt.Sprintf("replaced, killed: %v", kill)
		l.expectKept(t, when)
		if after := l.states(t); !reflect.DeepEqual(after, before) {
			t.Errorf("%s: the proxies have\n%v\nwant\n%v", when, after, before)
		}
		for i := range l.replicas {
			c := l.shown(t, i)
			if c.State != adminapi.Stale || c.Since.Sub(lost).Abs() > 5*time.Second {
				t.Errorf("%s: replica %d shows %s since %v, want stale since %v", when, i, c.State, c.Since, lost)
			}
		}
	}
	if now := l.copies(t); !reflect.DeepEqual(now, generations) {
		t.Errorf("the copies are %v, want %v", now, generations)
	}

	second := l.deploy(t, 2)
	l.mark()
	must(t, l.between.Set(harness.FaultMode{}))
	l.awaitAddrs(t, second)
	l.expectOneStep(t)
	l.awaitNoCopy(t)
}

// TestCopyWhileLost changes the link while replicas serve a copy of east. A cordon must remove the
// endpoints until it ends. New credentials that do not work must have no effect, even after a
// restart. New credentials that reach east must replace the copy in one step.
func TestCopyWhileLost(t *testing.T) {
	t.Parallel()
	l := newLostEast(t)
	l.lose(t)
	l.awaitCopy(t)
	l.restart(t, true)
	l.awaitAddrs(t, l.first)

	l.annotate(t, "isthmus.io/cordon", new("true"))
	l.awaitAddrs(t, nil)
	l.annotate(t, "isthmus.io/cordon", nil)
	l.awaitAddrs(t, l.first)

	l.mark()
	l.link(t, "https://"+l.between.Addr(), clientcmdapi.AuthInfo{Token: "new"})
	must(t, harness.Pause(t.Context(), 3*time.Second))
	l.expectKept(t, "rotated to invalid credentials")
	l.restart(t, false)
	l.expectKept(t, "replaced after the rotation")

	second := l.deploy(t, 2)
	l.mark()
	l.link(t, l.east.Server(), l.east.Admin())
	l.awaitAddrs(t, second)
	l.expectOneStep(t)
}

// TestCopyUnusable restarts a replica while east is unreachable. The replica must not serve a copy
// of another cluster, or one that is damaged, incomplete, unreadable or too old, and it must log
// the reason. A replica that still has east in its cache must continue to serve it, and replace an
// incomplete copy. Deletion of the link must delete the copy.
func TestCopyUnusable(t *testing.T) {
	t.Parallel()
	l := newLostEast(t)
	l.lose(t)
	l.awaitCopy(t)
	// unusable restarts the first replica, which must have no endpoints and must log the reason.
	unusable := func(why string, args ...string) {
		t.Helper()
		l.replaceFirst(t, "the copy of a cluster cannot be used", args...)
		if got := l.firstAddrs(t, 0); len(got) > 0 {
			t.Errorf("%q: the replica serves %v", why, got)
		}
		if log := l.replicas[0].Log(200); !strings.Contains(log, why) {
			t.Errorf("the log does not contain %q:\n%s", why, log)
		}
		if c := l.shown(t, 0); !strings.Contains(c.Reason, why) {
			t.Errorf("the replica does not show that %q: %s", why, c.Reason)
		}
	}
	// usable restarts the first replica, which must serve the copy.
	usable := func(when string) {
		t.Helper()
		l.replaceFirst(t, "serving the cluster from a saved copy")
		if got := l.firstAddrs(t, 0); !slices.Equal(got, l.first) {
			t.Errorf("%s: the replica serves %v, want %v", when, got, l.first)
		}
		if c := l.shown(t, 0); c.CopyOf.IsZero() {
			t.Errorf("%s: the replica shows no copy: %s", when, c.Reason)
		}
	}
	usable("unchanged")

	l.link(t, "https://"+l.between.Addr()+"/other", l.east.Admin())
	unusable("it is of another cluster")
	l.link(t, "https://"+l.between.Addr(), l.east.Admin())
	usable("the link is as before")

	// The other replica must not delete or rewrite the copy before the first replica reads it.
	l.setCacheVerbs(t, "get", "list")
	unusable("--cache-max-age", "-cache-max-age=1s")
	damage := func(parts [][]byte, _ map[string]any) [][]byte {
		parts[0][len(parts[0])/2] ^= 1
		return parts
	}
	l.rewriteCopy(t, damage)
	unusable("it is damaged")
	l.rewriteCopy(t, damage)
	usable("repaired")
	l.rewriteCopy(t, func(parts [][]byte, head map[string]any) [][]byte {
		head["parts"] = 2
		half := len(parts[0]) / 2
		return [][]byte{parts[0][:half], parts[0][half:]}
	})
	usable("in two ConfigMaps")
	l.rewriteCopy(t, func(parts [][]byte, head map[string]any) [][]byte {
		head["written"] = time.Now().Add(-2 * time.Minute) // otherwise, a replica could still be writing it
		return parts[:1]
	})
	unusable("it is incomplete")
	incomplete := l.copies(t)
	applyManifest(t, l.west, "install/rbac.yaml")
	l.awaitRewritten(t, incomplete, 1)
	usable("written again by the other replica")

	l.setCacheVerbs(t)
	l.awaitForbidden(t)
	unusable("forbidden")
	await(t, "the replica shows that the permission is missing", func() error {
		page, err := harness.ReadClusters(t.Context(), l.replicas[0].MetricsAddr())
		if err == nil && (page.Copies == nil || !strings.Contains(page.Copies.Error, "forbidden")) {
			err = fmt.Errorf("the replica shows %+v", page.Copies)
		}
		return err
	})
	applyManifest(t, l.west, "install/rbac.yaml")

	secrets := l.west.CoreV1().Secrets(kube.LinkNamespace)
	must(t, secrets.Delete(t.Context(), kube.LinkName("east"), metav1.DeleteOptions{}))
	l.awaitAddrs(t, nil)
	l.awaitNoCopy(t)
}

// TestCopyInterrupted kills the leader after it has stored one of the three ConfigMaps of a copy.
// Replicas that start then must not serve a part of this copy. The other replica must write a
// complete copy and delete the incomplete one. Replicas that start later must serve the complete
// copy and must not write again.
func TestCopyInterrupted(t *testing.T) {
	t.Parallel()
	l := linkEast(t)
	l.grow(t, 0, 12)
	var writes atomic.Int32
	held := make(chan struct{}, 1) // receives a value while a write is held back
	killed := make(chan struct{})  // writes are held back until it is closed
	server := l.inFront(t, func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
		isWrite := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps")
		if isWrite && writes.Add(1) > 1 {
			select {
			case held <- struct{}{}:
			default:
			}
			select {
			case <-killed:
			case <-r.Context().Done():
				return
			}
		}
		forward(w, r)
	})
	l.start(t, server, 3)
	l.subscribe(t, 6)
	must(t, l.replicas[2].Halt())

	l.lose(t)
	await(t, "the second ConfigMap is held back", func() error {
		select {
		case <-held:
			return nil
		default:
			return fmt.Errorf("%d ConfigMaps have been written", writes.Load())
		}
	})
	incomplete := l.copies(t)
	if names := slices.Concat(slices.Collect(maps.Values(incomplete))...); len(names) != 1 {
		t.Fatalf("ConfigMaps %v are stored, want one", names)
	}
	leader := l.leader(t)
	l.kill(t, leader)
	close(killed)
	other := 1 - leader
	starting := []int{leader, 2}
	l.restartAtOnce(t, starting...)
	for _, i := range starting {
		got := l.firstAddrs(t, i)
		if slices.Equal(got, l.first) { // the machine is so slow that the copy is complete by now
			continue
		}
		if len(got) > 0 {
			t.Errorf("replica %d serves %v, want all or none of %v", i, got, l.first)
		}
		await(
			t,
			fmt.Sprintf("replica %d logs that the copy is incomplete, or serves the complete copy", i),
			func() error {
				log := l.replicas[i].Log(200)
				if strings.Contains(log, "it is being written") || slices.Equal(l.firstAddrs(t, i), l.first) {
					return nil
				}
				return fmt.Errorf("the log ends with:\n%s", log)
			},
		)
	}
	if got := l.firstAddrs(t, other); !slices.Equal(got, l.first) {
		t.Errorf("the replica that has east in its cache serves %v", got)
	}

	l.awaitRewritten(t, incomplete, 3)
	complete := l.copies(t)
	l.restart(t, true)
	for i := range l.replicas {
		if got := l.firstAddrs(t, i); !slices.Equal(got, l.first) {
			log := l.replicas[i].Log(50)
			t.Errorf("replica %d serves %v from the complete copy, want %v:\n%s", i, got, l.first, log)
		}
	}
	l.awaitAddrs(t, l.first)
	if now := l.copies(t); !reflect.DeepEqual(now, complete) {
		t.Errorf("the copies are %v, want %v", now, complete)
	}
}

// TestCopyTooLarge makes clusters unreachable whose copies are larger than the limit of one copy, or
// than the limit of all copies together. The replica must report the reason, and must store the
// copies that are within the limits.
func TestCopyTooLarge(t *testing.T) {
	t.Parallel()
	l := linkEast(t)
	l.grow(t, 0, 96) // 17 MiB
	l.start(t, l.west.Server(), 1)
	l.lose(t)
	if cluster := l.awaitNotCopied(t, "its copy would be larger than 16 MiB"); cluster != "east" {
		t.Errorf("%s could not be copied, want east", cluster)
	}
	if all := l.copies(t); len(all) > 0 {
		t.Errorf("ConfigMaps %v are stored", all)
	}

	// To Isthmus, each link is a cluster. Only four of the five copies of 15 MiB have enough space.
	must(t, l.between.Set(harness.FaultMode{}))
	l.shrink(t, 84, 96)
	all := []string{"east", "east-2", "east-3", "east-4", "east-5"}
	for _, name := range all[1:] {
		l.linkAs(t, name, "https://"+l.between.Addr(), l.east.Admin())
	}
	for _, name := range all {
		awaitReady(t, l.replicas[0], name)
	}
	l.lose(t)
	missing := l.awaitNotCopied(t, "all copies together would be larger than 64 MiB")
	must(t, l.replicas[0].Restart(t.Context()))
	await(t, "the replica serves all clusters with a copy", func() error {
		page, err := harness.ReadClusters(t.Context(), l.replicas[0].MetricsAddr())
		if err != nil {
			return err
		}
		for _, c := range page.Clusters {
			want := adminapi.Stale
			if c.Cluster == missing {
				want = adminapi.Unreachable
			}
			if c.State != want || c.CopyOf.IsZero() != (c.Cluster == missing) {
				return fmt.Errorf(
					"%s is %s with a copy of %v, and %s has no copy",
					c.Cluster,
					c.State,
					c.CopyOf,
					missing,
				)
			}
		}
		return nil
	})
}
