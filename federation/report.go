package federation

import "net/netip"

// serving is the status of a member of which nothing has been reported.
var serving = MemberStatus{Link: Ready, Service: Present}

// report calls Options.Report for members whose status is another than was reported last. A cluster that
// is pending or unreachable concerns all its services, so it is not reported for each of them. s.mu is held.
func (s *watchedService) report(d *Definition, members []contribution) {
	if s.table.opts.Report == nil || d == nil {
		return
	}
	for _, c := range members {
		if d.plain(c.member) || c.status.Link == Pending || c.status.Link == Unreachable {
			continue
		}
		last, known := s.reported[c.member]
		if !known {
			last = serving
		}
		if c.status == last {
			continue
		}
		if s.reported[c.member] = c.status; c.status == serving {
			delete(s.reported, c.member)
		}
		s.table.opts.Report(s.id, c.member, c.status)
	}
}

// reportRefused calls Options.ReportRefused if something is refused of a member and,
// before, nothing was.
func (s *watchedService) reportRefused(p *port, now, before *contribution) {
	if s.table.opts.ReportRefused == nil || now.partial == nil || before != nil && before.refusesAny() {
		return
	}
	all := now.refused()
	if all.total() == 0 {
		return // only of addresses that are not ready
	}
	s.table.opts.ReportRefused(s.id, p.number, now.member, all.Examples[0], all.total())
}

// reportConflict calls Options.ReportConflict when two members offer the same address
// and no two did before.
func (s *watchedService) reportConflict(p *port) {
	if s.table.opts.ReportConflict == nil || len(p.contested) == 0 {
		p.conflict = false
		return
	}
	if p.conflict {
		return
	}
	left := maxExamples // of the addresses in several slices, nearly all are in several members'
	for addr := range p.contested {
		if m, c, ok := p.conflictAt(addr); ok {
			p.conflict = true
			s.table.opts.ReportConflict(s.id, p.number, m, c)
			return
		}
		if left--; left == 0 {
			return
		}
	}
}

// conflictAt returns the first two members that offer the address, if two do.
func (p *port) conflictAt(addr netip.AddrPort) (loser Member, c Conflict, ok bool) {
	winner := -1
	for i := range p.offers.at(addr) {
		switch {
		case winner < 0:
			winner = i
		case i != winner:
			return p.members[i].member, Conflict{addr, p.members[winner].member}, true
		}
	}
	return loser, c, false
}
