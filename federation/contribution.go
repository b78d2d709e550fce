package federation

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// contribution caches the data that was most recently read from one member. After a change in one
// cluster, only that cluster has to be read again.
type contribution struct {
	member    Member
	src       Source // nil unless the cluster is ready
	reader    Reader
	status    MemberStatus
	nodeLocal bool
	strict    bool // Definition.Strict

	undeclared bool // Share.Undeclared

	updates   uint64       // number of changes, including changes of the source
	total     *updateCount // sum of updates over all services with this member
	changed   time.Time    // time of the last change; zero if there was none while the port was watched
	screening              // the offer, and its refused endpoints
}

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

func (c contribution) declares() bool { return c.status.Serving() && !c.undeclared }

func (c *contribution) noteChange(now time.Time) {
	c.updates++
	c.changed = now
	c.total.n.Add(1)
}

func memberIn(list []contribution, m Member) *contribution {
	if i := slices.IndexFunc(list, func(c contribution) bool { return c.member == m }); i >= 0 {
		return &list[i]
	}
	return nil
}

// updateCount counts changes to a member's offers for one port, across all watched services that
// include the member.
type updateCount struct {
	key  updateKey // fixed
	n    atomic.Uint64
	uses int // number of ports of watched services that use the count; guarded by Table.mu
}

// updateKey identifies an updateCount. All undeclared ports of a member share one count, whose key
// contains port 0.
type updateKey struct {
	Member
	port uint16
}

type screening struct {
	bounds  bounds
	raw     offer
	allowed offer                // the part of raw that may be served
	partial map[*Slice]*screened // slices of raw with refused endpoints; replaced, never modified
}

func (s *screening) replace(raw offer) {
	before, after := sameEnds(s.raw, raw)
	s.screen(raw, func(i int, _ *Slice) bool { return i >= before && i < len(raw)-after })
}

// The screen method stores an offer, and determines which part of the offer is allowed. If the
// given function returns true for a slice, the slice is checked again. If the function returns
// false, the slice's previous result is reused.
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

func (s *screening) refusesAny() bool {
	for _, x := range s.partial {
		if x.refused.total() > 0 {
			return true
		}
	}
	return false
}

type screened struct {
	allowed *Slice
	refused Refused
}

// bounds specifies which addresses a linked cluster may offer. The zero value allows all addresses.
type bounds struct {
	within *Ranges       // nil allows all addresses
	owners AddressOwners // nil if the owners of the local cluster's addresses are unknown
}

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

// The screen method returns the result of checking a slice, or nil if every address is allowed.
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

// screenUnready adds a slice's unready endpoints to the result of checking the slice, except
// endpoints outside the link's ranges. A nil result means that the whole slice is allowed. An
// unready endpoint is allowed even if its address is assigned to a local object, because unready
// endpoints are counted but never served.
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
	Owner string // the local object with this address; empty if the address is outside the link's Ranges
}

// String describes the refused address and the reason for the refusal.
func (r Refusal) String() string {
	if r.Owner == "" {
		return fmt.Sprintf("%v is outside the address ranges of the link", r.Addr)
	}
	return fmt.Sprintf("%v is assigned to %s in the local cluster", r.Addr, r.Owner)
}

// Refused summarizes which endpoints of an offer are refused.
type Refused struct {
	Outside  int       // number of endpoints outside the link's Ranges
	Owned    int       // number of endpoints whose address is assigned to a local object
	Examples []Refusal // a few examples of refused addresses
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

func (r *Refused) add(o *Refused) {
	r.Outside += o.Outside
	r.Owned += o.Owned
	r.Examples = append(r.Examples, o.Examples[:min(len(o.Examples), maxExamples-len(r.Examples))]...)
}

const maxExamples = 10
