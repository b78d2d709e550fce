package plan

import (
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/internal/text"
)

// Conditions tell what was written, not what is planned. If the API server refuses a write, the
// condition Ready has the API server's message. While a leader has not tried a write yet, Ready stays
// as it is: the leader before it may have failed.

// Attempt is what became of the writes of an object while this replica leads.
type Attempt struct {
	Made    bool   // a write has ended, well or not, or there was nothing to write
	Problem string // why the last write failed; empty if it did not
}

// attempt returns what became of the writes of an object. kind is that of its mark.
func (m *maker) attempt(kind string, id ID) Attempt {
	if m.Attempt == nil {
		return Attempt{Made: true}
	}
	return m.Attempt(kind, id)
}

// ofService returns the attempt to write a derived Service, or a successful one if there is nothing to write.
func (m *maker) ofService(w *WantedService) Attempt {
	a := m.attempt("Service", w.ID)
	if a.Made && a.Problem == "" {
		return a
	}
	if _, differs := w.Over(m.Service(w.ID)); !differs {
		return Attempt{Made: true}
	}
	return a
}

// ofImport is like ofService, for a ServiceImport without its status.
func (m *maker) ofImport(w *WantedImport) Attempt {
	a := m.attempt("ServiceImport", w.ID)
	if a.Made && a.Problem == "" {
		return a
	}
	if _, differs, _ := w.Over(m.Imports[w.ID]); !differs {
		return Attempt{Made: true}
	}
	return a
}

// readyImport returns the condition Ready of a ServiceImport of type ClusterSetIP. service is nil if
// the plan does not write its Service.
func (m *maker) readyImport(one *merged, w *WantedImport, service *WantedService) metav1.Condition {
	derived := m.Service(one.target())
	have := m.Imports[one.of]
	var now *metav1.Condition // nil if there is none, or if it is about another type
	if have != nil && have.Type == w.kind {
		now = meta.FindStatusCondition(have.Conditions, "Ready")
	}
	if unsupported := m.familyNotSupported(one); unsupported != nil {
		return *unsupported
	}
	ready := condition("Ready", true, "Ready", "")
	switch {
	case one.taken != "":
		return pending(one.taken)
	case derived == nil || !m.Marked(derived) || !derived.hasIP():
		ready = pending("the Service " + one.target().Name + " has no IP yet")
	case have == nil || !slices.Equal(have.IPs, w.ips):
		ready = m.withoutIPs(w, now)
	}
	if service == nil {
		return ready
	}
	if m.attempt("Service", service.ID).Problem == "" && same(now, &ready) {
		return ready // whatever ofService returns, which takes longer
	}
	switch a := m.ofService(service); {
	case a.Problem != "":
		return pending(a.Problem)
	case !a.Made && now != nil:
		return untimed(now)
	}
	return ready
}

// withoutIPs returns the condition Ready of a ServiceImport that does not have the IPs of its Service. now is
// the condition that the ServiceImport has, or nil.
func (m *maker) withoutIPs(w *WantedImport, now *metav1.Condition) metav1.Condition {
	a := m.attempt("ServiceImport", w.ID)
	if a.Problem != "" {
		return pending(a.Problem)
	}
	if now != nil && (!a.Made || now.Status == metav1.ConditionFalse) {
		return untimed(now)
	}
	return pending("its IPs are not written yet")
}

// pending returns the condition Ready of a ServiceImport that is not ready.
func pending(why string) metav1.Condition { return condition("Ready", false, "Pending", why) }

// untimed returns a condition without the time of its last transition.
func untimed(c *metav1.Condition) metav1.Condition {
	next := *c
	next.LastTransitionTime = metav1.Time{}
	return next
}

// same reports whether a condition says the same as another one. The first condition may be nil.
func same(now, next *metav1.Condition) bool {
	return now != nil && now.Status == next.Status && now.Reason == next.Reason && now.Message == next.Message
}

// readyExport puts the outcome of the writes for a valid ServiceExport into its condition Ready. It
// returns false if the condition is not known yet.
func (m *maker) readyExport(e *Export, ready *metav1.Condition) bool {
	imports, services := m.out.Imports, m.out.Services
	i, found := sort.Find(len(imports), func(i int) int { return compareIDs(e.ID, imports[i].ID) })
	if !found {
		return true
	}
	imported := &imports[i]
	target := group{kind: Import, of: e.ID}.target()
	var service *WantedService // nil if the ServiceImport is headless
	i, found = sort.Find(len(services), func(i int) int { return compareIDs(target, services[i].ID) })
	if found && services[i].Kind == Import {
		service = &services[i]
	}

	now := meta.FindStatusCondition(e.Exported.Conditions, "Ready")
	failed := m.attempt("ServiceImport", e.ID).Problem != "" ||
		service != nil && m.attempt("Service", target).Problem != ""
	if !failed && same(now, ready) {
		return true // whatever ofImport and ofService return, which take longer
	}

	what := "the ServiceImport"
	a := m.ofImport(imported)
	if service != nil && a.Made && a.Problem == "" {
		what = "the Service " + target.Name
		a = m.ofService(service)
	}
	switch {
	case a.Problem != "":
		ready.Message = what + " is not written: " + a.Problem
	case !a.Made:
		if now == nil || now.Status != metav1.ConditionTrue {
			return false
		}
		*ready = *now
	}
	return true
}

// maxMessage is how much of a message there is, in bytes: a condition may have 32 KiB.
const maxMessage = 8 << 10

// condition returns one that has no time yet: that is when it is written with another status than before.
func condition(kind string, is bool, reason, message string) metav1.Condition {
	message = strings.ToValidUTF8(text.Truncate(message, maxMessage), "")
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if is {
		c.Status = metav1.ConditionTrue
	}
	return c
}
