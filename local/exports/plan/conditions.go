package plan

import (
	"fmt"
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

// reporter is the stage of Make that decides the conditions of ServiceExports. It also decides the condition Ready of
// ServiceImports.
type reporter struct{ *maker }

// conditions adds those of the own cluster's ServiceExports, but not where the ServiceImport is somebody else's: who
// writes that writes them too.
func (m reporter) conditions() {
	local := m.clusters[""]
	if local == nil || !m.ServiceExports || m.MCSVersion == "" {
		return
	}
	found := make(map[ID][]Conflict)
	for _, c := range m.out.Conflicts {
		if c.Kind == Import && c.concerns("") {
			found[c.Of] = append(found[c.Of], c)
		}
	}
	for i := range local.Exports {
		e := &local.Exports[i]
		if o := m.Imports[e.ID]; e.Exported == nil || o != nil && !m.MarkedImport(o) {
			continue
		}
		g := group{kind: Import, of: e.ID}
		verdict := m.verdicts[memberKey{g, ""}]
		want := exportConditions(verdict, e, found[e.ID])
		if verdict.State == Written && e.invalid() == "" && !m.readyExport(e, &want[1]) {
			continue
		}
		if slices.ContainsFunc(m.members[g], func(p *member) bool { return p.export == nil }) {
			keepConflict(want, e.Exported.Conditions)
		}
		for i := range want {
			want[i].ObservedGeneration = e.Exported.Generation
			want[i].Message = strings.ToValidUTF8(text.Truncate(want[i].Message, maxMessage), "")
		}
		m.out.Exports = append(m.out.Exports, ExportConditions{e.ID, e.Exported, want})
	}
	slices.SortFunc(m.out.Exports, func(a, b ExportConditions) int { return compareIDs(a.ID, b.ID) })
}

// readyExport puts the outcome of the writes for a valid ServiceExport into its condition Ready. It
// returns false if the condition is not known yet.
func (m reporter) readyExport(e *Export, ready *metav1.Condition) bool {
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
	if !failed && sameCondition(now, ready) {
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

// readyImport returns the condition Ready of a ServiceImport of type ClusterSetIP. service is nil if
// the plan does not write its Service.
func (m reporter) readyImport(one *merged, w *WantedImport, service *WantedService) metav1.Condition {
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
	case one.whyTaken != "":
		return pending(one.whyTaken)
	case derived == nil || !m.Marked(derived) || !derived.hasIP():
		ready = pending("the Service " + one.target().Name + " has no IP yet")
	case have == nil || !slices.Equal(have.IPs, w.ips):
		ready = m.withoutIPs(w, now)
	}
	if service == nil {
		return ready
	}
	if m.attempt("Service", service.ID).Problem == "" && sameCondition(now, &ready) {
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
func (m reporter) withoutIPs(w *WantedImport, now *metav1.Condition) metav1.Condition {
	a := m.attempt("ServiceImport", w.ID)
	if a.Problem != "" {
		return pending(a.Problem)
	}
	if now != nil && (!a.Made || now.Status == metav1.ConditionFalse) {
		return untimed(now)
	}
	return pending("its IPs are not written yet")
}

// familyNotSupported returns the condition Ready of a ServiceImport if all its exports have only
// IPv6, and IPv6 is not served. It returns nil otherwise. While an export is not known, such a
// condition stays unless a known export is served.
func (m reporter) familyNotSupported(one *merged) *metav1.Condition {
	unserved := one.unserved(m.IPv4Only)
	if !m.IPv4Only || len(unserved) < len(one.known) {
		return nil
	}
	if len(one.known) == len(one.members) {
		return new(condition("Ready", false, familyReason, onlyIPv6Text(unserved)))
	}
	have := m.Imports[one.of]
	if have == nil {
		return nil
	}
	now := meta.FindStatusCondition(have.Conditions, "Ready")
	if now == nil || now.Reason != familyReason {
		return nil
	}
	return now
}

// attempt returns what became of the writes of an object. kind is that of its mark.
func (m reporter) attempt(kind string, id ID) Attempt {
	if m.Attempt == nil {
		return Attempt{Made: true}
	}
	return m.Attempt(kind, id)
}

// ofService returns the attempt to write a derived Service, or a successful one if there is nothing to write.
func (m reporter) ofService(w *WantedService) Attempt {
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
func (m reporter) ofImport(w *WantedImport) Attempt {
	a := m.attempt("ServiceImport", w.ID)
	if a.Made && a.Problem == "" {
		return a
	}
	if _, differs, _ := w.Over(m.Imports[w.ID]); !differs {
		return Attempt{Made: true}
	}
	return a
}

// familyReason is the reason of Ready of a ServiceImport without exports that are served.
const familyReason = "IPFamilyNotSupported"

// ExportConditions are the conditions that a ServiceExport of the own cluster is to have.
type ExportConditions struct {
	ID
	Have *ServiceExport
	Want []metav1.Condition // of the types that are ours
}

// Content is as that of a WantedService. It differs for another ServiceExport of the same name.
func (w *ExportConditions) Content() string {
	return hash(fmt.Sprintf("%s %#v", w.Have.UID, w.Want), 20)
}

// Over returns the conditions of a ServiceExport that has these, and whether they differ. Those of other types stay.
func (w *ExportConditions) Over(have []metav1.Condition) (next []metav1.Condition, differs bool) {
	next = slices.DeleteFunc(slices.Clone(have), func(c metav1.Condition) bool {
		return c.Type == "Conflict" && len(w.Want) < 3
	})
	differs = len(next) < len(have)
	for _, c := range w.Want {
		differs = meta.SetStatusCondition(&next, c) || differs
	}
	return next, differs
}

// exportConditions follow KEP-1645.
func exportConditions(v Verdict, e *Export, found []Conflict) []metav1.Condition {
	if why := e.invalid(); why != "" { // also while its member is held
		reason := "InvalidServiceType"
		if e.serviceMissing() {
			reason = "NoService"
		}
		return []metav1.Condition{
			condition("Valid", false, reason, why),
			condition("Ready", false, "Pending", "the ServiceExport is not valid"),
		}
	}
	message := "the ServiceImport is " + string(v.State)
	if v.Detail != "" {
		message += ": " + v.Detail
	}
	all := []metav1.Condition{condition("Valid", true, "Valid", ""), condition("Ready", true, "Ready", message)}
	if len(found) == 0 {
		return append(all, condition("Conflict", false, "NoConflicts", ""))
	}
	var reasons, messages []string
	for _, c := range found {
		if !slices.Contains(reasons, c.Reason) {
			reasons = append(reasons, c.Reason)
		}
		messages = append(messages, c.Message)
	}
	return append(all, condition("Conflict", true, strings.Join(reasons, ","), strings.Join(messages, "; ")))
}

// keepConflict puts the conflict that there was in place of what is wanted: it may be with an export that is not known.
func keepConflict(want, have []metav1.Condition) {
	for _, c := range have {
		if i := slices.IndexFunc(want, func(o metav1.Condition) bool {
			return o.Type == c.Type
		}); i >= 0 && c.Type == "Conflict" && c.Status == metav1.ConditionTrue {
			want[i] = c
		}
	}
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
func sameCondition(now, next *metav1.Condition) bool {
	return now != nil && now.Status == next.Status && now.Reason == next.Reason && now.Message == next.Message
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
