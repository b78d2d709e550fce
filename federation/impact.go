package federation

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"isthmus/internal/adminapi"
)

// Impact returns what the services that a cluster is a member of would be left with if it were
// cordoned to that extent, or with InService no longer cordoned: sorted by service and port, without
// Streams. Endpoints are chosen as they are for clients, and nothing is changed. It takes about
// as long as the change itself would. It returns an error if the context ends first.
func (t *Table) Impact(ctx context.Context, c ClusterName, s Standing) ([]adminapi.ServiceImpact, error) {
	services := make(map[ServiceID]bool)
	for id, d := range t.definitions.inParts(&t.mu) {
		if slices.ContainsFunc(d.Members, func(m Member) bool { return m.Cluster == c }) {
			services[id] = true
		}
	}
	list := []adminapi.ServiceImpact{}
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
			now, then := in.serving(t.opts), in.cordoned(c, s).serving(t.opts)
			list = append(list, adminapi.ServiceImpact{Service: id.String(), Now: now, Then: then})
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
			in.links[i].Cordon, in.links[i].cordon = s, spread{to: s}
		}
	}
	return in
}

// serving counts 1 for each member that serves, and may be used.
func (in inputs) serving(o Options) (list []adminapi.ImpactCount) {
	st := newSteering(in, o.Now)
	for i, m := range in.definition.Members {
		n := 0
		if s := in.links[i].status(m.Service); s.Serving() && !s.Unreached && !st.unused(i) {
			n = 1
		}
		list = append(list, adminapi.ImpactCount{Cluster: m.Cluster.String(), Count: n})
	}
	return list
}

// trial is a copy of a port, and of what the clients of the whole service get of it.
type trial struct {
	port
	clients map[Client][]*Endpoint
}

// trials copies the service's ports, by number. nil has none, nor has one that is broken, or whose members have just
// become others.
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
		p, x := s.ports[number], &trial{clients: make(map[Client][]*Endpoint)}
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

// after returns what the clients would get if the service were made of in, and they began to watch it then.
func (x *trial) after(in inputs, o Options) map[Client][]*Endpoint {
	p, kept := x.port, make([]offer, len(x.members))
	for i := range kept {
		kept[i] = x.members[i].kept
	}
	p.steering, p.returning = newSteering(in, o.Now), make(map[*published]struct{})
	p.offers = p.steering.offers(kept)
	p.merged, _ = merge(p.offers)
	p.unready = p.steering.unready(p.offers, p.merged)
	p.summary = summarize(in.definition, p.members, p.steering)
	var clients []*published
	for c := range x.clients {
		clients = append(clients, &published{client: c})
	}
	pass, got := newPass(&p, o.IPv6, clients...), make(map[Client][]*Endpoint, len(clients))
	for _, to := range clients {
		pass.publish(to, o.Now(), origin{})
		set, _ := to.latest.Get()
		got[to.client] = set.Endpoints
	}
	return got
}

// impact finds out which of the clients are left with least.
func (x *trial) impact(id ServiceID, in inputs, o Options) adminapi.ServiceImpact {
	after := x.after(in, o)
	var worst *adminapi.ServiceImpact
	alike := true
	for c, now := range x.clients {
		one := adminapi.ServiceImpact{
			Service: id.String(), Watched: true, Port: x.number, Zone: c.Zone, Node: c.Node,
			Now: in.count(now), Then: in.count(after[c]),
		}
		alike = alike && (worst == nil || slices.Equal(one.Now, worst.Now) && slices.Equal(one.Then, worst.Then))
		if worst == nil || compareImpacts(&one, worst) < 0 {
			worst = &one
		}
	}
	if alike {
		worst.Zone, worst.Node = "", ""
	}
	return *worst
}

// count counts endpoints by the clusters of the members.
func (in inputs) count(endpoints []*Endpoint) (list []adminapi.ImpactCount) {
	n := make(map[ClusterName]int)
	for _, e := range endpoints {
		n[e.Cluster]++
	}
	for _, m := range in.definition.Members {
		if name := m.Cluster.String(); !slices.ContainsFunc(list, func(c adminapi.ImpactCount) bool { return c.Cluster == name }) {
			list = append(list, adminapi.ImpactCount{Cluster: name, Count: n[m.Cluster]})
		}
	}
	return list
}

// compareImpacts orders impacts by what clients are left with: those that lose everything that there
// was come first, then those that are left with least. No two clients are equal.
func compareImpacts(a, b *adminapi.ServiceImpact) int {
	bare := func(i *adminapi.ServiceImpact) int {
		if i.Bare() {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(bare(a), bare(b)), cmp.Compare(adminapi.Total(a.Then), adminapi.Total(b.Then)), cmp.Compare(adminapi.Total(b.Now), adminapi.Total(a.Now)),
		cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Node, b.Node))
}
