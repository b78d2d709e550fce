package local

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/panics"
)

// profiles holds the profiles that clients watch.
//
// Each change rebuilds the affected profiles from the current objects. Each profile is registered
// for change notifications before it is first built, so that no change is missed. Changes to
// endpoints do not affect the profiles of service ports.
type profiles struct {
	build      func(federation.ProfileKey) *federation.Profile // fixed; builds a profile from the present objects
	supervisor *panics.Supervisor                              // fixed

	// mu guards the maps. Code that holds mu must not acquire another lock.
	mu      sync.Mutex
	watched map[federation.ProfileKey]*watched
	topics  map[cluster.Topic]map[*watched]struct{}
}

type watched struct {
	key    federation.ProfileKey // fixed
	work   panics.Work           // fixed
	latest federation.Latest[*federation.Profile]

	refs int        // guarded by profiles.mu; number of watches
	mu   sync.Mutex // held while the profile is built and published
}

func topicOf(k federation.ProfileKey) cluster.Topic {
	if k.Addr.IsValid() {
		return cluster.Topic{IP: k.Addr.Addr()}
	}
	return cluster.Topic{Service: k.Service, Instances: k.Instance != ""}
}

func newProfiles(build func(federation.ProfileKey) *federation.Profile, supervisor *panics.Supervisor) profiles {
	return profiles{
		build:      build,
		supervisor: supervisor,
		watched:    make(map[federation.ProfileKey]*watched),
		topics:     make(map[cluster.Topic]map[*watched]struct{}),
	}
}

func workOf(k federation.ProfileKey) panics.Work {
	w := panics.Work{Where: panics.Profile, Service: k.Service}
	if k.Addr.IsValid() {
		w.Object = k.Addr.String()
	} else {
		w.Object = fmt.Sprintf("%s:%d", k.Instance, k.Port)
	}
	if k.Namespace != "" {
		w.Object += " for namespace " + k.Namespace
	}
	return w
}

// A profile is removed when its last watch is closed.
func (p *profiles) watch(k federation.ProfileKey) *federation.Watch[*federation.Profile] {
	w := p.acquire(k)
	watch := federation.NewWatch(&w.latest, func() { p.release(w) })
	built := false
	defer func() {
		if !built { // build has panicked
			watch.Close()
		}
	}()
	w.publish(p.build, false)
	built = true
	return watch
}

func (p *profiles) acquire(k federation.ProfileKey) *watched {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.watched[k]
	if w == nil {
		w = &watched{key: k, work: workOf(k)}
		w.work.Of = w
		p.watched[k] = w
		t := topicOf(k)
		if p.topics[t] == nil {
			p.topics[t] = make(map[*watched]struct{})
		}
		p.topics[t][w] = struct{}{}
	}
	w.refs++
	return w
}

func (p *profiles) release(w *watched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.refs--; w.refs > 0 {
		return
	}
	delete(p.watched, w.key)
	t := topicOf(w.key)
	if delete(p.topics[t], w); len(p.topics[t]) == 0 {
		delete(p.topics, t)
	}
}

func (p *profiles) changed(t cluster.Topic) {
	for _, w := range p.about(t) {
		p.refresh(w)
	}
}

// refresh rebuilds a profile that clients are watching, and publishes the profile if it has
// changed. After a panic, clients keep the previous profile until a retry succeeds.
func (p *profiles) refresh(w *watched) {
	publish := func() {
		if p.isWatched(w) {
			w.publish(p.build, true)
		}
	}
	p.supervisor.Do(w.work, publish, func() { p.refresh(w) })
}

func (p *profiles) isWatched(w *watched) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return w.refs > 0
}

func (p *profiles) about(t cluster.Topic) []*watched {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.topics[t]))
}

// The publish method builds the profile, and publishes it if it has changed. The again argument
// allows the method to replace a profile that has already been published. If calls overlap, the
// last call reads the newest objects.
func (w *watched) publish(build func(federation.ProfileKey) *federation.Profile, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, _ := w.latest.Get()
	if before != nil && !again {
		return
	}
	if now := build(w.key); !now.Equal(before) {
		w.latest.Set(now)
	}
}
