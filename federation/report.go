package federation

import "slices"

// report tells Options.Report about members whose status has changed. A cluster
// that is pending or unreachable is not a member's fault, and not told here.
func (t *Table) report(id ServiceID, d *Definition, members []contribution) {
	if t.opts.Report == nil || d == nil {
		return
	}
	for _, c := range members {
		if s := c.status; d.plain(c.member) || s.Link == Pending || s.Link == Unreachable {
			continue
		}
		if t.news(fault{id, c.member}, c.status) {
			t.opts.Report(id, c.member, c.status)
		}
	}
}

// news remembers a member's status and tells whether it is another than the one
// last reported. A member that nothing was ever said about counts as serving.
func (t *Table) news(f fault, s MemberStatus) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.definitions[f.service]; d == nil || !slices.Contains(d.Members, f.member) {
		return false // meanwhile no member any more
	}
	old, known := t.reported[f]
	if s.Serving() {
		delete(t.reported, f)
		return known
	}
	t.reported[f] = s
	return !known || old != s
}

// forget drops what was reported of members that are none any more. t.mu is held.
func (t *Table) forget(id ServiceID, old, now *Definition) {
	if old == nil {
		return
	}
	for _, m := range old.Members {
		if now == nil || !slices.Contains(now.Members, m) {
			delete(t.reported, fault{id, m})
		}
	}
}
