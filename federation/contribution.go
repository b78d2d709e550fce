package federation

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// contribution is a member's share as it was read last. It is remembered so that a
// change in one cluster reads one cluster only.
type contribution struct {
	member    Member
	src       Source // nil unless the cluster is ready
	reader    Reader
	status    MemberStatus
	nodeLocal bool
	strict    bool // as Definition.Strict

	undeclared bool // see Share

	updates   uint64       // how often it has changed, or got another source
	total     *updateCount // the same, in all services together
	changed   time.Time    // when it did last; zero: not since it is watched
	screening              // what of it is refused
}

// read reads the member's source.
func (c *contribution) read() offer {
	share := c.reader.Read()
	c.status.Service = share.State
	c.nodeLocal = share.NodeLocal
	c.undeclared = share.Undeclared
	if share.State != Present || c.strict && share.Undeclared {
		return nil
	}
	return share.Slices
}

// declares reports whether the member's Service is known to declare the port.
func (c contribution) declares() bool { return c.status.Serving() && !c.undeclared }

func (c *contribution) noteChange(now time.Time) {
	c.updates++
	c.changed = now
	c.total.n.Add(1)
}

// memberIn returns a member's contribution in the list; nil: it is not there.
func memberIn(list []contribution, m Member) *contribution {
	if i := slices.IndexFunc(list, func(c contribution) bool { return c.member == m }); i >= 0 {
		return &list[i]
	}
	return nil
}

// updateCount is how often what a member offers at a port has changed: in each watched service
// that has the member, since the first of these is watched.
type updateCount struct {
	key  updateKey // fixed
	n    atomic.Uint64
	uses int // under Table.mu: how many services' ports have it
}

// updateKey is what an updateCount counts. The undeclared ports of a member have one count, with
// port 0.
type updateKey struct {
	Member
	port uint16
}

// screening is a member's offer as its source has it, and what the bounds leave of it.
type screening struct {
	bounds  bounds
	raw     offer
	allowed offer                // what may be served of raw
	partial map[*Slice]*screened // of the slices of raw of which something is refused. It is replaced, not written
}

// replace sets the offer that its source has now, and what may be served of it.
func (s *screening) replace(raw offer) {
	before, after := sameEnds(s.raw, raw)
	s.screen(raw, func(i int, _ *Slice) bool { return i >= before && i < len(raw)-after })
}

// screen sets the offer, and what may be served of it. changed reports whether the bounds
// have to be applied anew to a slice of raw; what was left of the other slices is used again.
func (s *screening) screen(raw offer, changed func(i int, l *Slice) bool) {
	s.raw = raw
	s.allowed = raw
	if s.bounds == (bounds{}) {
		s.partial = nil
		return
	}
	var partial map[*Slice]*screened
	for i, l := range raw {
		x := s.partial[l]
		if changed(i, l) {
			x = s.bounds.screen(l)
		}
		if x == nil {
			continue
		}
		if partial == nil {
			partial = make(map[*Slice]*screened)
		}
		partial[l] = x
	}
	s.partial = partial
	if partial == nil {
		return
	}
	s.allowed = slices.Clone(raw)
	for i, l := range raw {
		if x := partial[l]; x != nil {
			s.allowed[i] = x.allowed
		}
	}
}

// refused returns what is refused of the offer.
func (s *screening) refused() (all Refused) {
	if s.partial == nil {
		return all
	}
	for _, l := range s.raw {
		if x := s.partial[l]; x != nil {
			all.add(&x.refused)
		}
	}
	return all
}

// refusesAny reports whether any endpoint of the offer is refused.
func (s *screening) refusesAny() bool {
	for _, x := range s.partial {
		if x.refused.total() > 0 {
			return true
		}
	}
	return false
}

// screened is what the bounds leave of a slice.
type screened struct {
	allowed *Slice
	refused Refused
}

// bounds are what the addresses of a linked cluster's endpoints must meet. The zero value has none.
type bounds struct {
	within *Ranges       // nil: all addresses
	owners AddressOwners // nil: the local cluster's addresses are not known
}

// refuses returns why an address is refused; not refused: it may be served.
func (b bounds) refuses(a netip.AddrPort) (why Refusal, refused bool) {
	if b.within != nil && !b.within.Contains(a.Addr()) {
		return Refusal{Addr: a}, true
	}
	if b.owners != nil {
		if name := b.owners.AddressOwner(a.Addr()); name != "" {
			return Refusal{a, name}, true
		}
	}
	return Refusal{}, false
}

// screen returns what the bounds leave of a slice; nil: everything.
func (b bounds) screen(s *Slice) *screened {
	var out *screened
	for i, e := range s.Endpoints {
		why, refused := b.refuses(e.Addr)
		switch {
		case refused && out == nil:
			out = &screened{allowed: &Slice{Name: s.Name, Endpoints: slices.Clone(s.Endpoints[:i]), Behind: s.Behind}}
			fallthrough
		case refused:
			out.refused.count(why)
		case out != nil:
			out.allowed.Endpoints = append(out.allowed.Endpoints, e)
		}
	}
	return b.screenUnready(s, out)
}

// screenUnready leaves the unready addresses out that are outside the ranges, of what is left
// of a slice. Owners are not asked: these addresses are only counted, and they are not screened
// again when an owner comes or goes.
func (b bounds) screenUnready(s *Slice, out *screened) *screened {
	unready := s.Unready
	if b.within != nil {
		unready = filter(unready, func(e *Endpoint) bool { return b.within.Contains(e.Addr.Addr()) })
	}
	if out == nil && len(unready) < len(s.Unready) {
		out = &screened{allowed: &Slice{Name: s.Name, Endpoints: s.Endpoints, Behind: s.Behind}}
	}
	if out != nil {
		out.allowed.Unready = unready
	}
	return out
}

// Refusal is an address that a linked cluster offers and that is not taken from it.
type Refusal struct {
	Addr  netip.AddrPort
	Owner string // the local cluster's object that has the address; empty: the address is outside the link's Ranges
}

// String is the address and why it is refused, in words for a log.
func (r Refusal) String() string {
	if r.Owner == "" {
		return fmt.Sprintf("%v is outside the address ranges of the link", r.Addr)
	}
	return fmt.Sprintf("%v belongs to %s of the local cluster", r.Addr, r.Owner)
}

// Refused is what is refused of an offer.
type Refused struct {
	Outside  int       // endpoints outside the link's Ranges
	Owned    int       // endpoints at addresses of the local cluster's objects
	Examples []Refusal // a few of both, if there are any
}

func (r *Refused) total() int { return r.Outside + r.Owned }

func (r *Refused) count(x Refusal) {
	if x.Owner == "" {
		r.Outside++
	} else {
		r.Owned++
	}
	if len(r.Examples) < maxExamples {
		r.Examples = append(r.Examples, x)
	}
}

// add adds what is refused of another part of the offer.
func (r *Refused) add(o *Refused) {
	r.Outside += o.Outside
	r.Owned += o.Owned
	r.Examples = append(r.Examples, o.Examples[:min(len(o.Examples), maxExamples-len(r.Examples))]...)
}

// maxExamples is how many refused or contested addresses are named of a member.
const maxExamples = 10
