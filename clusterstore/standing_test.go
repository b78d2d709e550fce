package clusterstore

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/gateway"
	"isthmus/federation"
	"isthmus/internal/pace"
	"isthmus/internal/spec"
)

// setLink records each Link that the table gets.
func (e *env) setLink(c federation.ClusterName, l federation.Link) {
	text := fmt.Sprintf("%v %v", c, l.State)
	if from, ok := l.Source.(*scripted); ok && from.cfg.Copied != nil {
		text += "-copy"
	} else if ok {
		text += "-" + from.rest.BearerToken
	}
	if l.Cordon != 0 || l.CordonOver != 0 {
		text += fmt.Sprintf(" cordon=%v/%v", l.Cordon, l.CordonOver)
	}
	if l.Lost != 0 {
		text += fmt.Sprintf(" lost=%v", l.Lost)
	}
	if l.Region != "" {
		text += " region=" + l.Region
	}
	e.mu.Lock()
	e.link = l
	if len(e.links) == 0 || e.links[len(e.links)-1] != text {
		e.links = append(e.links, text)
	}
	e.mu.Unlock()
	e.table.SetLink(c, l)
}

// steps checks which Links the table got since the last call. The first one is the newest Link
// before that.
func (e *env) steps(want ...string) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.links, want) {
		e.t.Errorf("the table got %q, want %q", e.links, want)
	}
	e.links = e.links[max(0, len(e.links)-1):]
}

// standing checks the standing in the status of a Secret.
func (e *env) standing(secret, want string) {
	e.t.Helper()
	for _, s := range e.store.Status() {
		if s.Secret != secret {
			continue
		}
		got := s.Standing
		if s.StandingReason != "" {
			got += ": " + s.StandingReason
		}
		if s.Region != "" {
			got += " in " + s.Region
		}
		if !matches(got, want) {
			e.t.Errorf("Secret %s: standing %q, want %q", secret, got, want)
		}
	}
}

// with sets annotations. pairs has names without the prefix isthmus.io/, each followed by its
// value.
func with(s *corev1.Secret, pairs ...string) *corev1.Secret {
	for i := 0; i < len(pairs); i += 2 {
		s.Annotations["isthmus.io/"+pairs[i]] = pairs[i+1]
	}
	return s
}

const changed = "standing of a cluster changed"

// TestCordonEdited checks that edits of a cordon reach the table and do not restart the cluster.
//
// Behaviours: CS-01, CS-02, CS-06.
func TestCordonEdited(t *testing.T) {
	s := func(pairs ...string) *corev1.Secret { return with(secret("s", "east", "t1", 0), pairs...) }
	inBubble(t, func(e *env) {
		e.sync(1)
		e.standing("s", "in-service")
		e.put(s("cordon", "true"))
		e.standing("s", "withdrawn: cordoned by annotation isthmus.io/cordon of Secret linkerd/s")
		e.put(s("cordon", "last-resort", "cordon-over", "10m"))
		e.standing("s", "last-resort: cordoned as last resort by annotation isthmus.io/cordon of Secret linkerd/s")
		e.put(s("cordon", "false", "cordon-over", "10m"))
		e.standing("s", "in-service")
		e.put(s())
		e.steps(
			"east pending",
			"east ready-t1",
			"east ready-t1 cordon=withdrawn/0s",
			"east ready-t1 cordon=last-resort/10m0s",
			"east ready-t1 cordon=in-service/10m0s",
			"east ready-t1",
		)
		e.served(e.last(1)) // the cluster was not restarted
		e.logged("cluster linked", "cluster ready", changed, changed, changed)
	}, secret("s", "east", "t1", 0))
}

// TestCordonAtFirst checks that the first Link of a cluster already has its cordon.
//
// Behaviours: CS-05, CS-07.
func TestCordonAtFirst(t *testing.T) {
	inBubble(t, func(e *env) {
		e.standing("s", "withdrawn: cordoned by annotation isthmus.io/cordon of Secret linkerd/s in eu")
		e.last(1).fail("refused")
		e.put(with(secret("s", "east", "t1", 0), "cordon", "last-resort"))
		e.sync(1)
		e.remove("s")
		e.put(secret("s", "east", "t2", 0))
		e.standing("s", "in-service")
		e.steps(
			"east pending cordon=withdrawn/1h0m0s region=eu",
			"east unreachable cordon=withdrawn/1h0m0s region=eu",
			"east unreachable cordon=last-resort/0s",
			"east ready-t1 cordon=last-resort/0s",
			"east unlinked",
			"east pending",
		)
		e.logged(
			"cluster linked",
			changed,
			"cluster unreachable; it is retried",
			"region of a cluster changed",
			changed,
			"cluster ready",
			"cluster unlinked",
			"cluster linked",
		)
	}, with(secret("s", "east", "t1", 0), "cordon", "true", "cordon-over", "1h", "region", "eu"))
}

// TestRotationKeepsStanding checks that a cordon takes effect before the new credentials that come
// with it. The cordon stays when the new credentials replace the old ones.
func TestRotationKeepsStanding(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync(1)
		e.put(with(secret("s", "east", "t2", 0), "cordon", "true"))
		e.last(2)
		e.put(with(secret("s", "east", "t2", 0), "cordon", "last-resort"))
		e.sync(2)
		e.put(secret("s", "east", "t3", 0))
		e.sync(3)
		e.steps(
			"east pending",
			"east ready-t1",
			"east ready-t1 cordon=withdrawn/0s",
			"east ready-t1 cordon=last-resort/0s",
			"east ready-t2 cordon=last-resort/0s",
			"east ready-t2",
			"east ready-t3",
		)
	}, secret("s", "east", "t1", 0))
}

// TestCordonWithUnusableSecret checks that a cordon takes effect even if the newest Secret has no
// usable credentials.
//
// Behaviours: CS-07.
func TestCordonWithUnusableSecret(t *testing.T) {
	bad := with(secret("s", "east", "t1", 0), "cordon", "true")
	bad.Data = nil
	inBubble(t, func(e *env) {
		e.sync(1)
		e.put(bad)
		e.steps("east pending", "east ready-t1", "east ready-t1 cordon=withdrawn/0s")
		e.status(
			"s east ready !the current version of the Secret cannot be used: key kubeconfig is missing; " +
				"the previous version stays in use",
		)
		e.standing("s", "withdrawn: cordoned by…")
	}, secret("s", "east", "t1", 0))
}

// TestStandingOfDuplicates checks that only the annotations of the Secret in use count.
func TestStandingOfDuplicates(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync(1)
		e.put(with(secret("b", "east", "t1", 0), "cordon", "true"))
		e.standing("a", "in-service")
		e.standing("b", "")
		e.put(with(secret("a", "east", "t1", 5), "region", "eu"))
		e.remove("a")
		e.last(1)
		e.standing("b", "withdrawn: cordoned by annotation isthmus.io/cordon of Secret linkerd/b")
		e.steps("east pending", "east ready-t1", "east ready-t1 region=eu", "east ready-t1 cordon=withdrawn/0s")
	}, secret("a", "east", "t1", 5), with(secret("b", "east", "t1", 0), "cordon", "last-resort"))
}

// TestUnreadableStanding checks that an invalid annotation causes a warning and counts as absent.
//
// Behaviours: CS-20.
func TestUnreadableStanding(t *testing.T) {
	const warned = "annotations of a link Secret are invalid"
	inBubble(t, func(e *env) {
		e.status(`s east pending !annotation isthmus.io/cordon: "yes" is none of…`)
		e.sync(1)
		e.put(with(secret("s", "east", "t1", 0), "cordon", "yes", "when-lost", "withdraw"))
		e.put(with(secret("s", "east", "t1", 0), "cordon", "true", "lost-after", "never"))
		e.status(
			`s east ready !annotation isthmus.io/lost-after: "never" is not a duration such as 90s or 5m; ` +
				`the annotation is ignored`,
		)
		e.put(with(secret("s", "east", "t1", 0), "cordon", "ture"))
		e.put(secret("s", "east", "t1", 0))
		e.status("s east ready")
		e.last(1)
		e.steps("east pending", "east ready-t1", "east ready-t1 cordon=withdrawn/0s", "east ready-t1")
		e.logged(warned, "cluster linked", "cluster ready", warned, changed, warned, changed)
	}, with(secret("s", "east", "t1", 0), "cordon", "yes"))
}

// TestLost checks when a cluster is lost, how when-lost applies, and when the loss ends.
//
// Behaviours: CS-11, CS-12, CS-13, CS-14, CS-15.
func TestLost(t *testing.T) {
	s := func(pairs ...string) *corev1.Secret { return with(secret("s", "east", "t1", 0), pairs...) }
	inBubble(t, func(e *env) {
		east := e.sync(1)
		east.lose("gone")
		e.pass(2*time.Minute - time.Nanosecond)
		e.standing("s", "in-service")
		e.pass(time.Nanosecond)
		e.standing("s", "withdrawn: lost for 2m0s")
		e.pass(90 * time.Second)
		e.standing("s", "withdrawn: lost for 3m30s")
		e.put(s("when-lost", "last-resort", "lost-after", "2m", "cordon", "true"))
		e.standing("s", "withdrawn: cordoned by annotation isthmus.io/cordon of Secret linkerd/s; lost for 3m30s")
		e.put(s("when-lost", "last-resort", "lost-after", "4m"))
		e.standing("s", "in-service")
		e.pass(30 * time.Second)
		e.standing("s", "last-resort: lost for 4m0s")
		east.recover()
		e.standing("s", "in-service")
		east.lose("gone again")
		e.pass(time.Minute)
		east.recover()
		e.pass(time.Hour)
		e.put(s())
		east.lose("and again") // the default: keep
		e.pass(time.Hour)
		e.steps(
			"east pending",
			"east ready-t1",
			"east ready-t1 lost=withdrawn",
			"east ready-t1 cordon=withdrawn/0s lost=last-resort",
			"east ready-t1",
			"east ready-t1 lost=last-resort",
			"east ready-t1",
		)
		e.served(e.last(1))
		var reasons []any
		for _, l := range e.logs.FilterMessage(changed).All() {
			f := l.ContextMap()
			reasons = append(
				reasons,
				fmt.Sprint(f["cluster"], " ", f["before"], " to ", f["standing"], ": ", f["reason"]),
			)
		}
		if want := []any{
			"east in-service to withdrawn: lost for 2m0s",
			"east withdrawn to in-service: the cluster is not cordoned, " +
				"and its when-lost and lost-after settings keep it in service",
			"east in-service to last-resort: lost for 4m0s",
			"east last-resort to in-service: the cluster is not cordoned, and its API is watched",
		}; !slices.Equal(reasons, want) {
			t.Errorf("logged %q, want %q", reasons, want)
		}
	}, s("when-lost", "withdraw", "lost-after", "2m"))
}

// TestNeverReached checks that a cluster that was never reached is lost after the time in the
// Store's options. Edits do not extend that time. The loss ends with the first sync.
//
// Behaviours: CS-16, CS-19.
func TestNeverReached(t *testing.T) {
	inBubble(t, func(e *env) {
		e.store.opts.WhenLost, e.store.opts.LostAfter = federation.Withdrawn, 50*time.Second
		e.put(secret("s", "east", "t1", 0))
		e.pass(40 * time.Second)
		e.put(secret("s", "east", "t2", 0))
		e.pass(10*time.Second - time.Nanosecond)
		e.standing("s", "in-service")
		e.pass(time.Nanosecond)
		e.standing("s", "withdrawn: lost for 50s")
		e.sync(2)
		e.standing("s", "in-service")
		e.steps("east pending", "east unreachable", "east pending", "east pending lost=withdrawn", "east ready-t2")
	})
}

// TestLostEndsWithRotation checks that credentials that work end the loss in the same step.
func TestLostEndsWithRotation(t *testing.T) {
	s := func(token string) *corev1.Secret {
		return with(secret("s", "east", token, 0), "when-lost", "withdraw", "lost-after", "1s")
	}
	inBubble(t, func(e *env) {
		e.sync(1)
		e.made[0].lose("certificate has expired")
		e.pass(time.Second)
		e.put(s("t2"))
		e.sync(2)
		e.steps("east pending", "east ready-t1", "east ready-t1 lost=withdrawn", "east ready-t2")
	}, s("t1"))
}

// TestStandingReference edits the annotations of a link Secret at random. It also loses the API
// server of the cluster, moves its Nodes and kills its gateways. After each step, the test compares
// the Link that the table got with package spec.
func TestStandingReference(t *testing.T) {
	values := map[string][]string{
		spec.CordonKey:     {"false", "last-resort", "true", "yes", " true "},
		spec.CordonOverKey: {"0s", "1h", "2h", "-1s"},
		spec.WhenLostKey:   {"keep", "last-resort", "withdraw", "drop"},
		spec.LostAfterKey:  {"1s", "25s", "999ms", "soon"},
		spec.RegionKey:     {"us", "no region!", ""},
		spec.NetworkKey:    {"", "far", "near", "no network!"},
	}
	keys := slices.Sorted(maps.Keys(values))
	defaults := spec.LinkSettings{WhenLost: spec.LastResort, LostAfter: 45 * time.Second}
	options := Options{Network: "near", WhenLost: federation.LastResort, LostAfter: defaults.LostAfter}
	inBubbleWith(t, options, func(e *env) {
		const address = "192.0.2.1"
		outside := e.linkBehind(probed(gatewayService(address)))
		east := e.sync(1)
		r := rand.New(rand.NewPCG(1, 1))
		annotations := make(map[string]string)
		region, dead := "", false
		var lostSince time.Time
		for step := range 400 {
			switch r.IntN(8) {
			case 0:
				lostSince = time.Now()
				east.lose("gone")
			case 1:
				lostSince = time.Time{}
				east.recover()
			case 2:
				region = []string{"", "eu", "us"}[r.IntN(3)]
				east.move(region)
			case 3:
				dead = !dead
				outside.kill(map[bool]string{true: address}[dead])
			default:
				key := keys[r.IntN(len(keys))]
				delete(annotations, key)
				if r.IntN(4) > 0 {
					annotations[key] = values[key][r.IntN(len(values[key]))]
				}
				s := secret("s", "east", "t1", 0)
				maps.Copy(s.Annotations, annotations)
				e.put(s)
			}
			e.pass(10 * time.Second) // longer than the detection of a dead gateway takes
			e.mu.Lock()
			link := e.link
			e.mu.Unlock()
			want := defaults.With(annotations)
			lost := !lostSince.IsZero() && time.Since(lostSince) >= want.LostAfter
			_, behind := link.Source.(*gateway.Source)
			otherNetwork := want.Network != options.Network
			wantRegion := cmp.Or(want.Region, region)
			standing := spec.Standing(max(link.Cordon, link.Lost))
			if standing != want.Standing(lost, dead && otherNetwork) || link.CordonOver != want.CordonOver ||
				spec.Standing(link.Cordon) != want.Cordon || link.Region != wantRegion || behind != otherNetwork {
				t.Fatalf("step %d: %v, lost %v, dead %v: the table got %+v", step, annotations, lost, dead, link)
			}
		}
	})
}

// TestRestlessRegion checks that frequent changes of a cluster's Nodes cause few updates of the
// table. The last region always reaches the table.
func TestRestlessRegion(t *testing.T) {
	inBubble(t, func(e *env) {
		e.sync(1)
		for range 20 {
			e.made[0].move("us")
			e.made[0].move("eu")
			e.pass(pace.SignalPause / 20)
		}
		e.made[0].move("asia")
		e.pass(pace.SignalPause)
		e.steps(
			"east pending",
			"east ready-t1",
			"east ready-t1 region=us",
			"east ready-t1 region=eu",
			"east ready-t1 region=asia",
		)
		e.pass(pace.SignalPause)
		e.made[0].move("us")
		e.steps("east ready-t1 region=asia", "east ready-t1 region=us")
	}, secret("s", "east", "t1", 0))
}
