package bench

import (
	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
)

// ServicesScale is the number of Services in each of three clusters, and of endpoints per Service
// and cluster.
type ServicesScale struct{ Services, Endpoints int }

func (c ServicesScale) fleet() fleet.Config {
	return fleet.Config{Linked: 2, Services: c.Services, Slices: 1, Endpoints: c.Endpoints, Joined: true, Nodes: true}
}

func authorities(joined bool) func(int) string {
	if joined {
		return federated
	}
	return local
}

// connect returns a trial that opens all streams at once, closes them and opens them again.
func connect(s Scale) Trial {
	return Trial{
		Name: "connect", Claims: overview, floor: true, repeats: s.Repeats, fleet: s.web,
		Figures: []Figure{
			{Key: "cpu", Label: "CPU to connect all", Unit: "s", MaxRatio: atFloor},
			{Key: "memory", Label: "memory per stream", Unit: "kB", MaxRatio: atFloor},
			{Key: "reconnect", Label: "CPU to disconnect and reconnect all streams", Unit: "s", MaxRatio: atFloor},
		},
		do: func(r *run) {
			r.start().connectTwice(spread(s.Streams, s.Conns, s.Web.Services, federated), func(*load.Load) {})
		},
	}
}

// ProxiesScale is the number of proxies and of changes during the trial.
type ProxiesScale struct {
	Crowd
	Changed int // number of Services to change; each is changed and changed back
	Rate    int // changes per second
}

// proxies returns a trial that opens streams like real proxies, changes some of their services, and
// then closes and reopens all streams at once.
func proxies(s Scale) Trial {
	return Trial{
		Name: "proxies", Claims: optimizations, floor: true, repeats: s.Repeats, fleet: s.app,
		Figures: []Figure{
			{Key: "cpu", Label: "CPU to connect all", Unit: "s", MaxRatio: asProxies},
			{Key: "update", Label: "CPU per delivered update", Unit: "µs", MaxRatio: asProxies},
			{Key: "reconnect", Label: "CPU to disconnect and reconnect all streams", Unit: "s", MaxRatio: atFloor},
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

// serviceChanges returns three changes to a service: to an endpoint, to the profile of the local
// Service, and to the profile of the federated Service. The number of the service determines the
// cluster of the endpoint.
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

// Crowd is a number of proxies, each with one connection and the given number of streams.
type Crowd struct{ Conns, Streams int }

// targets returns the streams of all proxies in the order in which load.Config assigns them to
// connections. Half of them are Get streams and half are GetProfile streams. In both halves, half
// of the Services are federated. Neighboring proxies use different services, and so do the streams
// of one proxy.
func (c Crowd) targets(services int) []load.Target {
	const apart = 251 // distance between the Services of one proxy
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
