package bench

import (
	"fmt"
	"slices"

	"isthmus/e2e/bench/floor"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/world"
)

// Methods of the Destination service.
const getMethod, profileMethod = "Get", "GetProfile"

// family is a kind of streams: the services of the real clusters that they are spread over, and the method.
type family struct {
	name      string
	method    string
	web       bool // Services with many Pods; else those with few
	federated bool
}

var (
	webLocal          = family{"web", getMethod, true, false}
	webFederated      = family{"web federated", getMethod, true, true}
	appLocal          = family{"app", getMethod, false, false}
	appFederated      = family{"app federated", getMethod, false, true}
	profilesLocal     = family{"profiles", profileMethod, false, false}
	profilesFederated = family{"profiles federated", profileMethod, false, true}
)

// count returns how many services there are.
func (f family) count(s world.Scale) int {
	if f.web {
		return s.Web
	}
	return s.App
}

// service is what a stream subscribes to, and where it can be changed.
type service struct {
	method, authority string
	cluster           int    // by number
	name              string // of the Service there
	also              string // another authority that changes with it; empty: none
}

// of returns a service, by number. What is changed of a federated one with many Pods is in the first linked cluster, of those with
// few in all clusters in turn: in the local one that changes the local Service too.
func (f family) of(i int) service {
	name := world.App(i)
	if f.web {
		name = world.Web(i)
	}
	s := service{method: f.method, authority: world.Authority(name), name: name}
	if !f.federated {
		return s
	}
	local := s.authority
	s.authority = world.Authority(world.Federated(name))
	switch {
	case f.method == profileMethod:
		s.name = world.Federated(name)
	case f.web:
		s.cluster = 1
	default:
		if s.cluster = i % len(world.Names); s.cluster == 0 {
			s.also = local
		}
	}
	return s
}

// spread returns all streams, spread over the first few services of a family.
func (r *run) spread(f family, services int) load.Config {
	cfg := spread(r.cfg.Scale.Streams, r.cfg.Scale.Conns, services, func(i int) string { return f.of(i).authority })
	cfg.Method, cfg.First = f.method, r.first[f.name]
	return cfg
}

// spread returns Get streams, spread over some services.
func spread(streams, conns, services int, authority func(service int) string) load.Config {
	cfg := load.Config{Method: getMethod, Conns: conns}
	for i := range streams {
		cfg.Targets = append(cfg.Targets, load.Target{Authority: authority(i % services), Token: world.Token(i)})
	}
	return cfg
}

// record asks the measured server once for everything that trials are about, one stream for each service, and writes what
// it answers.
func (r *run) record(trials []Trial) {
	at := r.start()
	recording := floor.Recording{Get: map[string]floor.Answer{}, GetProfile: map[string]floor.Answer{}}
	var done []family
	for _, t := range trials {
		for _, f := range t.families {
			if !slices.Contains(done, f) {
				at.record(f, recording.Of(f.method))
				done = append(done, f)
			}
		}
	}
	check(recording.Write(r.Lab.recording))
}

// record adds what the services of a family answer. All that are changed in one cluster have the steps of the first
// of these, which is changed and changed back: those of the others have the same sizes.
func (s *server) record(f family, to map[string]floor.Answer) {
	services := f.count(s.cfg.Scale.World)
	cfg := spread(services, s.cfg.Scale.Conns, services, func(i int) string { return f.of(i).authority })
	cfg.Method, cfg.Keep = f.method, true
	streams := s.open(cfg)
	s.settle(streams)
	streams.Messages(func(t load.Target, messages [][]byte) { to[t.Authority] = floor.Answer{First: messages} })
	first := len(to[cfg.Targets[0].Authority].First)
	s.first[f.name] = first
	steps := make(map[int][][]byte) // by cluster
	for i, t := range cfg.Targets {
		what := f.of(i)
		if steps[what.cluster] == nil {
			steps[what.cluster] = s.recordSteps(streams, what)
		}
		if n := len(to[t.Authority].First); n != first {
			check(fmt.Errorf("%s: %s begins with %d messages, and %s with %d", f.name, cfg.Targets[0].Authority, first, t.Authority, n))
		}
		to[t.Authority] = floor.Answer{First: to[t.Authority].First, Steps: steps[what.cluster]}
	}
}

// recordSteps returns what a service's stream is sent for a change, such as an endpoint that goes, and for the way back.
func (s *server) recordSteps(streams *load.Load, what service) (steps [][]byte) {
	for range 2 {
		must(s.change(what))
		s.settle(streams)
	}
	streams.Messages(func(t load.Target, messages [][]byte) {
		if t.Authority == what.authority && len(messages) > 2 {
			steps = messages[len(messages)-2:]
		}
	})
	if steps == nil {
		check(fmt.Errorf("%s: two changes have not led to two messages", what.authority))
	}
	return steps
}
