package bench

import (
	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
)

// Methods of the Destination service.
const getMethod, profileMethod = "Get", "GetProfile"

// spread returns Get streams, spread over some services.
func spread(streams, conns, services int, authority func(service int) string) load.Config {
	cfg := load.Config{Conns: conns}
	for i := range streams {
		cfg.Targets = append(cfg.Targets, load.Target{Method: getMethod, Authority: authority(i % services), Token: fleet.Token(i)})
	}
	return cfg
}

// local and federated return the authorities of Services, by number.
func local(i int) string     { return fleet.Authority(fleet.Service(i)) }
func federated(i int) string { return fleet.Authority(fleet.Federated(fleet.Service(i))) }

// keepFirst has the messages of the first stream of each service and method kept.
func keepFirst(targets []load.Target) {
	kept := map[[2]string]bool{}
	for i, t := range targets {
		of := [2]string{t.Method, t.Authority}
		targets[i].Keep, kept[of] = !kept[of], true
	}
}

// record writes what streams have been sent whose messages are kept: the floor sends that.
func (r *run) record(streams *load.Load) {
	recording := floorRecording{Get: map[string]floorAnswer{}, GetProfile: map[string]floorAnswer{}}
	streams.Messages(func(to load.Target, messages [][]byte) {
		if to.Keep {
			recording.Of(to.Method)[to.Authority] = floorAnswer{First: messages[:1], Steps: messages[1:]}
		}
	})
	check(recording.Write(r.recording))
}
