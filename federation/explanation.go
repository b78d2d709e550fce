package federation

import (
	"context"
	"net/netip"
)

// Question is what Table.Explain is asked about.
type Question struct {
	Key   Key
	Addr  netip.Addr // only this address, at any port; zero: all
	Limit int        // how many addresses are listed; the others are counted
}

// Explanation is what clients of a key get at a moment, and why not the rest.
type Explanation struct {
	Definition *Definition        // nil: the service is not defined
	Set        *Set               // what clients get
	Broken     bool               // an update has panicked; clients keep Set, and nothing else is explained
	Steered    *SteeredClient     // the tiers that they use; nil if they are not steered
	Members    []WatchedMember    // in definition order
	Addresses  []ExplainedAddress // by member and slice, within one slice those of the Share first; if there is no room for all, those that are not served come before all others
	Verdicts   map[Verdict]int    // how many addresses have which, listed or not
	More       int                // how many are not listed
}

// ExplainedAddress is an address of a member's slice.
type ExplainedAddress struct {
	Considered
	Member   int       // its place among the members
	Endpoint *Endpoint // what is known of it; nil: it is not in the Share
	Tier     string    // that it belongs to for these clients; empty: they are not steered, or no tier names it
}

// Explain explains what clients of a key get. The key must be watched while it is asked
// about; not ok: it is not, or ctx has ended. It copies what is there under the service's
// lock, and does all else without. Where a source says nothing of what is not in its
// Shares, that is missing.
func (t *Table) Explain(ctx context.Context, q Question) (*Explanation, bool) {
	s := t.watchedService(q.Key.Service)
	if s == nil {
		return nil, false
	}
	x, ok := s.inquire(q)
	if !ok {
		return nil, false
	}
	if x.result.Broken {
		return x.result, true
	}
	x.choose()
	for i := range x.port.members {
		x.member(ctx, i)
	}
	x.list()
	return x.result, ctx.Err() == nil
}
