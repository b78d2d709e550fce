package bench

import (
	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
)

// ServicesScale is how many Services there are in each of three clusters, and their endpoints there.
type ServicesScale struct{ Services, Endpoints int }

func (c ServicesScale) fleet() fleet.Config {
	return fleet.Config{Linked: 2, Services: c.Services, Slices: 1, Endpoints: c.Endpoints, Joined: true, Nodes: true}
}

// authorities returns those of Services, by number.
func authorities(joined bool) func(int) string {
	if joined {
		return federated
	}
	return local
}

// connect opens all streams at once, ends them at once and opens them again.
func connect(s Scale) Trial {
	return Trial{
		Name: "connect", Claims: overview, floor: true, repeats: s.Repeats, fleet: s.web,
		Figures: []Figure{
			{Key: "cpu", Label: "CPU to connect all", Unit: "s", MaxRatio: atFloor},
			{Key: "memory", Label: "memory per stream", Unit: "kB", MaxRatio: atFloor},
			{Key: "reconnect", Label: "CPU to drop and reconnect all", Unit: "s", MaxRatio: atFloor},
		},
		do: func(r *run) {
			r.start().connectTwice(spread(s.Streams, s.Conns, s.Web.Services, federated), func(*load.Load) {})
		},
	}
}

// ProxiesScale is how proxies connect, and what is changed under them.
type ProxiesScale struct {
	Crowd
	Changed int // Services that are changed, twice each: so that all is as it was
	Rate    int // changes a second
}

// proxies opens streams as proxies have them, changes some of their services, ends all streams at
// once and opens them again.
func proxies(s Scale) Trial {
	return Trial{
		Name: "proxies", Claims: optimizations, floor: true, repeats: s.Repeats, fleet: s.app,
		Figures: []Figure{
			{Key: "cpu", Label: "CPU to connect all", Unit: "s", MaxRatio: asProxies},
			{Key: "update", Label: "CPU per delivered update", Unit: "µs", MaxRatio: asProxies},
			{Key: "reconnect", Label: "CPU to drop and reconnect all", Unit: "s", MaxRatio: atFloor},
		},
		do: func(r *run) {
			at := r.start()
			streams := load.Config{Conns: s.Proxies.Conns, Targets: s.Proxies.targets(s.App.Services)}
			at.connectTwice(streams, func(streams *load.Load) {
				at.update(streams, s.Proxies)
			})
		},
	}
}

// serviceChanges returns changes of an endpoint of a service, in another cluster for each, and of
// the profiles of the local Service and the federated one.
func serviceChanges(i int) []change {
	name := fleet.Service(i)
	endpoint := change{cluster: i % 3, service: name, method: getMethod, authorities: []string{federated(i)}}
	if endpoint.cluster == 0 {
		endpoint.authorities = append(endpoint.authorities, local(i))
	}
	return []change{
		endpoint,
		{service: name, method: profileMethod, authorities: []string{local(i)}},
		{service: fleet.Federated(name), method: profileMethod, authorities: []string{federated(i)}},
	}
}

// Crowd is so many proxies, each a connection of so many streams.
type Crowd struct{ Conns, Streams int }

// targets returns the streams of all proxies in the order of load.Config, of so many Services: half
// are Get and half GetProfile, of either half the Services are federated. Each proxy has other
// Services than the next one, and each of its streams another.
func (c Crowd) targets(services int) []load.Target {
	const apart = 251 // the Services of one proxy's streams
	list := make([]load.Target, c.Conns*c.Streams)
	for i := range list {
		conn, n := i%c.Conns, i/c.Conns
		list[i] = load.Target{
			Method:    getMethod,
			Token:     fleet.Token(conn),
			Authority: authorities(n%4 == 1 || n%4 == 2)((conn + apart*n) % services),
		}
		if n%2 == 1 {
			list[i].Method = profileMethod
		}
	}
	return list
}
