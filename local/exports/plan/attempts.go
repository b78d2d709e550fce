package plan

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/internal/legible"
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
	if _, differs := w.Over(m.Services[w.ID]); !differs {
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
	pending := func(why string) metav1.Condition { return condition("Ready", false, "Pending", why) }
	derived, have := m.Services[one.target()], m.Imports[one.of]
	var now *metav1.Condition
	if have != nil {
		now = meta.FindStatusCondition(have.Conditions, "Ready")
	}
	ready := condition("Ready", true, "Ready", "")
	switch {
	case one.taken != "":
		return pending(one.taken)
	case derived == nil || !m.Marked(derived) || !derived.hasIP():
		ready = pending("the Service " + one.target().Name + " has no IP yet")
	case have == nil || !slices.Equal(have.IPs, w.ips):
		ready = pending(cmp.Or(m.attempt("ServiceImport", w.ID).Problem, "its IPs are not written yet"))
		if now != nil && now.Status == metav1.ConditionFalse && m.attempt("ServiceImport", w.ID).Problem == "" {
			ready = *now
		}
	}
	if service == nil {
		return ready
	}
	switch a := m.ofService(service); {
	case a.Problem != "":
		return pending(a.Problem)
	case !a.Made && now != nil:
		return *now
	}
	return ready
}

// readyExport puts the outcome of the writes for a valid ServiceExport into its condition Ready. It
// returns false if the condition is not known yet.
func (m *maker) readyExport(e *Export, ready *metav1.Condition) bool {
	i, found := slices.BinarySearchFunc(m.out.Imports, e.ID, func(w WantedImport, id ID) int { return compareIDs(w.ID, id) })
	if !found {
		return true
	}
	what, a := "the ServiceImport", m.ofImport(&m.out.Imports[i])
	target := group{kind: Import, of: e.ID}.target()
	i, found = slices.BinarySearchFunc(m.out.Services, target, func(w WantedService, id ID) int { return compareIDs(w.ID, id) })
	if found && a.Made && a.Problem == "" {
		what, a = "the Service "+target.Name, m.ofService(&m.out.Services[i])
	}
	switch {
	case a.Problem != "":
		ready.Message = what + " is not written: " + a.Problem
	case !a.Made:
		now := meta.FindStatusCondition(e.Exported.Conditions, "Ready")
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
	message = strings.ToValidUTF8(legible.Beginning(message, maxMessage), "")
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if is {
		c.Status = metav1.ConditionTrue
	}
	return c
}
