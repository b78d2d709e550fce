package local

import (
	"sync"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// profiles are those that somebody watches.
type profiles struct {
	make func(federation.ProfileKey) *federation.Profile // fixed; of what is known now

	// mu is a leaf: it is held for map access only.
	mu      sync.Mutex
	watched map[federation.ProfileKey]*watched
	topics  map[cluster.Topic]map[*watched]struct{}
}

// watched is one profile that somebody watches.
type watched struct {
	key    federation.ProfileKey // fixed
	latest federation.Latest[*federation.Profile]

	refs int        // under profiles.mu: its watches
	mu   sync.Mutex // held while the profile is made and published
}

// topicOf says which changes are about a profile.
func topicOf(k federation.ProfileKey) cluster.Topic {
	if k.Addr.IsValid() {
		return cluster.Topic{IP: k.Addr.Addr()}
	}
	return cluster.Topic{Service: k.Service, Instances: k.Instance != ""}
}

func newProfiles(made func(federation.ProfileKey) *federation.Profile) profiles {
	return profiles{
		make:    made,
		watched: make(map[federation.ProfileKey]*watched),
		topics:  make(map[cluster.Topic]map[*watched]struct{}),
	}
}

// watch follows one profile. Watches of equal keys share everything, and of what
// nobody watches nothing is left.
func (p *profiles) watch(k federation.ProfileKey) *federation.Watch[*federation.Profile] {
	w := p.hold(k)
	watch := federation.NewWatch(&w.latest, func() { p.release(w) })
	made := false
	defer func() {
		if !made { // it has panicked
			watch.Close()
		}
	}()
	w.first(p.make) // known to changes by now: none is missed
	made = true
	return watch
}

// hold returns what is watched of a key, with one watch more.
func (p *profiles) hold(k federation.ProfileKey) *watched {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.watched[k]
	if w == nil {
		w = &watched{key: k}
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

// release takes a watch away, and forgets what had no other.
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

// changed makes the profiles anew that a change may be about.
func (p *profiles) changed(t cluster.Topic) {
	p.mu.Lock()
	list := make([]*watched, 0, len(p.topics[t]))
	for w := range p.topics[t] {
		list = append(list, w)
	}
	p.mu.Unlock()
	for _, w := range list {
		w.refresh(p.make)
	}
}

// first makes the profile, unless that has been done.
func (w *watched) first(made func(federation.ProfileKey) *federation.Profile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, _ := w.latest.Get(); known == nil {
		w.latest.Set(made(w.key))
	}
}

// refresh publishes the profile if it is another than before. Of several at once
// the last one sees the newest state.
func (w *watched) refresh(made func(federation.ProfileKey) *federation.Profile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := made(w.key)
	if before, _ := w.latest.Get(); !now.Equal(before) {
		w.latest.Set(now)
	}
}
