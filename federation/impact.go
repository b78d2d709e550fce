package federation

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// ServiceImpact is what clients of a service port have, and what they would be left with.
type ServiceImpact struct {
	Service ServiceID
	// Watched is set if clients watch the port. Then Now and Then count endpoints. Otherwise no port of
	// the service is watched, and each cluster that serves it counts 1.
	Watched bool
	Port    uint16 // if Watched
	// Zone and Node are those of the clients that are left with least. Now and Then are about these
	// clients. Both are empty if all clients are left with the same.
	Zone, Node string
	Now, Then  []ClusterCount // by the members' clusters, in definition order
}

// ClusterCount is how many endpoints clients get of a cluster.
type ClusterCount struct {
	Cluster ClusterName
	Count   int
}

// bare reports whether clients have something now, and would be left with nothing.
func (i *ServiceImpact) bare() bool { return total(i.Now) > 0 && total(i.Then) == 0 }

// total sums up what clients get of all clusters.
func total(list []ClusterCount) (n int) {
	for _, c := range list {
		n += c.Count
	}
	return n
}

// compareImpacts orders impacts by what clients are left with: those that lose everything that there
// was come first, then those that are left with least. No two clients are equal.
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

// Impact returns what the services that a cluster is a member of would be left with if it were
// cordoned to that extent, or with InService no longer cordoned: sorted by service and port.
// Endpoints are chosen as they are for clients, and nothing is changed. It takes about
// as long as the change itself would. It returns an error if the context ends first.
func (t *Table) Impact(ctx context.Context, c ClusterName, s Standing) ([]ServiceImpact, error) {
	services := make(map[ServiceID]bool)
	for id, d := range t.definitions.inChunks(&t.mu) {
		if slices.ContainsFunc(d.Members, func(m Member) bool { return m.Cluster == c }) {
			services[id] = true
		}
	}
	list := []ServiceImpact{}
	for _, id := range slices.SortedFunc(maps.Keys(services), ServiceID.compare) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		in := t.inputs(id)
		if in.definition == nil {
			continue // it has just gone
		}
		watched := t.watchedService(id).trials(in.definition.Members)
		for _, x := range watched {
			list = append(list, x.impact(id, in.cordoned(c, s), t.opts))
		}
		if len(watched) == 0 {
			now := in.serving(t.opts)
			then := in.cordoned(c, s).serving(t.opts)
			list = append(list, ServiceImpact{Service: id, Now: now, Then: then})
		}
	}
	return list, nil
}

// cordoned returns what a service is made of if a cluster had that cordon, and no change of it
// were under way.
func (in inputs) cordoned(c ClusterName, s Standing) inputs {
	in.links = slices.Clone(in.links)
	for i := range in.links {
		if in.definition.Members[i].Cluster == c {
			in.links[i].Cordon = s
			in.links[i].cordon = spread{to: s}
		}
	}
	return in
}

// serving counts 1 for each member that serves, and may be used.
func (in inputs) serving(o Options) (list []ClusterCount) {
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

// count counts endpoints by the clusters of the members.
func (in inputs) count(endpoints []*Endpoint) (list []ClusterCount) {
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

// trials copies the service's ports, by number. A nil or broken service has none. A port whose members have
// just become others is left out.
func (s *watchedService) trials(of []Member) (list []*trial) {
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
		if len(x.clients) == 0 { // those of instances only: what the service has counts
			x.clients[Client{}] = family(inZone(p.merged, ""), s.table.opts.IPv6)
		}
		list = append(list, x)
	}
	return list
}

// trial is a copy of a port, and of what the clients of the whole service get of it.
type trial struct {
	port
	clients map[Client][]*Endpoint
}

// impact finds out which of the clients are left with least.
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
			Now:     in.count(now),
			Then:    in.count(after[c]),
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

// after returns what the clients would get if the service were made of in, and they began to watch it then.
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
