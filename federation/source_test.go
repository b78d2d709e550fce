package federation

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// cluster is a Source whose slices a test writes. A service has the same share for every port,
// except for the port of the addresses.
type cluster struct {
	name ClusterName

	mu       sync.Mutex
	services map[ServiceID]*offered
	owned    map[netip.Addr]string // assigned addresses; used only for the local cluster
	reads    int                   // number of reads by all readers
	fuse     *fuse
}

type offered struct {
	state     ServiceState
	nodeLocal bool
	only80    bool                  // whether only port 80 is declared
	slices    map[string][]Endpoint // addresses with port 0
	unready   map[string][]Endpoint // unready addresses of the same slices
	behind    map[string]*Behind    // for slices of gateways
	left      map[string][]string   // addresses that are in no share, as ADDRESS=VERDICT
}

func newCluster(name ClusterName) *cluster {
	return &cluster{name: name, services: make(map[ServiceID]*offered), owned: make(map[netip.Addr]string)}
}

// AddressOwner implements AddressOwners.
func (c *cluster) AddressOwner(a netip.Addr) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fuse.burn()
	return c.owned[a]
}

// own sets the owner of an address like an event of the local cluster.
func (c *cluster) own(t *Table, a, name string) {
	ip := netip.MustParseAddr(a)
	c.mu.Lock()
	if c.owned[ip] = name; name == "" {
		delete(c.owned, ip)
	}
	c.mu.Unlock()
	t.AddressOwnerChanged(ip)
}

func (c *cluster) service(id ServiceID) *offered {
	if c.services[id] == nil {
		c.services[id] = newOffered()
	}
	return c.services[id]
}

func newOffered() *offered {
	return &offered{
		state:   Present,
		slices:  make(map[string][]Endpoint),
		unready: make(map[string][]Endpoint),
		left:    make(map[string][]string),
		behind:  make(map[string]*Behind),
	}
}

// setUnready sets the unready addresses of a slice.
func (c *cluster) setUnready(id ServiceID, slice string, eps ...Endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.service(id).unready[slice] = eps
}

// setBehind sets the numbers of endpoints behind the addresses of a slice.
func (c *cluster) setBehind(id ServiceID, slice string, ready, unready int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.service(id).behind[slice] = &Behind{ready, unready}
}

func (c *cluster) set(id ServiceID, slice string, eps ...Endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.service(id); len(eps) == 0 {
		delete(s.slices, slice)
	} else {
		s.slices[slice] = eps
	}
}

func (c *cluster) State(id ServiceID) ServiceState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.services[id]; s != nil {
		return s.state
	}
	return Missing
}

func (c *cluster) Declares(id ServiceID, port uint16) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fuse.burn()
	s := c.services[id]
	return s != nil && s.declares(port)
}

// declares reports whether the Service exists and declares the port.
func (o *offered) declares(port uint16) bool { return o.state == Present && (!o.only80 || port == 80) }

func (c *cluster) Reader(id ServiceID, port uint16) Reader {
	c.fuse.burn()
	return &clusterReader{c: c, id: id, port: port, last: make(map[string]*Slice)}
}

// Explain implements Explainer.
func (c *cluster) Explain(id ServiceID, port uint16) iter.Seq[Considered] {
	share := c.Reader(id, port).Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Considered
	for _, l := range share.Slices {
		for _, e := range l.Endpoints {
			list = append(list, Considered{Slice: l.Name, Addr: e.Addr, Verdict: Served})
		}
		for _, e := range l.Unready {
			list = append(list, Considered{Slice: l.Name, Addr: e.Addr, Verdict: NotReady})
		}
	}
	if s := c.services[id]; s != nil {
		for _, name := range slices.Sorted(maps.Keys(s.left)) {
			for _, text := range s.left[name] {
				addr, why, _ := strings.Cut(text, "==")
				x := Considered{Slice: name, Verdict: Verdict(slices.Index(verdictWords[:], why))}
				if ip, err := netip.ParseAddr(addr); err == nil {
					x.Addr = netip.AddrPortFrom(ip, port)
				} else {
					x.Text = addr
				}
				list = append(list, x)
			}
		}
	}
	if share.State != Present {
		for i := range list {
			list[i].Verdict = NoSuchService
		}
	}
	slices.SortStableFunc(list, func(a, b Considered) int { return cmp.Compare(a.Slice, b.Slice) })
	return slices.Values(list)
}

type clusterReader struct {
	c    *cluster
	id   ServiceID
	port uint16
	last map[string]*Slice
}

// Read returns the former pointer of every slice that has not changed.
func (r *clusterReader) Read() Share {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.reads++
	r.c.fuse.burn()
	s := r.c.services[r.id]
	if s == nil {
		return Share{}
	}
	share := Share{State: s.state, NodeLocal: s.nodeLocal, Undeclared: s.state == Present && !s.declares(r.port)}
	for _, name := range s.names() {
		now := &Slice{
			Name:      name,
			Endpoints: r.at(s.slices[name]),
			Unready:   r.at(s.unready[name]),
			Behind:    s.behind[name],
		}
		old := r.last[name]
		if old != nil && old.Behind == now.Behind &&
			equalLists(old.Endpoints, now.Endpoints) && equalLists(old.Unready, now.Unready) {
			now = old
		}
		r.last[name] = now
		share.Slices = append(share.Slices, now)
	}
	return share
}

// names returns the names of the slices that are not empty, sorted.
func (o *offered) names() []string {
	names := slices.Collect(maps.Keys(o.slices))
	for name, list := range o.unready {
		if _, ok := o.slices[name]; !ok && len(list) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// at returns the endpoints of a slice at the reader's port.
func (r *clusterReader) at(eps []Endpoint) (list []*Endpoint) {
	for _, e := range eps {
		e.Addr, e.Cluster = netip.AddrPortFrom(e.Addr.Addr(), r.port), r.c.name
		list = append(list, &e)
	}
	slices.SortFunc(list, compareAddr)
	return list
}

func equalLists(a, b []*Endpoint) bool { return slices.EqualFunc(a, b, (*Endpoint).Equal) }

// endpoint parses ADDRESS[,node=][,zone=][,host=][,hint=A+B][,nodehint=A+B][,twin=][,id=][,bare].
func endpoint(s string) (Endpoint, error) {
	words := strings.Split(s, ",")
	ip, err := netip.ParseAddr(words[0])
	if err != nil {
		return Endpoint{}, err
	}
	e := Endpoint{Addr: netip.AddrPortFrom(ip, 0), Kind: Pod}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "node":
			e.Node = v
		case "zone":
			e.Zone = v
		case "host":
			e.Hostname = v
		case "hint":
			e.Hints = cmp.Or(e.Hints, new(Hints))
			e.Hints.ForZones = strings.Split(v, "+")
		case "nodehint":
			e.Hints = cmp.Or(e.Hints, new(Hints))
			e.Hints.ForNodes = strings.Split(v, "+")
		case "twin":
			e.Twin = v
		case "id":
			e.Common = &Common{Identity: Identity{DNS: v}}
		case "bare":
			e.Kind = Address
		default:
			return Endpoint{}, fmt.Errorf("unknown word %q", w)
		}
	}
	return e, nil
}

func text(list []*Endpoint) (s []string) {
	for _, e := range list {
		s = append(s, fmt.Sprintf("%v@%v", e.Addr, e.Cluster))
	}
	return s
}
