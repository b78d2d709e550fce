package clusterstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
)

// lateness is for how long a kind can't be listed.
var lateness = []time.Duration{6 * time.Second, 20 * time.Second, 40 * time.Second}

// without is what clients see while a kind is not read.
var without = map[string]string{
	"externalworkloads": "10.1.0.1 opaque deployment=web",
	"servers":           "10.1.0.1 deployment=web; 10.1.0.2",
	"replicasets":       "10.1.0.1 opaque; 10.1.0.2",
	"jobs":              wholeCluster,
	"nodes":             wholeCluster,
}

// kinds of which the cluster has objects that a successor has to list, even if they are refused.
var alwaysAwaited = map[string]string{
	"externalworkloads": "externalworkloads.workload.linkerd.io",
	"servers":           "servers.policy.linkerd.io",
}

// TestRotationRefused: new credentials that may not list a kind take no endpoint, opaque port or region away. The link
// says what is missing until it is granted.
//
// Behaviours: N-13.
func TestRotationRefused(t *testing.T) {
	for resource := range without {
		t.Run(resource, func(t *testing.T) {
			onServedAPI(t, nil, func(r *rotating) {
				r.saw(wholeCluster)
				r.api.answer("t2 "+resource, errRefused)
				r.rotate("t2")
				name := alwaysAwaited[resource]
				if name == "" {
					r.pass(time.Second)
					r.inUse("t2", "")
				} else {
					r.pass(time.Hour)
					r.saw(wholeCluster)
					r.inUse("t1", name)
					want := "new credentials do not work, the old ones are in use: " +
						"they lack the permission to list and watch " + name +
						", of which the cluster has 1; a replica that restarts serves the cluster without these objects"
					st := r.store.Status()[0]
					if st.NewCredentials != want || len(st.Warnings) != 1 || st.Warnings[0] != want {
						t.Errorf("the status says %q, %q", st.NewCredentials, st.Warnings)
					}
					r.logged("cluster linked", "cluster ready", "new credentials do not work; the old ones stay in use")
					r.api.answer("t2 "+resource, nil)
					r.pass(optionalTime)
					r.inUse("t2", "")
				}
				if region := r.store.Status()[0].Region; region != "north" {
					t.Errorf("the region is %q", region)
				}
				switch resource {
				case "replicasets": // only labels depend on these, and a refusal is final
					r.saw(wholeCluster, without[resource])
				default:
					r.saw(wholeCluster)
				}
			})
		})
	}
}

// TestRotationLate: new credentials replace the old ones once each kind that the cluster has
// objects of has been listed.
func TestRotationLate(t *testing.T) {
	for resource := range without {
		for _, late := range lateness {
			t.Run(fmt.Sprintf("%s/%v", resource, late), func(t *testing.T) {
				onServedAPI(t, nil, func(r *rotating) {
					r.api.answer("t2 "+resource, errBroken)
					r.rotate("t2")
					r.pass(late - time.Second)
					r.inUseAny("t1", resource, late)
					r.api.answer("t2 "+resource, nil)
					r.pass(awaitedPause)
					r.inUse("t2", "")
					r.saw(wholeCluster)
					if region := r.store.Status()[0].Region; region != "north" {
						t.Errorf("the region is %q", region)
					}
				})
			})
		}
	}
}

// inUseAny checks that old credentials are in use while a kind is late. A kind that no endpoint depends on is awaited
// for 25 s only.
func (r *rotating) inUseAny(token, resource string, late time.Duration) {
	r.t.Helper()
	now := r.store.publishedLinks()["east"].serving.creds.rest.BearerToken
	optional := without[resource] == wholeCluster
	if (now == token) == (optional && late > 25*time.Second) {
		r.t.Errorf("in use: %s, after %v without %s", now, late, resource)
	}
}

// TestStart: a cluster that is linked is served once each kind has been listed, has been refused, or has been late for
// 25 s. That is before it counts as unreachable.
func TestStart(t *testing.T) {
	for resource, partly := range without {
		for _, late := range lateness {
			t.Run(fmt.Sprintf("%s/%v", resource, late), func(t *testing.T) {
				var began time.Time
				prepare := func(r *rotating) {
					began = time.Now()
					r.api.answer("* "+resource, errBroken)
					time.AfterFunc(late, func() { r.api.answer("* "+resource, nil) })
				}
				onServedAPI(t, prepare, func(r *rotating) {
					switch {
					case late < 25*time.Second:
						r.saw(wholeCluster)
					default:
						r.saw(partly)
					}
					if st := r.store.Status()[0]; st.State != "ready" || st.Since.Sub(began) > 25*time.Second ||
						late < 25*time.Second && st.Since.Sub(began) < late {
						t.Errorf("%s after %v", st.State, st.Since.Sub(began))
					}
					r.pass(late)
					if want := []string{partly, wholeCluster}; late > 25*time.Second && partly != wholeCluster {
						r.saw(want...)
					} else {
						r.saw(wholeCluster)
					}
				})
			})
		}
		t.Run(resource+"/refused", func(t *testing.T) {
			began := time.Now()
			prepare := func(r *rotating) {
				began = time.Now()
				r.api.answer("* "+resource, errRefused)
			}
			onServedAPI(t, prepare, func(r *rotating) {
				r.saw(partly)
				if took := r.store.Status()[0].Since.Sub(began); took > time.Second {
					t.Errorf("ready after %v", took)
				}
			})
		})
	}
}

// TestKindsGivenUp: new credentials that may not list ExternalWorkloads are used all the same if the old credentials or
// the kind are no better.
//
// Behaviours: N-13.
func TestKindsGivenUp(t *testing.T) {
	const kind, partly = "externalworkloads", "10.1.0.1 opaque deployment=web"
	named := func(token, cluster string) *corev1.Secret {
		s := secret("s", "east", token, 0)
		s.Annotations[LinkedClusterAnnotation] = cluster
		return s
	}
	for name, x := range map[string]struct {
		err    error // of the kind, with the new credentials
		before func(*rotating)
		secret *corev1.Secret // the new one
		after  func(*rotating)
		waits  time.Duration // how long the old credentials stay in use at least
		within time.Duration // after that the new ones are
	}{
		"the kind is absent": {err: errNoKind, within: time.Second},
		"another cluster": {err: errRefused, before: func(r *rotating) { r.put(named("t1", "one")) },
			secret: named("t2", "two"), within: time.Second},
		"the same cluster": {err: errRefused, before: func(r *rotating) { r.put(named("t1", "one")) },
			secret: named("t2", "one"), waits: time.Hour},
		"one cluster is not named": {err: errRefused, secret: named("t2", "two"), waits: time.Hour},
		"the old ones are revoked": {err: errRefused,
			after: func(r *rotating) { r.api.answer("t1 *", errRevoked); r.api.cut() },
			waits: lastingTime, within: 10 * time.Second},
		"the old ones may not list it either": {err: errRefused,
			after: func(r *rotating) { r.api.answer("t1 "+kind, errRefused); r.api.cut() },
			waits: lastingTime, within: optionalTime},
		"the cluster is stale for a minute": {err: errRefused,
			after: func(r *rotating) { r.api.answer("t1 *", errNoServer); r.api.cut() },
			waits: time.Minute, within: 10 * time.Second},
		"the cluster is stale, and the new ones do not work": {err: errRefused,
			after: func(r *rotating) { r.api.answer("* *", errNoServer); r.api.cut() }, waits: time.Hour},
		"another kind is refused": {err: errRefused,
			after: func(r *rotating) { r.api.answer("t1 servers", errRefused); r.api.cut() }, waits: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			onServedAPI(t, nil, func(r *rotating) {
				if x.before != nil {
					x.before(r)
				}
				r.api.answer("t2 "+kind, x.err)
				if x.secret == nil {
					x.secret = secret("s", "east", "t2", 0)
				}
				r.put(x.secret)
				if x.after != nil {
					r.pass(time.Minute)
					x.after(r)
				}
				inUse := func() string { return r.store.publishedLinks()["east"].serving.creds.rest.BearerToken }
				r.pass(x.waits)
				if x.waits > 0 {
					r.saw(wholeCluster)
					if inUse() != "t1" {
						t.Fatal("the new credentials are in use")
					}
				}
				if x.within == 0 {
					return
				}
				r.pass(x.within)
				if inUse() != "t2" {
					t.Fatalf("the old credentials are in use: %q", r.store.Status()[0].Warnings)
				}
				r.saw(wholeCluster, partly)
			})
		})
	}
}

// lastingTime is less than how long an API server has to refuse the old credentials until that counts.
const lastingTime = 9 * time.Second

// TestRegionOfAnotherCluster: a cluster that replaces another one has no region until its Nodes are read.
func TestRegionOfAnotherCluster(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		s := secret("s", "east", "t1", 0)
		s.Annotations[LinkedClusterAnnotation] = "one"
		r.put(s)
		r.api.answer("t2 nodes", errRefused)
		s = secret("s", "east", "t2", 0)
		s.Annotations[LinkedClusterAnnotation] = "two"
		r.put(s)
		r.pass(time.Second)
		r.inUse("t2", "")
		if region := r.store.Status()[0].Region; region != "" {
			t.Errorf("the region is %q", region)
		}
	})
}

// TestRegionIsRead: the region follows the Nodes as soon as the new credentials may read them.
func TestRegionIsRead(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		r.api.answer("t2 nodes", errRefused)
		r.rotate("t2")
		r.pass(time.Second)
		region := func() string { return r.store.Status()[0].Region }
		if region() != "north" {
			t.Errorf("the region is %q", region())
		}
		r.api.objects["nodes"] = nil
		r.api.answer("t2 nodes", nil)
		r.pass(optionalTime)
		if region() != "" {
			t.Errorf("once there are no Nodes the region is %q", region())
		}
	})
}

// TestRestartDuringRotation: an API server that restarts while new credentials wait makes them neither used nor given
// up. It refuses all requests for a moment, as API servers do that do not know their permissions yet.
func TestRestartDuringRotation(t *testing.T) {
	for name, refusal := range map[string]error{"403": errRefused, "401": errRevoked, "404": errNoKind} {
		t.Run(name, func(t *testing.T) {
			onServedAPI(t, nil, func(r *rotating) {
				r.api.answer("t2 servers", errRefused)
				r.rotate("t2")
				for range 3 {
					r.pass(time.Minute)
					r.api.answer("* *", errNoServer)
					r.api.cut()
					r.pass(20 * time.Second)
					r.api.answer("* discovery", errNoServer)
					r.api.answer("* *", refusal)
					r.pass(5 * time.Second)
					r.api.answer("* *", nil)
					r.api.answer("* discovery", nil)
				}
				r.pass(time.Minute)
				r.inUse("t1", "servers.policy.linkerd.io")
				r.api.answer("t2 servers", nil)
				r.pass(optionalTime)
				r.inUse("t2", "")
				r.saw(wholeCluster)
			})
		})
	}
}

// TestOutageDuringRotation: new credentials that wait are not used because they are the first to reach the API server
// after a long outage.
func TestOutageDuringRotation(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		r.api.answer("t2 servers", errRefused)
		r.rotate("t2")
		r.pass(time.Minute)

		r.api.answer("* *", errNoServer)
		r.api.cut()
		r.pass(2 * time.Minute)
		r.api.answer("t1 *", errNoServer)
		r.api.answer("* *", nil)
		r.pass(30 * time.Second)
		r.saw(wholeCluster)
		r.api.answer("t1 *", nil)
		r.pass(10 * time.Second)
		r.inUse("t1", "servers.policy.linkerd.io")

		r.api.answer("t1 *", errNoServer)
		r.api.cut()
		r.pass(50 * time.Second)
		r.saw(wholeCluster)
		if st := r.store.Status()[0]; st.State != "stale" || len(st.Awaited) != 1 {
			t.Errorf("it is %s, and waits for %q", st.State, st.Awaited)
		}
	})
}

// TestAllRefusedDuringRotation: new credentials that wait are not used while the API server refuses all credentials.
func TestAllRefusedDuringRotation(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		r.api.answer("t2 servers", errRefused)
		r.rotate("t2")
		r.pass(time.Minute)
		r.api.answer("* *", errRevoked)
		r.api.cut()
		r.pass(40 * time.Second)
		r.api.answer("* *", nil)
		r.pass(10 * time.Second)
		r.inUse("t1", "servers.policy.linkerd.io")
		r.saw(wholeCluster)
	})
}

// TestKindDeletedDuringRotation: new credentials wait no longer once the cluster has no objects of
// the kind, or no longer has the kind.
func TestKindDeletedDuringRotation(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		r.api.answer("t2 servers", errRefused)
		r.rotate("t2")
		r.pass(time.Minute)
		r.inUse("t1", "servers.policy.linkerd.io")
		r.api.answer("* servers", errNoKind)
		r.api.cut()
		r.pass(2 * optionalTime)
		r.inUse("t2", "")
		r.saw(wholeCluster, without["servers"])
	})
}

// TestTwentyRotations: of many rotations in a row the last one counts, and nothing is lost on the way.
//
// Behaviours: N-13.
func TestTwentyRotations(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, time.Minute} {
		t.Run(pause.String(), func(t *testing.T) {
			onServedAPI(t, nil, func(r *rotating) {
				for i := range 20 {
					token := fmt.Sprintf("n%d", i)
					if i%2 == 0 {
						r.api.answer(token+" externalworkloads", errRefused)
						r.api.answer(token+" servers", errBroken)
					}
					r.rotate(token)
					r.pass(pause)
				}
				r.pass(time.Second)
				r.inUse("n19", "")
				r.saw(wholeCluster)
				if len(r.made) != 21 {
					t.Errorf("%d clusters were made", len(r.made))
				}
			})
		})
	}
}

// TestRotationNearCap rotates the credentials of a cluster that takes 90 % of its memory cap. The successor has a cap
// of its own, so that it lists all kinds beside the serving cluster.
func TestRotationNearCap(t *testing.T) {
	onServedAPI(t, nearCap(t, 90), func(r *rotating) {
		near := func() {
			t.Helper()
			if m := r.store.Status()[0].Memory; m.Used*100/m.Limit != 90 {
				t.Errorf("it takes %+v", m)
			}
		}
		near()
		r.saw(wholeCluster)
		r.rotate("t2")
		r.pass(time.Minute)
		r.inUse("t2", "")
		r.saw(wholeCluster)
		near()
	})
}

// TestRotationWithoutRoom: a kind that no longer fits into the memory cap is not lost by a rotation.
func TestRotationWithoutRoom(t *testing.T) {
	onServedAPI(t, nearCap(t, 100), func(r *rotating) {
		r.saw(wholeCluster)
		for i := range 500 { // the ExternalWorkloads alone exceed the cap, whichever kind is listed first
			r.api.objects["externalworkloads"] = append(r.api.objects["externalworkloads"], largeWorkload(500+i))
		}
		r.rotate("t2")
		r.pass(time.Minute)
		r.inUse("t1", "externalworkloads.workload.linkerd.io")
		r.pass(time.Hour)
		if st := r.store.Status()[0]; len(st.Awaited) != 1 {
			t.Errorf("after an hour it is %s, and waits for %q", st.State, st.Awaited)
		}
		if why := r.store.Status()[0].NewCredentials; !strings.Contains(why, "over budget") {
			t.Errorf("the status says %q", why)
		}
		r.saw(wholeCluster)
	})
}

// nearCap prepares an API with 500 large ExternalWorkloads, and the memory cap of which they take that many percent.
func nearCap(t *testing.T, percent int64) func(*rotating) {
	limit := int64(1 << 30)
	prepare := func(r *rotating) {
		r.store.opts.Memory = limit
		for i := range 500 {
			r.api.objects["externalworkloads"] = append(r.api.objects["externalworkloads"], largeWorkload(i))
		}
	}
	onServedAPI(t, prepare, func(r *rotating) {
		limit = r.store.Status()[0].Memory.Used * 100 / percent
	})
	return prepare
}

func largeWorkload(i int) *decode.ExternalWorkload {
	return &decode.ExternalWorkload{ObjectMeta: metav1.ObjectMeta{
		Namespace: "more", Name: fmt.Sprintf("vm-%d", i),
		Labels: map[string]string{"x": strings.Repeat("x", 1000) + fmt.Sprint(i)},
	}}
}

// TestRotationAgain: a problem of new credentials that is over is no longer shown, and is logged again when it returns.
func TestRotationAgain(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		r.logged("cluster linked", "cluster ready")
		r.api.answer("t2 servers", errBroken)
		r.api.answer("t2 pods", errNoServer)
		r.rotate("t2")
		r.status("s east ready !new credentials do not work, the old ones are in use: pods: connection refused")
		r.api.answer("t2 pods", nil)
		r.pass(5 * time.Second)
		r.status("s east ready !new credentials are being tried; the old ones are in use")
		r.pass(30 * time.Second)
		r.status("s east ready !new credentials do not work, the old ones are in use: " +
			"they can't list servers.policy.linkerd.io, of which the cluster has 1: …")
		r.logged("new credentials do not work; the old ones stay in use",
			"new credentials do not work; the old ones stay in use")
	})
}
