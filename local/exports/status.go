package exports

import (
	"cmp"

	"isthmus/internal/adminapi"
	"isthmus/local/exports/plan"
)

// Status returns who writes.
func (w *Writer) Status() adminapi.ExportsWriter {
	seen := w.candidate.Seen()
	return adminapi.ExportsWriter{
		Mode:       "on",
		Identity:   w.Identity,
		Holder:     seen.Holder,
		Leading:    seen.Leading,
		LeaseError: seen.Problem,
	}
}

// Memory returns what the plans of the writer remember; false: this replica does not write.
func (w *Writer) Memory() (plan.Memory, bool) {
	t := w.candidate.Leadership()
	if t == nil {
		return plan.Memory{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.memory, true
}

// Attempt returns what became of the writes of an object, as far as this replica knows: only the leader writes.
func (w *Writer) Attempt(kind string, id plan.ID) plan.Attempt {
	if t := w.candidate.Leadership(); t != nil {
		return t.attempt(kind, id)
	}
	return plan.Attempt{}
}

// Trouble returns why a change has not been made, as far as this replica knows: a state, and that in words. The state
// is empty if no more is to be done: the kind that is served does not have all fields,
// or the change is left to another controller.
func (w *Writer) Trouble(c *Change) (state, detail string) {
	if t := w.candidate.Leadership(); t != nil {
		return t.trouble(c)
	}
	return adminapi.ExportBeingWritten, ""
}

func (t *leadership) trouble(c *Change) (state, detail string) {
	switch o := t.loop.History(c.Object); {
	case isLeft(&o, c), yields(&o, c):
		return "", ""
	case o.Problem != "":
		return adminapi.ExportFailed, o.Problem
	case o.ChangedBack():
		return adminapi.ExportChangedBack, "by " + cmp.Or(o.Managers, "somebody who deletes it")
	}
	return adminapi.ExportBeingWritten, ""
}
