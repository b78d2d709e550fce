package audit

import (
	"errors"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// result is an AuditResult while its Differences may still be healed.
type result struct {
	adminapi.AuditResult
	differences []*adminapi.AuditDifference // what Differences will be; guarded by Auditor.mu
}

const (
	maxResults = 20
	maxLate    = 20 // clusters listed as late
	maxText    = 300
)

// outcome is how the audit of a service of a cluster has ended.
type outcome string

const (
	same      outcome = "same"
	different outcome = "different" // something was counted
	failed    outcome = "failed"    // something could not be compared
	skipped   outcome = "skipped"   // the cluster was not ready
)

// result returns what is known of a resource; why: why not all was compared.
func (j *job) result(name federation.ClusterName, l cluster.Looked, why string) *result {
	return &result{AuditResult: adminapi.AuditResult{
		At: time.Now(), Service: shown(j.service.String()), Cluster: shown(name.String()),
		Resource: l.Resource, Compared: l.Compared, More: l.More, Error: shown(why),
	}}
}

// shown returns a text that is fit to be shown.
func shown(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	if text == "" {
		return ""
	}
	return kube.Printable(errors.New(strings.ToValidUTF8(text, "\uFFFD"))).Error()
}

// count counts, logs and reports differences of one resource.
func (a *Auditor) count(w *worker, j *job, resource string, list []*sight) {
	result := j.result(w.name, j.looked[resource], "")
	var found []Finding
	for _, s := range list {
		f := Finding{Cluster: result.Cluster, Service: result.Service, Resource: resource, Object: s.difference.Object, Problem: string(s.difference.Problem)}
		found = append(found, f)
		s.shown = &adminapi.AuditDifference{Object: f.Object, Problem: f.Problem}
		result.differences = append(result.differences, s.shown)
	}
	a.mu.Lock()
	a.countsOf(w.name).differences[resource] += uint64(len(list))
	a.total += uint64(len(list))
	a.add(result)
	a.mu.Unlock()
	for _, f := range found {
		a.opts.Log.Warn("audit: what is known of an object is not what the API has; its resource is listed again",
			zap.String("cluster", f.Cluster), zap.String("resource", f.Resource), zap.String("object", f.Object),
			zap.String("problem", f.Problem), zap.String("service", f.Service))
		if a.opts.Report != nil {
			a.opts.Report(f)
		}
	}
}

// markHealed notes that differences have gone.
func (a *Auditor) markHealed(list []*adminapi.AuditDifference) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range list {
		d.Healed = true
	}
}

// conclude ends the audit of a service of a cluster that was looked at.
func (a *Auditor) conclude(w *worker, j *job) {
	how := same
	var list []*result
	for _, resource := range j.order {
		l, why := j.looked[resource], j.remains(resource)
		if l.Err != nil {
			why = l.Err.Error()
		}
		if why != "" {
			how = failed
			a.opts.Log.Debug("audit: not all could be compared", zap.Stringer("cluster", w.name), zap.String("resource", resource),
				zap.String("service", shown(j.service.String())), zap.String("reason", why))
		}
		if why != "" || !j.counted[resource] {
			list = append(list, j.result(w.name, l, why))
		}
	}
	a.finish(w, j, how, list)
}

// finish ends the audit of a service of a cluster with these results. What was counted in it counts,
// however it ends.
func (a *Auditor) finish(w *worker, j *job, how outcome, list []*result) {
	if len(j.counted) > 0 {
		how = different
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range list {
		a.add(r)
	}
	a.countsOf(w.name).outcomes[how]++
	a.last = time.Now()
	a.ended(j.turns)
}

// add adds a result. If there are too many, the oldest without differences goes first. a.mu is
// held.
func (a *Auditor) add(r *result) {
	a.results = slices.Insert(a.results, 0, r)
	if len(a.results) <= maxResults {
		return
	}
	last := len(a.results) - 1
	for i, r := range slices.Backward(a.results) {
		if len(r.differences) == 0 {
			last = i
			break
		}
	}
	a.results = slices.Delete(a.results, last, last+1)
}

// Status returns what the Auditor has done and does.
func (a *Auditor) Status() adminapi.Audit {
	s := adminapi.Audit{Interval: "off", Services: len(a.opts.Services()), Late: []string{}, Results: []adminapi.AuditResult{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.opts.Interval > 0 {
		s.Interval = a.opts.Interval.String()
		s.Round = adminapi.AuditRound{Began: a.round.began, Done: a.round.done, Of: s.Services}
	}
	s.Last, s.Differences = a.last, a.total
	for _, w := range a.workers {
		s.Waiting += len(w.waiting)
		if w.late && len(s.Late) < maxLate {
			s.Late = append(s.Late, shown(w.name.String()))
		}
	}
	slices.Sort(s.Late)
	for _, r := range a.results {
		one := r.AuditResult
		one.Differences = []adminapi.AuditDifference{}
		for _, d := range r.differences {
			one.Differences = append(one.Differences, *d)
		}
		s.Results = append(s.Results, one)
	}
	return s
}
