package federation

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Options are a Table's. The zero value serves IPv4 only and reports nothing.
type Options struct {
	// IPv6 lets IPv6 addresses into the sets; where it is false none is.
	IPv6 bool
	// Report is told when a member of a watched service begins not to serve,
	// for another reason than before, or serves again. It must neither block
	// nor call the Table.
	Report func(ServiceID, Member, MemberStatus)
}

// Table joins definitions with clusters and publishes what clients see. All
// methods may be called at any time by any goroutine; each does its work,
// including publishing, before it returns.
type Table struct {
	opts Options // fixed

	// mu is a leaf: it is held for map access only, never while a source is
	// asked, and taken while a service's own lock is held, not the other way.
	mu          sync.Mutex
	definitions map[ServiceID]*Definition
	links       map[ClusterName]link
	watched     map[ServiceID]*service
	users       map[ClusterName]map[ServiceID][]*service // watched services by member; the lists are replaced, not written
	reported    map[fault]MemberStatus                   // members that do not serve, as last reported
}

type link struct {
	state LinkState
	src   Source
}

type fault struct {
	service ServiceID
	member  Member
}

// NewTable returns an empty table.
func NewTable(o Options) *Table {
	return &Table{
		opts:        o,
		definitions: make(map[ServiceID]*Definition),
		links:       make(map[ClusterName]link),
		watched:     make(map[ServiceID]*service),
		users:       make(map[ClusterName]map[ServiceID][]*service),
		reported:    make(map[fault]MemberStatus),
	}
}

// Define says what a service is made of; nil: the service is gone. The table
// keeps d, which must not be written any more.
func (t *Table) Define(id ServiceID, d *Definition) {
	t.mu.Lock()
	old := t.definitions[id]
	if old.equal(d) {
		t.mu.Unlock()
		return
	}
	if d == nil {
		delete(t.definitions, id)
	} else {
		t.definitions[id] = d
	}
	s := t.watched[id]
	if s != nil {
		t.unindex(s, old)
		t.index(s, d)
	}
	t.forget(id, old, d)
	t.mu.Unlock()
	if s != nil {
		s.rebuild()
	}
}

// Link says how far a linked cluster is and, with Ready, what it holds. Ready
// with another source than before replaces that one in a single step: whoever
// rotates credentials links the new source first and stops the old one after.
// Sources must be comparable (pointers).
func (t *Table) Link(c ClusterName, state LinkState, src Source) {
	t.relink(c, link{state, src})
}

// Unlink says that a cluster is not linked any more.
func (t *Table) Unlink(c ClusterName) { t.relink(c, link{}) }

func (t *Table) relink(c ClusterName, l link) {
	t.mu.Lock()
	if t.links[c] == l {
		t.mu.Unlock()
		return
	}
	if l.state == Unlinked {
		delete(t.links, c)
	} else {
		t.links[c] = l
	}
	var affected []*service
	for _, list := range t.users[c] {
		affected = append(affected, list...)
	}
	t.mu.Unlock()
	for _, s := range affected {
		s.rebuild()
	}
}

// Changed says that a service of a cluster may not be what its source said
// before. It carries no data: the source is asked again, if anybody watches. at
// is when the change happened; it is only measured, and may be zero.
func (t *Table) Changed(c ClusterName, svc ServiceID, at time.Time) {
	t.mu.Lock()
	affected := t.users[c][svc]
	t.mu.Unlock()
	for _, s := range affected {
		s.reread(Member{c, svc}, at)
	}
}

// Key returns the coarsest key that has the same answer for this client: Node
// only where a policy is Local, as far as the table knows by now (Set.ByNode
// tells more), Zone and Instance always.
func (t *Table) Key(id ServiceID, port uint16, c Client) Key {
	t.mu.Lock()
	s := t.watched[id]
	t.mu.Unlock()
	if s == nil || !s.byNode.Load() {
		c.Node = ""
	}
	return Key{Service: id, Port: port, Client: c}
}

// Watch follows what clients of that kind see. There is always a Set, for a
// service that is not defined too. Watches of equal keys share everything.
func (t *Table) Watch(k Key) *Watch[*Set] {
	t.mu.Lock()
	s := t.watched[k.Service]
	if s == nil {
		s = &service{table: t, id: k.Service, ports: make(map[uint16]*port)}
		t.watched[k.Service] = s
		t.index(s, t.definitions[k.Service])
	}
	s.refs++
	t.mu.Unlock()
	var latest *Latest[*Set]
	defer func() {
		if latest == nil { // a source has panicked
			t.unuse(s)
		}
	}()
	latest = s.open(k)
	return NewWatch(latest, func() {
		s.shut(k)
		t.unuse(s)
	})
}

// unuse ends one watch's use of a service.
func (t *Table) unuse(s *service) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.refs--; s.refs == 0 {
		delete(t.watched, s.id)
		t.unindex(s, t.definitions[s.id])
	}
}

// Linked returns the state of every linked cluster.
func (t *Table) Linked() map[ClusterName]LinkState {
	t.mu.Lock()
	defer t.mu.Unlock()
	states := make(map[ClusterName]LinkState, len(t.links))
	for c, l := range t.links {
		states[c] = l.state
	}
	return states
}

// Unserved is a member that does not serve.
type Unserved struct {
	Service ServiceID
	Member  Member
	Status  MemberStatus
}

// Unserved lists the members of federated and mirrored services that do not
// serve now, watched or not, sorted by service and then in definition order.
// It asks every source about every such member: for people and scrapes.
func (t *Table) Unserved() []Unserved {
	t.mu.Lock()
	definitions, links := maps.Clone(t.definitions), maps.Clone(t.links)
	t.mu.Unlock()
	var list []Unserved
	for id, d := range definitions {
		for _, m := range d.Members {
			if d.plain(m) {
				continue
			}
			l := links[m.Cluster]
			status := MemberStatus{Link: l.state}
			if l.state == Ready {
				status.Service = l.src.State(m.Service)
			}
			if !status.Serving() {
				list = append(list, Unserved{id, m, status})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Unserved) int { return a.Service.compare(b.Service) })
	return list
}

// inputs returns the newest definition of a service and the links of its
// members' clusters.
func (t *Table) inputs(id ServiceID) (*Definition, []link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.definitions[id]
	if d == nil {
		return nil, nil
	}
	links := make([]link, len(d.Members))
	for i, m := range d.Members {
		links[i] = t.links[m.Cluster]
	}
	return d, links
}

// index enters a watched service under its members. t.mu is held.
func (t *Table) index(s *service, d *Definition) {
	if d == nil {
		return
	}
	for _, m := range d.Members {
		services := t.users[m.Cluster]
		if services == nil {
			services = make(map[ServiceID][]*service)
			t.users[m.Cluster] = services
		}
		services[m.Service] = append(slices.Clip(services[m.Service]), s)
	}
}

// unindex takes a watched service out again. t.mu is held.
func (t *Table) unindex(s *service, d *Definition) {
	if d == nil {
		return
	}
	for _, m := range d.Members {
		services := t.users[m.Cluster]
		rest := slices.DeleteFunc(slices.Clone(services[m.Service]), func(o *service) bool { return o == s })
		if services[m.Service] = rest; len(rest) == 0 {
			delete(services, m.Service)
		}
		if len(services) == 0 {
			delete(t.users, m.Cluster)
		}
	}
}
