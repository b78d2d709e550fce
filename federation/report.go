package federation

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
