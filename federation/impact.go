package federation

import (
	"cmp"
	"maps"
	"slices"
)

// ServiceImpact compares the endpoints that clients of a service port receive now with the
// endpoints they would receive after a cordon.
type ServiceImpact struct {
	Service ServiceID
	// Watched says whether clients watch a port of the service. If Watched is true, each Count in
	// the Now and Then fields is the number of endpoints that clients receive from the cluster. If
	// Watched is false, the Count is 1 for each member that clients can use, and 0 for every other
	// member.
	Watched bool
	Port    uint16 // zero unless Watched is true
	// Zone and Node identify the clients that would have the fewest endpoints left. The fields Now
	// and Then apply to the clients that Zone and Node identify. If the result is the same for all
	// clients, Zone and Node are empty.
	Zone, Node string
	Now, Then  []ClusterCount // by the members' clusters, in definition order
}

// ClusterCount is the number of endpoints that clients receive from one cluster.
type ClusterCount struct {
	Cluster ClusterName
	Count   int
}

func (i *ServiceImpact) bare() bool { return total(i.Now) > 0 && total(i.Then) == 0 }

func total(list []ClusterCount) (n int) {
	for _, c := range list {
		n += c.Count
	}
	return n
}

// compareImpacts orders impacts by severity. Clients that would lose all their endpoints come
// first, followed by the clients with the fewest remaining endpoints. Zones and nodes are compared
// only to make the order deterministic.
func compareImpacts(a, b *ServiceImpact) int {
	rank := func(i *ServiceImpact) int {
		if i.bare() {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(total(a.Then), total(b.Then)),
		cmp.Compare(total(b.Now), total(a.Now)),
		cmp.Compare(a.Zone, b.Zone),
		cmp.Compare(a.Node, b.Node),
	)
}

func cordoned(in inputs, c ClusterName, s Standing) inputs {
	in.links = slices.Clone(in.links)
	for i := range in.links {
		if in.definition.Members[i].Cluster == c {
			in.links[i].Cordon = s
			in.links[i].cordon = spread{to: s}
		}
	}
	return in
}

// For each member, the serving function returns 1 if clients can use the member, and 0 otherwise.
func serving(in inputs, o Options) (list []ClusterCount) {
	st := newSteering(in, o.Now)
	for i, m := range in.definition.Members {
		n := 0
		if s := in.links[i].status(m.Service); s.Serving() && !s.Unreached && !st.unused(i) {
			n = 1
		}
		list = append(list, ClusterCount{Cluster: m.Cluster, Count: n})
	}
	return list
}

func countByCluster(in inputs, endpoints []*Endpoint) (list []ClusterCount) {
	n := make(map[ClusterName]int)
	for _, e := range endpoints {
		n[e.Cluster]++
	}
	for _, m := range in.definition.Members {
		if !slices.ContainsFunc(list, func(c ClusterCount) bool { return c.Cluster == m.Cluster }) {
			list = append(list, ClusterCount{Cluster: m.Cluster, Count: n[m.Cluster]})
		}
	}
	return list
}

// The trials function returns copies of the service's ports, sorted by number. If the members of a
// port differ from the given members, the port is omitted, because it is out of date and about to
// be updated. If the service is nil or broken, the result is nil.
func trials(s *watchedService, of []Member) (list []*trial) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil
	}
	for _, number := range slices.Sorted(maps.Keys(s.ports)) {
		p := s.ports[number]
		x := &trial{clients: make(map[Client][]*Endpoint)}
		if !slices.EqualFunc(p.members, of, func(c contribution, m Member) bool { return c.member == m }) {
			continue
		}
		p.copyTo(&x.port)
		for _, to := range p.whole() {
			set, _ := to.latest.Get()
			x.clients[to.client] = set.Endpoints
		}
		if len(x.clients) == 0 { // only instances are watched, so describe the whole service
			x.clients[Client{}] = family(inZone(p.merged, ""), s.table.opts.IPv6)
		}
		list = append(list, x)
	}
	return list
}

// trial holds a copy of a service port, and the endpoints that each client of the port currently
// receives. Clients that request a particular instance of the service are omitted.
type trial struct {
	port
	clients map[Client][]*Endpoint
}

func (x *trial) impact(id ServiceID, in inputs, o Options) ServiceImpact {
	after := x.after(in, o)
	var worst *ServiceImpact
	alike := true
	for c, now := range x.clients {
		one := ServiceImpact{
			Service: id,
			Watched: true,
			Port:    x.number,
			Zone:    c.Zone,
			Node:    c.Node,
			Now:     countByCluster(in, now),
			Then:    countByCluster(in, after[c]),
		}
		alike = alike && (worst == nil || slices.Equal(one.Now, worst.Now) && slices.Equal(one.Then, worst.Then))
		if worst == nil || compareImpacts(&one, worst) < 0 {
			worst = &one
		}
	}
	if alike {
		worst.Zone = ""
		worst.Node = ""
	}
	return *worst
}

func (x *trial) after(in inputs, o Options) map[Client][]*Endpoint {
	p := x.port
	allowed := make([]offer, len(x.members))
	for i := range allowed {
		allowed[i] = x.members[i].allowed
	}
	p.steering = newSteering(in, o.Now)
	p.failingBack = make(map[*published]struct{})
	p.offers = p.steering.offers(allowed)
	p.merged, _ = merge(p.offers)
	p.unready = p.steering.unready(p.offers, p.merged)
	p.summary = summarize(in.definition, p.members, p.steering)

	var clients []*published
	for c := range x.clients {
		clients = append(clients, &published{client: c})
	}
	pass := newPass(&p, o.IPv6, clients...)
	got := make(map[Client][]*Endpoint, len(clients))
	for _, to := range clients {
		t := pass.tally(to.client)
		u := p.decideTiers(to, t, o.Now())
		got[to.client] = pass.get(t, u, to.client)
	}
	return got
}
