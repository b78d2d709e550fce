package federation

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Impact is what one port of a service would be left with if a cluster had another standing.
type Impact struct {
	Service ServiceID
	// Watched: proxies watch the port. Now and Then count endpoints: those that the clients get
	// now, and those that they get once the change, and any change of tiers that follows from it,
	// is over. Otherwise no port of the service is watched, and each cluster that serves counts 1.
	Watched bool
	Port    uint16 // if Watched; AnyPort: all ports that no cluster's Service declares
	// Client is one of those who are left with least, of the clients of the whole service; zero: all
	// have and are left with the same.
	Client    Client
	Now, Then []ClusterCount // of the members' clusters, in definition order
}

// ClusterCount is how much of something a cluster has.
type ClusterCount struct {
	Cluster ClusterName
	Count   int
}

// Bare reports whether the change takes all that there is now.
func (i *Impact) Bare() bool { return total(i.Now) > 0 && total(i.Then) == 0 }

func total(list []ClusterCount) (n int) {
	for _, c := range list {
		n += c.Count
	}
	return n
}

// Impact returns what the services that a cluster is a member of would be left with if it were
// cordoned to that extent, or with InService not any more: sorted by service and port. Endpoints
// are chosen as they are for clients, and nothing is changed. It takes about as long as the
// change itself would. It returns an error if the context ends first.
func (t *Table) Impact(ctx context.Context, c ClusterName, s Standing) ([]Impact, error) {
	t.mu.Lock()
	services := make(map[ServiceID]*watchedService) // nil: it is not watched
	for id, d := range t.definitions {
		if slices.ContainsFunc(d.Members, func(m Member) bool { return m.Cluster == c }) {
			services[id] = t.watched[id]
		}
	}
	t.mu.Unlock()
	var list []Impact
	for id, watched := range services {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var ports []*trial
		if watched != nil {
			ports = watched.trials(c, s)
		}
		for _, x := range ports {
			list = append(list, x.impact(id))
		}
		if len(ports) == 0 {
			list = append(list, t.unwatchedImpact(id, c, s))
		}
	}
	slices.SortFunc(list, func(a, b Impact) int { return cmp.Or(a.Service.compare(b.Service), cmp.Compare(a.Port, b.Port)) })
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

// unwatchedImpact counts the clusters that serve a service.
func (t *Table) unwatchedImpact(id ServiceID, c ClusterName, s Standing) Impact {
	count := func(in inputs) (list []ClusterCount) {
		st := newSteering(in, t.opts.Now)
		for i, l := range in.links {
			m, n := in.definition.Members[i], 0
			if l.State == Ready && !st.unused(i) && l.Source.State(m.Service) == Present {
				if r, ok := l.Source.(Reachable); !ok || r.Reachable() {
					n = 1
				}
			}
			list = append(list, ClusterCount{m.Cluster, n})
		}
		return list
	}
	in := t.inputs(id)
	if in.definition == nil {
		return Impact{Service: id}
	}
	return Impact{Service: id, Now: count(in), Then: count(in.cordoned(c, s))}
}

// trial is a copy of a port, and of the clients that it has now, to be made anew as it would be
// after a change.
type trial struct {
	*port
	in      inputs // as they would be
	now     func() time.Time
	ipv6    bool
	clients map[Client]*Set // of the whole service, with what they get now
}

// trials copies the service's ports, for another cordon of a cluster.
func (s *watchedService) trials(c ClusterName, to Standing) (list []*trial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.table.inputs(s.id)
	if in.definition == nil {
		return nil
	}
	in = in.cordoned(c, to)
	for _, p := range s.ports {
		x := &trial{in: in, now: s.table.opts.Now, ipv6: s.table.opts.IPv6, clients: make(map[Client]*Set)}
		x.port = &port{number: p.number, members: slices.Clone(p.members), merged: p.merged}
		for to := range p.whole.each {
			x.clients[to.client], _ = to.latest.Get()
		}
		list = append(list, x)
	}
	return list
}

// remake makes the port as it would be, from what its members have been read to offer.
func (x *trial) remake() {
	before, st := x.members, newSteering(x.in, x.now)
	x.port = &port{number: x.number, steering: st}
	kept := make([]offer, len(x.in.links))
	for i, l := range x.in.links {
		c := contribution{member: x.in.definition.Members[i]}
		if known := memberIn(before, c.member); known != nil {
			c = *known
		}
		c.status.Link = l.State
		x.members, kept[i] = append(x.members, c), c.kept
	}
	x.offers = st.offers(kept)
	x.merged, _ = merge(x.offers)
	x.unready = st.unready(x.offers, x.merged)
	x.summary = summarize(x.in.definition, x.members, st)
}

// impact finds out which of the clients are left with least.
func (x *trial) impact(id ServiceID) Impact {
	if len(x.clients) == 0 { // those of instances only: what the service has counts
		x.clients[Client{}] = &Set{Endpoints: choose(x.merged, x.ipv6, false, Client{})}
	}
	x.remake()
	var worst *Impact
	alike := true
	pass := newPass(x.port, x.ipv6)
	for client, set := range x.clients {
		one := Impact{Service: id, Watched: true, Port: x.number, Client: client, Now: x.count(set.Endpoints), Then: x.count(x.choose(pass, client))}
		alike = alike && (worst == nil || slices.Equal(one.Now, worst.Now) && slices.Equal(one.Then, worst.Then))
		if worst == nil || one.worse(worst) {
			worst = &one
		}
	}
	if alike {
		worst.Client = Client{}
	}
	return *worst
}

// choose returns what a client gets, with the tiers that are needed then.
func (x *trial) choose(pass *pass, c Client) []*Endpoint {
	if x.steering == nil {
		return choose(x.merged, x.ipv6, x.summary.byNode, c)
	}
	t, v := pass.tally(c), &tierView{tiers: x.steering.preference.Tiers}
	return pass.pick(t, v.decide(x.steering, t.counts, x.now()), c.Zone)
}

// count counts endpoints by the clusters of the members.
func (x *trial) count(endpoints []*Endpoint) (list []ClusterCount) {
	n := make(map[ClusterName]int)
	for _, e := range endpoints {
		n[e.Cluster]++
	}
	for _, m := range x.members {
		if !slices.ContainsFunc(list, func(c ClusterCount) bool { return c.Cluster == m.member.Cluster }) {
			list = append(list, ClusterCount{m.member.Cluster, n[m.member.Cluster]})
		}
	}
	return list
}

// worse reports whether less is left: everything that there was counts before a number. Between
// equals the order is any, and always the same.
func (i *Impact) worse(than *Impact) bool {
	if i.Bare() != than.Bare() {
		return i.Bare()
	}
	return cmp.Or(cmp.Compare(total(i.Then), total(than.Then)), cmp.Compare(total(than.Now), total(i.Now)),
		cmp.Compare(i.Client.Zone, than.Client.Zone), cmp.Compare(i.Client.Node, than.Client.Node)) < 0
}
