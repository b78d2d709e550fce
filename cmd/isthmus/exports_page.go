package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
	"isthmus/local/exports/plan"
)

// How much of exports a page has.
const (
	maxExports     = 10_000
	maxFieldBytes  = 32 << 10 // of a value
	maxChangeBytes = 4 << 20  // of the values of all changes, and of all conflicts
)

const unreadExports = "the Services and Namespaces of the gateway's cluster, or the link Secrets, have not been read as a whole yet: isthmus clusters shows why"

// serveExports answers /debug/exports.
func (p *pages) serveExports(w http.ResponseWriter, r *http.Request) {
	page := newExportsPage(p.exporter.now.get().value, r.URL.Query()["service"])
	page.Replica = p.self()
	encodePage(page).serve(w)
}

// newExportsPage returns what there is about exports, or what they are written as, with one of these names, each of them NAME,
// NAMESPACE/NAME or NAMESPACE/; none: about all.
func newExportsPage(v *exportsView, names []string) *adminapi.Exports {
	page := &adminapi.Exports{Writer: v.writer, Exports: []adminapi.Export{}, Conflicts: []adminapi.ExportConflict{}, Changes: []adminapi.ExportChange{}, Written: []string{}, WrittenImports: []string{}}
	if v.plan == nil {
		page.Unread = unreadExports
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
				Cluster: federation.ClusterName(of.Cluster).String(), Export: printable(of.Export.String()), Kind: string(of.Kind), Object: printable(of.Object.String()),
				State: string(of.State), Detail: printable(of.Detail), Until: of.Until,
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
			shown := adminapi.ExportConflict{Object: c.Object.String(), Kind: string(c.Kind), Reason: c.Reason, Message: printable(c.Message)}
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

// newExportChange returns a change with the fields that differ. Their bytes are taken from left.
func newExportChange(c *exportChange, left *int) adminapi.ExportChange {
	change := adminapi.ExportChange{
		Verb: string(c.Verb), ObjectKind: c.Object.Kind, Object: c.ID.String(), Kind: string(c.For), Of: c.Of.String(), Fields: []adminapi.ExportField{}, Error: printable(c.detail),
	}
	before, after := exportFields(c.Before, c.Status), exportFields(c.After, c.Status)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if before[key] != after[key] {
			f := adminapi.ExportField{Field: printable(key), Before: text.Clean(before[key], maxFieldBytes), After: text.Clean(after[key], maxFieldBytes)}
			*left -= len(f.Field) + len(f.Before) + len(f.After)
			change.Fields = append(change.Fields, f)
		}
	}
	return change
}

// exportFields returns the fields of an object that plans know of, or of its status; nil: it has none.
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

func addFields(fields map[string]string, kind string, labels, annotations map[string]string, ports []plan.Port, t plan.Traffic) {
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
	fields["internalTrafficPolicy"], fields["trafficDistribution"] = t.InternalTrafficPolicy, t.TrafficDistribution
}

func addConditions(fields map[string]string, all []metav1.Condition) {
	for _, c := range all {
		fields["condition "+c.Type] = strings.TrimSpace(fmt.Sprintf("%s %s %s", strings.ToLower(string(c.Status)), c.Reason, c.Message))
	}
}
