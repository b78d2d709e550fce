package federation

import "slices"

// report calls Options.Report for members whose status has changed. A cluster that
// is pending or unreachable concerns all its services, so it is not reported for
// each of them.
func (t *Table) report(id ServiceID, d *Definition, members []contribution) {
	if t.opts.Report == nil || d == nil {
		return
	}
	for _, c := range members {
		if s := c.status; d.plain(c.member) || s.Link == Pending || s.Link == Unreachable {
			continue
		}
		if t.statusChanged(serviceMember{id, c.member}, c.status) {
			t.opts.Report(id, c.member, c.status)
		}
	}
}

// statusChanged remembers a member's status, and returns whether it differs from
// the one last reported. A member without a report counts as serving.
func (t *Table) statusChanged(m serviceMember, s MemberStatus) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.definitions.get(m.service); d == nil || !slices.Contains(d.Members, m.member) {
		return false // no longer a member
	}
	old, reported := t.reported[m]
	if s.Serving() {
		delete(t.reported, m)
		return reported
	}
	t.reported[m] = s
	return !reported || old != s
}

// forgetReports drops the reports of those members of old that are not in now.
// t.mu is held.
func (t *Table) forgetReports(id ServiceID, old, now *Definition) {
	if old == nil {
		return
	}
	for _, m := range old.Members {
		if now == nil || !slices.Contains(now.Members, m) {
			delete(t.reported, serviceMember{id, m})
		}
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
