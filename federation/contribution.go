package federation

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// contribution holds the result of the last read of a member. Because contributions are cached, a
// change in one cluster only requires reading that cluster again.
type contribution struct {
	member    Member
	src       Source // nil unless the cluster is ready
	reader    Reader
	status    MemberStatus
	nodeLocal bool
	strict    bool // Definition.Strict

	undeclared bool // Share.Undeclared

	updates   uint64       // number of changes, including changes of the source
	total     *updateCount // sum of updates over all services with the member
	changed   time.Time    // time of the last change; zero if there was none while the port was watched
	screening              // the offer, and which endpoints of it are refused
}

// read reads the member from its source.
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

// declares reports whether the member's Service exists and declares the port.
func (c contribution) declares() bool { return c.status.Serving() && !c.undeclared }

func (c *contribution) noteChange(now time.Time) {
	c.updates++
	c.changed = now
	c.total.n.Add(1)
}

// memberIn returns the contribution of the given member, or nil if the list does not contain one.
func memberIn(list []contribution, m Member) *contribution {
	if i := slices.IndexFunc(list, func(c contribution) bool { return c.member == m }); i >= 0 {
		return &list[i]
	}
	return nil
}

// updateCount counts the changes to what a member offers on a port. The count covers all watched
// services that include the member. Counting starts when the first of the member's services is
// watched.
type updateCount struct {
	key  updateKey // fixed
	n    atomic.Uint64
	uses int // number of services' ports that use it; guarded by Table.mu
}

// updateKey identifies an updateCount. All undeclared ports of a member share one count, with port
// 0.
type updateKey struct {
	Member
	port uint16
}

// screening holds a member's offer and the part of the offer that the bounds allow.
type screening struct {
	bounds  bounds
	raw     offer
	allowed offer                // the part of raw that may be served
	partial map[*Slice]*screened // slices of raw with refused endpoints; replaced, never written
}

// replace stores a new offer and screens the slices that have changed.
func (s *screening) replace(raw offer) {
	before, after := sameEnds(s.raw, raw)
	s.screen(raw, func(i int, _ *Slice) bool { return i >= before && i < len(raw)-after })
}

// screen stores an offer and computes the part that may be served. The changed function reports
// whether a slice must be screened again. For slices that have not changed, screen reuses the
// previous result.
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

// refused returns the refused endpoints of the offer.
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

// refusesAny reports whether any ready endpoint of the offer is refused.
func (s *screening) refusesAny() bool {
	for _, x := range s.partial {
		if x.refused.total() > 0 {
			return true
		}
	}
	return false
}

// screened is the result of screening one slice.
type screened struct {
	allowed *Slice
	refused Refused
}

// bounds restricts the addresses that a linked cluster may offer. The zero value allows all
// addresses.
type bounds struct {
	within *Ranges       // nil allows all addresses
	owners AddressOwners // nil if the owners of the local cluster's addresses are unknown
}

// refuses reports whether an address is refused, and returns the reason.
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

// screen returns the result of screening a slice, or nil if every address is allowed.
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

// screenUnready removes unready addresses outside the allowed ranges. The out argument is the
// result of screening the ready addresses of slice s. Owners are not looked up, because unready
// addresses are only counted. When an owner changes, unready addresses are not screened again.
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

// Refusal describes an address that a linked cluster offers but the table refuses.
type Refusal struct {
	Addr  netip.AddrPort
	Owner string // the local object that has the address; empty if the address is outside the link's Ranges
}

// String returns the address and the reason for the refusal, for logs.
func (r Refusal) String() string {
	if r.Owner == "" {
		return fmt.Sprintf("%v is outside the address ranges of the link", r.Addr)
	}
	return fmt.Sprintf("%v is assigned to %s in the local cluster", r.Addr, r.Owner)
}

// Refused summarizes the refused endpoints of an offer.
type Refused struct {
	Outside  int       // number of endpoints outside the link's Ranges
	Owned    int       // number of endpoints whose address belongs to a local object
	Examples []Refusal // a few examples of both
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

// add adds the refused endpoints of another part of the offer.
func (r *Refused) add(o *Refused) {
	r.Outside += o.Outside
	r.Owned += o.Owned
	r.Examples = append(r.Examples, o.Examples[:min(len(o.Examples), maxExamples-len(r.Examples))]...)
}

// maxExamples is the maximum number of refused or contested addresses listed for each member.
const maxExamples = 10
