package admin

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
	"isthmus/local/exports"
	"isthmus/local/exports/plan"
)

// These constants limit the size of a response about exports.
const (
	maxExports     = 10_000
	maxFieldBytes  = 32 << 10 // of one value
	maxChangeBytes = 4 << 20  // of the values of all changes, and of all conflicts
)

// ExportsUnread is the message that is shown until all objects that affect exports have been read.
const ExportsUnread = "the Services and Namespaces of the local cluster, or the link Secrets, " +
	"have not been listed completely yet: run isthmus clusters to see why"

// ExportsSource provides the input for planning exports.
type ExportsSource interface {
	World() (plan.World, bool) // input for plans; false if it has not been read yet
	Writer() *exports.Writer   // nil if --exports is plan
	Notes() []string           // about Linkerd's service mirrors
}

// ExportsReport computes the state of all exports for /debug/exports, /debug/clusters and metrics.
type ExportsReport struct {
	source ExportsSource
	now    *shared[*exportsSnapshot]
	memory plan.Memory // of the last plan that was shown
}

// NewExportsReport returns an ExportsReport that reads from source.
func NewExportsReport(source ExportsSource) *ExportsReport {
	e := &ExportsReport{source: source}
	e.now = newShared(time.Second, listRestFor, e.look)
	return e
}

// exportsSnapshot is a snapshot of the state of all exports.
type exportsSnapshot struct {
	writer  adminapi.ExportsWriter
	world   plan.World
	plan    *plan.Plan // nil if the input has not been read; its states include those of adminapi.Export
	changes []exportChange
}

type exportChange struct {
	exports.Change
	trouble
}

// trouble is the reason why an object differs from the plan. The reason consists of a state and an
// optional explanation.
type trouble struct{ state, detail string }

// over reports whether a is more severe than b.
func (a trouble) over(b trouble) bool {
	order := []string{
		"",
		adminapi.ExportWouldBeWritten,
		adminapi.ExportBeingWritten,
		adminapi.ExportChangedBack,
		adminapi.ExportFailed,
	}
	return slices.Index(order, a.state) > slices.Index(order, b.state)
}

// look computes a plan for the current state exactly as the writer does. The method is not safe for
// concurrent use.
func (e *ExportsReport) look() *exportsSnapshot {
	v := &exportsSnapshot{writer: adminapi.ExportsWriter{Mode: "plan"}}
	why := func(*exports.Change) (state, detail string) { return adminapi.ExportWouldBeWritten, "" }
	writer := e.source.Writer()
	if writer != nil {
		v.writer = writer.Status()
		why = writer.Trouble
		if memory, leads := writer.Memory(); leads {
			e.memory = memory
		}
	}
	v.writer.Notes = e.source.Notes()

	world, ok := e.source.World()
	v.world = world
	if !ok {
		return v
	}
	if writer != nil {
		v.world.Attempt = writer.Attempt
	}
	v.plan, e.memory = plan.Make(v.world, e.memory)
	v.writer.MCS = v.world.MCSVersion
	if v.writer.MCS == "" && v.world.ServiceExports {
		v.writer.MCS = "none"
	}

	troubles := make(map[exports.Object]trouble) // the worst trouble of each changed object
	for _, c := range exports.Changes(v.world, v.plan) {
		var of trouble
		of.state, of.detail = why(&c)
		if of.state == "" {
			continue // the API server does not store the difference
		}
		v.changes = append(v.changes, exportChange{c, of})
		c.Status = false
		if of.over(troubles[c.Object]) {
			troubles[c.Object] = of
		}
	}

	for i := range v.plan.Verdicts {
		of := &v.plan.Verdicts[i]
		var worst trouble
		if of.Object != of.Export { // otherwise it is a headless ServiceImport
			worst = troubles[exports.Object{Kind: exports.Service, ID: of.Object}]
		}
		if of.Kind == plan.Import {
			for _, kind := range []string{exports.ServiceImport, exports.ServiceExport} {
				t := troubles[exports.Object{Kind: kind, ID: of.Export}]
				if t.over(worst) && (kind == exports.ServiceImport || of.Cluster == "") {
					worst = t
				}
			}
		}
		if of.State == plan.Written && worst.state != "" {
			of.State = plan.State(worst.state)
			of.Detail = cmp.Or(worst.detail, of.Detail)
		}
	}
	return v
}

func (e *ExportsReport) summary() *adminapi.ExportsSummary {
	if e == nil {
		return nil
	}
	const examples = 5
	v := e.now.get().value
	page := &adminapi.ExportsSummary{
		ExportsWriter: v.writer,
		Pending:       len(v.changes),
		Unwritten:     make(map[string][]string),
	}
	if v.plan == nil {
		page.Unread = ExportsUnread
		return page
	}
	for _, of := range v.plan.Verdicts {
		state := string(of.State)
		if slices.Contains(unwritten, of.State) && len(page.Unwritten[state]) < examples {
			text := fmt.Sprintf("%v of %s", of.Object, federation.ClusterName(of.Cluster))
			if of.Detail != "" {
				text += " (" + of.Detail + ")"
			}
			page.Unwritten[state] = append(page.Unwritten[state], printable(text))
		}
	}
	return page
}

// unwritten lists the export states that users must know about or act on.
var unwritten = []plan.State{
	plan.Taken,
	plan.Waiting,
	plan.OnHold,
	plan.Unset,
	plan.OverNumber,
	plan.NameRefused,
	plan.NoPort,
	adminapi.ExportFailed,
	adminapi.ExportChangedBack,
}

// Describe implements prometheus.Collector. Because Describe sends no descriptors, Prometheus
// checks the metrics on each scrape instead of at registration.
func (e *ExportsReport) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Collect sends metrics about exports and their states. To
// limit the number of series, all clusters that are not linked share an empty cluster label.
func (e *ExportsReport) Collect(ch chan<- prometheus.Metric) {
	v := e.now.get().value
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	unknown := gauges("isthmus_exports_plan_unknown",
		"1 if Isthmus cannot determine what to write for exports, and therefore writes nothing; 0 otherwise.")
	if v.plan == nil {
		unknown.WithLabelValues().Set(1)
		unknown.Collect(ch)
		return
	}
	unknown.WithLabelValues().Set(0)

	exports := gauges("isthmus_exports",
		"Exported Services. A Service counts once for each kind of object that Isthmus writes, or would write, for it.",
		"cluster", "kind")
	refused := gauges("isthmus_exports_refused",
		"Exports for which nothing is written, by reason. "+
			"The reason is the state of the export (see docs/exports.md), with underscores instead of spaces.",
		"cluster", "reason")
	held := gauges("isthmus_exports_held",
		"Objects that Isthmus will delete once --unlinked-after has passed, because their export no longer exists. "+
			"The cluster label is empty if the cluster is no longer linked.", "cluster")
	written := gauges("isthmus_written_services", "Services that Isthmus has written for exports.", "kind")
	conflicts := gauges("isthmus_export_conflicts", "Differences between exports with the same name.", "kind", "reason")
	pending := gauges("isthmus_exports_pending",
		"Objects that Isthmus has to write or delete for exports, or would write or delete with --exports=on.")
	pending.WithLabelValues().Set(float64(len(v.changes)))
	fullest := gauges("isthmus_exports_limit_ratio",
		"Ratio of the number of objects required for exports "+
			"to --max-exports-per-link or --max-exports-per-namespace, "+
			"for the link or the namespace with the highest ratio. "+
			"If the ratio exceeds 1, some exports are not written.",
		"per", "cluster", "namespace")

	linked := make(map[string]bool)
	for _, c := range v.world.Clusters {
		linked[c.Name] = true
	}
	held.WithLabelValues(federation.Local.String())
	for i := range v.plan.Verdicts {
		of := &v.plan.Verdicts[i]
		cluster := ""
		if linked[of.Cluster] {
			cluster = federation.ClusterName(of.Cluster).String()
		}
		exports.WithLabelValues(cluster, string(of.Kind)).Inc()
		switch of.State {
		case plan.Written, plan.Kept, adminapi.ExportBeingWritten, adminapi.ExportWouldBeWritten:
		case plan.OnHold:
			held.WithLabelValues(cluster).Inc()
		default:
			refused.WithLabelValues(cluster, strings.ReplaceAll(string(of.State), " ", "_")).Inc()
		}
	}
	for i := range v.plan.Services {
		s := &v.plan.Services[i]
		if o := v.world.Service(s.ID); o != nil && v.world.Marked(o) {
			written.WithLabelValues(string(s.Kind)).Inc()
		}
	}
	for _, f := range v.plan.Fullest {
		fullest.WithLabelValues(f.Per, federation.ClusterName(f.Cluster).String(), f.Namespace).Set(f.Ratio())
	}
	for _, c := range v.plan.Conflicts {
		conflicts.WithLabelValues(string(c.Kind), c.Reason).Inc()
	}

	all := []*prometheus.GaugeVec{unknown, exports, refused, held, written, conflicts, pending, fullest}
	for _, one := range all {
		one.Collect(ch)
	}
}

// exportsHandler serves /debug/exports. Clients may repeat the query parameter "service".
type exportsHandler struct{ *Sources }

// ServeHTTP implements http.Handler.
func (h exportsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := newExports(h.Exports.now.get().value, r.URL.Query()["service"])
	page.Replica = h.Replica()
	encode(page).serve(w)
}

// newExports returns the exports whose exported Service or written object matches one of the given
// names. Each name has the form NAME, NAMESPACE/NAME or NAMESPACE/. If names is empty, newExports
// returns all exports.
func newExports(v *exportsSnapshot, names []string) *adminapi.Exports {
	page := &adminapi.Exports{
		Writer:         v.writer,
		Exports:        []adminapi.Export{},
		Conflicts:      []adminapi.ExportConflict{},
		Changes:        []adminapi.ExportChange{},
		Written:        []string{},
		WrittenImports: []string{},
	}
	if v.plan == nil {
		page.Unread = ExportsUnread
		return page
	}
	about := func(ids ...plan.ID) bool {
		return len(names) == 0 || slices.ContainsFunc(names, func(wanted string) bool {
			return slices.ContainsFunc(ids, func(id plan.ID) bool {
				return wanted == id.Name || wanted == id.Namespace+"/" || wanted == id.String()
			})
		})
	}
	for i := range v.plan.Verdicts {
		of := &v.plan.Verdicts[i]
		switch {
		case !about(of.Export, of.Object):
		case len(page.Exports) == maxExports:
			page.MoreExports++
		default:
			page.Exports = append(page.Exports, adminapi.Export{
				Cluster: federation.ClusterName(of.Cluster).String(),
				Export:  printable(of.Export.String()),
				Kind:    string(of.Kind),
				Object:  printable(of.Object.String()),
				State:   string(of.State),
				Detail:  printable(of.Detail),
				Until:   of.Until,
			})
		}
	}

	left := maxChangeBytes
	for _, c := range v.plan.Conflicts {
		switch {
		case !about(c.Object, c.Of):
		case left <= 0:
			page.MoreConflicts++
		default:
			shown := adminapi.ExportConflict{
				Object:  c.Object.String(),
				Kind:    string(c.Kind),
				Reason:  c.Reason,
				Message: printable(c.Message),
			}
			left -= len(shown.Object) + len(shown.Message)
			page.Conflicts = append(page.Conflicts, shown)
		}
	}

	left = maxChangeBytes
	for i := range v.changes {
		c := &v.changes[i]
		switch {
		case !about(c.ID, c.Of):
		case left <= 0:
			page.MoreChanges++
		default:
			page.Changes = append(page.Changes, newExportChange(c, &left))
		}
	}

	for id, o := range v.world.Services {
		if !v.world.Marked(o) {
			continue
		}
		of, known := plan.WrittenFor(o)
		if about(id) || known && about(of) {
			page.Written = append(page.Written, id.String())
		}
	}
	for id, o := range v.world.Imports {
		if v.world.MarkedImport(o) && about(id) {
			page.WrittenImports = append(page.WrittenImports, id.String())
		}
	}
	slices.Sort(page.Written)
	slices.Sort(page.WrittenImports)
	return page
}

func newExportChange(c *exportChange, left *int) adminapi.ExportChange {
	change := adminapi.ExportChange{
		Verb:       string(c.Verb),
		ObjectKind: c.Object.Kind,
		Object:     c.ID.String(),
		Kind:       string(c.For),
		Of:         c.Of.String(),
		Fields:     []adminapi.ExportField{},
		Error:      printable(c.detail),
	}
	before := exportFields(c.Before, c.Status)
	after := exportFields(c.After, c.Status)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if before[key] == after[key] {
			continue
		}
		f := adminapi.ExportField{
			Field:  printable(key),
			Before: text.Clean(before[key], maxFieldBytes),
			After:  text.Clean(after[key], maxFieldBytes),
		}
		*left -= len(f.Field) + len(f.Before) + len(f.After)
		change.Fields = append(change.Fields, f)
	}
	return change
}

// exportFields returns the fields whose values a plan sets in an object. If the status argument is
// true, exportFields returns the status fields of a ServiceImport.
func exportFields(of any, status bool) map[string]string {
	fields := make(map[string]string)
	switch o := of.(type) {
	case *plan.Service:
		if o != nil {
			addFields(fields, o.Type, o.Labels, o.Annotations, o.Ports, o.Traffic)
		}
	case *plan.ServiceImport:
		if status {
			fields["clusters"] = strings.Join(o.Clusters, ", ")
			if o.EndpointSliceObjects != "" {
				fields["endpointSliceObjects"] = o.EndpointSliceObjects
			}
			addConditions(fields, o.Conditions)
		} else {
			addFields(fields, o.Type, o.Labels, o.Annotations, o.Ports, o.Traffic)
			fields["ips"] = strings.Join(o.IPs, ", ")
		}
	case []metav1.Condition:
		addConditions(fields, o)
	}
	return fields
}

// addFields adds the fields that Services and ServiceImports have in common.
func addFields(
	fields map[string]string,
	kind string,
	labels, annotations map[string]string,
	ports []plan.Port,
	t plan.Traffic,
) {
	fields["type"] = kind
	for key, value := range labels {
		fields["label "+key] = cmp.Or(value, `""`)
	}
	for key, value := range annotations {
		fields["annotation "+key] = cmp.Or(value, `""`)
	}
	for _, p := range ports {
		var text []string
		if p.Target != "" {
			text = append(text, "to "+p.Target)
		}
		if p.Name != "" {
			text = append(text, "name "+p.Name)
		}
		if p.AppProtocol != "" {
			text = append(text, "appProtocol "+p.AppProtocol)
		}
		fields[fmt.Sprintf("port %d/%s", p.Number, p.Protocol)] = cmp.Or(strings.Join(text, ", "), "yes")
	}
	if t.SessionAffinity != "" && t.SessionAffinity != "None" {
		fields["sessionAffinity"] = fmt.Sprintf("%s, %d s", t.SessionAffinity, t.AffinitySeconds)
	}
	fields["internalTrafficPolicy"] = t.InternalTrafficPolicy
	fields["trafficDistribution"] = t.TrafficDistribution
}

func addConditions(fields map[string]string, all []metav1.Condition) {
	for _, c := range all {
		text := fmt.Sprintf("%s %s %s", strings.ToLower(string(c.Status)), c.Reason, c.Message)
		fields["condition "+c.Type] = strings.TrimSpace(text)
	}
}
