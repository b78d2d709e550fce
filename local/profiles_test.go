package local

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/panics"
)

// TestProfilesReference changes objects at random, while watches are opened and closed, and
// compares the watched profiles with a reference.
func TestProfilesReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := make(map[cluster.Topic]int) // a version of each topic, which profiles show as their port
		p := newProfiles(func(k federation.ProfileKey) *federation.Profile {
			return &federation.Profile{Port: uint16(now[topicOf(k)])}
		}, nil)
		keys := rapid.SampledFrom([]federation.ProfileKey{
			{Service: shopWeb, Port: 80}, {Service: shopWeb, Port: 81}, {Service: shopWeb, Port: 80, Namespace: "a"}, {Service: shopWeb, Port: 80, Instance: "h"},
			{Addr: netip.MustParseAddrPort(podAddr)}, {Addr: netip.MustParseAddrPort("10.0.0.1:81")}, {Addr: netip.MustParseAddrPort(webAddr)},
		})
		type open struct {
			*federation.Watch[*federation.Profile]
			key federation.ProfileKey
		}
		var list []open
		t.Repeat(map[string]func(*rapid.T){
			"watch": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				list = append(list, open{p.watch(k), k})
			},
			"close": func(t *rapid.T) {
				if len(list) > 0 {
					i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
					list[i].Close()
					list = append(list[:i:i], list[i+1:]...)
				}
			},
			"change": func(t *rapid.T) {
				k := topicOf(keys.Draw(t, "key"))
				before := make(map[int]*federation.Profile)
				for i, w := range list {
					before[i], _ = w.Get()
				}
				changed := rapid.Bool().Draw(t, "really")
				if changed {
					now[k]++
				}
				p.changed(k)
				for i, w := range list {
					if after, _ := w.Get(); (after != before[i]) != (changed && topicOf(w.key) == k) {
						t.Fatalf("%+v: %+v, before %+v", w.key, after, before[i])
					}
				}
			},
			"": func(t *rapid.T) {
				distinct := make(map[federation.ProfileKey]bool)
				for _, w := range list {
					distinct[w.key] = true
					if got, _ := w.Get(); int(got.Port) != now[topicOf(w.key)] {
						t.Fatalf("%+v is %d, want %d", w.key, got.Port, now[topicOf(w.key)])
					}
				}
				if len(p.watched) != len(distinct) {
					t.Fatalf("%d are kept of %d", len(p.watched), len(distinct))
				}
			},
		})
	})
}

// TestProfilesAfterPanic: a profile whose build has panicked leaves nothing behind,
// and the next watch gets it.
func TestProfilesAfterPanic(t *testing.T) {
	broken := true
	p := newProfiles(func(federation.ProfileKey) *federation.Profile {
		if broken {
			panic("broken")
		}
		return &federation.Profile{Name: "web"}
	}, nil)
	k := federation.ProfileKey{Service: federation.ServiceID{Namespace: "shop", Name: "web"}, Port: 80}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		p.watch(k)
	}()
	if len(p.watched)+len(p.topics) != 0 {
		t.Errorf("%d watched, %d topics are left", len(p.watched), len(p.topics))
	}
	broken = false
	w := p.watch(k)
	defer w.Close()
	if got, _ := w.Get(); got == nil || got.Name != "web" {
		t.Errorf("got %+v", got)
	}
}

// TestPanicOfProfile: a profile whose build panics stays as it was until a retry succeeds, and
// other profiles of the topic are updated.
func TestPanicOfProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSupervisor(t)
		var broken atomic.Bool
		name := "before"
		p := newProfiles(func(k federation.ProfileKey) *federation.Profile {
			if broken.Load() && k.Port == 80 {
				panic("boom")
			}
			return &federation.Profile{Name: name}
		}, s)
		bad := p.watch(federation.ProfileKey{Service: shopWeb, Port: 80})
		good := p.watch(federation.ProfileKey{Service: shopWeb, Port: 81})
		defer bad.Close()
		defer good.Close()
		check := func(bads, goods string, failures int) {
			t.Helper()
			b, _ := bad.Get()
			g, _ := good.Get()
			if b.Name != bads || g.Name != goods || len(s.Failures()) != failures {
				t.Errorf("profiles %q and %q, failures %+v", b.Name, g.Name, s.Failures())
			}
		}
		broken.Store(true)
		name = "after"
		p.changed(cluster.Topic{Service: shopWeb})
		check("before", "after", 1)
		broken.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		check("after", "after", 0)
		if s.Count(panics.Profile) != 1 {
			t.Errorf("counted %d", s.Count(panics.Profile))
		}
	})
}

// TestPanicOfProfileWatchedAnew: an update of a profile that has no watches any more says nothing
// about the profile of the same key that is watched anew. Nothing is built for the old profile.
func TestPanicOfProfileWatchedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSupervisor(t)
		var broken atomic.Bool
		var builds atomic.Int64
		name := "before"
		p := newProfiles(func(federation.ProfileKey) *federation.Profile {
			builds.Add(1)
			if broken.Load() {
				panic("boom")
			}
			return &federation.Profile{Name: name}
		}, s)
		k := federation.ProfileKey{Service: shopWeb, Port: 80}
		first := p.watch(k)
		old := p.watched[k]
		first.Close()
		anew := p.watch(k)
		defer anew.Close()
		broken.Store(true)
		name = "after"
		p.changed(cluster.Topic{Service: shopWeb})
		broken.Store(false)
		before := builds.Load()
		if p.refresh(old); builds.Load() != before {
			t.Error("a profile without watches was built")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got, _ := anew.Get(); got.Name != "after" || len(s.Failures()) != 0 {
			t.Errorf("profile %q, failures %+v", got.Name, s.Failures())
		}
	})
}

// startSupervisor returns a Supervisor that runs until the end of the test.
func startSupervisor(t *testing.T) *panics.Supervisor {
	s := panics.New(zap.NewNop())
	go func() { _ = s.Run(t.Context()) }()
	return s
}
