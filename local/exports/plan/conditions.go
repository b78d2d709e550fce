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

// Conditions describe the objects that were written, not the planned objects. If the API server
// rejects a write, the Ready condition contains the API server's message. A new leader leaves the
// Ready condition unchanged until it has attempted a write itself, because the previous leader's
// write may have failed.

// Attempt is the outcome of this replica's writes to an object since the replica became the leader.
type Attempt struct {
	Made    bool   // a write has succeeded or failed, or there was nothing to write
	Problem string // the error of the last write; empty if it succeeded
}

// reporter is the last stage of Make. The reporter computes the conditions of ServiceExports, and
// the Ready condition of ServiceImports.
type reporter struct{ *maker }

// If another controller manages the ServiceImport, the ServiceExport is skipped, because that
// controller also writes the conditions of the ServiceExport.
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

// readyExport updates the Ready condition of a valid ServiceExport with the outcome of the writes.
// If the outcome is unknown, readyExport returns false.
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
		return true // regardless of ofImport and ofService, which are slower
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

// readyImport returns the Ready condition of a ServiceImport of type ClusterSetIP. A nil service
// means that the plan does not write the derived Service.
func (m reporter) readyImport(one *merged, w *WantedImport, service *WantedService) metav1.Condition {
	derived := m.Service(one.target())
	have := m.Imports[one.of]
	var now *metav1.Condition // nil if there is none, or if it concerns another type
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
		return ready // regardless of ofService, which is slower
	}
	switch a := m.ofService(service); {
	case a.Problem != "":
		return pending(a.Problem)
	case !a.Made && now != nil:
		return untimed(now)
	}
	return ready
}

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

// If IPv6 is disabled and all exports of a ServiceImport need IPv6, familyNotSupported returns a
// Ready condition with the reason familyReason. Otherwise, familyNotSupported returns nil. While
// the exports of a member are unknown, familyNotSupported returns only an existing condition, never
// a new one.
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

func (m reporter) attempt(kind string, id ID) Attempt {
	if m.Attempt == nil {
		return Attempt{Made: true}
	}
	return m.Attempt(kind, id)
}

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

// familyReason means that IPv6 is disabled in Isthmus although all exports of a ServiceImport need
// IPv6.
const familyReason = "IPFamilyNotSupported"

// ExportConditions holds the planned conditions of a ServiceExport in the local cluster.
type ExportConditions struct {
	ID
	Have *ServiceExport
	Want []metav1.Condition // of the types that Isthmus sets
}

// Content is like [WantedService.Content], but changes if the ServiceExport is deleted and
// recreated.
func (w *ExportConditions) Content() string {
	return hash(fmt.Sprintf("%s %#v", w.Have.UID, w.Want), 20)
}

// Over returns a copy of the given conditions with the planned changes applied, and reports whether
// the copy differs. Conditions of types that Isthmus does not set stay unchanged.
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

// exportConditions returns the conditions of a ServiceExport as KEP-1645 defines them.
func exportConditions(v Verdict, e *Export, found []Conflict) []metav1.Condition {
	if why := e.invalid(); why != "" { // even while its member is on hold
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

// keepConflict preserves an existing Conflict condition with status True, because the conflict may
// involve an export that is currently unknown.
func keepConflict(want, have []metav1.Condition) {
	for _, c := range have {
		if i := slices.IndexFunc(want, func(o metav1.Condition) bool {
			return o.Type == c.Type
		}); i >= 0 && c.Type == "Conflict" && c.Status == metav1.ConditionTrue {
			want[i] = c
		}
	}
}

func pending(why string) metav1.Condition { return condition("Ready", false, "Pending", why) }

func untimed(c *metav1.Condition) metav1.Condition {
	next := *c
	next.LastTransitionTime = metav1.Time{}
	return next
}

func sameCondition(now, next *metav1.Condition) bool {
	return now != nil && now.Status == next.Status && now.Reason == next.Reason && now.Message == next.Message
}

// maxMessage is the maximum length of a condition's message in bytes. The API allows 32 KiB.
const maxMessage = 8 << 10

// condition returns a condition without a transition time. The transition time is set when a
// changed status is written.
func condition(kind string, is bool, reason, message string) metav1.Condition {
	message = strings.ToValidUTF8(text.Truncate(message, maxMessage), "")
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if is {
		c.Status = metav1.ConditionTrue
	}
	return c
}
