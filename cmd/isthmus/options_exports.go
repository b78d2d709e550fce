package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/local/exports/linkerd"
	"isthmus/local/exports/plan"
)

// The values of --exports.
const (
	exportsOff  = "off"
	exportsPlan = "plan"
	exportsOn   = "on"
)

// exportOptions are the values of the flags for Services that are written for exports.
type exportOptions struct {
	exports, exportSources              string
	clusterName, exportNamespaces       string
	unlinkedAfter                       time.Duration
	localFederated                      string
	excludedLabels, excludedAnnotations string
	multiclusterNamespace               string

	// derived from the flags by check
	labels, serviceExports bool // --export-sources has them
	exportTo               plan.Patterns
	ownExport              plan.Selectors // of the own cluster
}

func (o *exportOptions) exportFlags(s *pflag.FlagSet) {
	cli.Choice(s, &o.exports, "exports", "", "`MODE` in which Services are written here for those that clusters export: NAME-CLUSTER for the label mirror.linkerd.io/exported=remote-discovery, NAME-federated for mirror.linkerd.io/federated=member, and a ServiceImport with its Service NAME-clusterset for ServiceExports. "+
		"off: none are. plan: isthmus exports shows what would be written; nothing is, and no right to write is needed. on: one replica at a time writes them, with the rights of manifests/install/exports. Other Services are never changed, except what Linkerd's service mirror wrote, once that has stopped; docs/exports.md.",
		exportsOff, exportsPlan, exportsOn)
	s.StringVar(&o.exportSources, "export-sources", "labels,serviceexports", "`SOURCES` of exports, divided by commas: labels are Linkerd's, serviceexports are those of the MCS-API (KEP-1645; docs/mcs.md), which have no effect where the kind is not installed. What was written for one that is left out stays as it is.")
	s.StringVar(&o.clusterName, "cluster-name", "local", "`NAME` of the gateway's own cluster in the status of ServiceImports. Give it the name by which other clusters know it. A link of that name takes no part in ServiceImports.")
	s.StringVar(&o.exportNamespaces, "export-namespaces", "*,!kube-*,!linkerd*", "`PATTERNS` of namespaces that linked clusters may export to, divided by commas: names in which * stands for any characters. One has to match, and none that begins with !. "+
		"A link Secret's annotation isthmus.io/export-namespaces replaces them. The namespaces of --controller-namespace and --multicluster-namespace are never exported to.")
	s.DurationVar(&o.unlinkedAfter, "unlinked-after", 10*time.Minute, "`DURATION`, from 10s to 168h, for which what is written for a cluster stays after its link Secret has gone, or after more than half of its exports have gone at once.")
	s.StringVar(&o.localFederated, "local-federated-selector", "mirror.linkerd.io/federated=member", "`SELECTOR`, by labels, of Services of the gateway's own cluster that become members of federated Services. An empty one selects none. As in the arguments of Linkerd's local service mirror.")
	s.StringVar(&o.excludedLabels, "local-excluded-labels", "", "`KEYS` of labels, divided by commas, that are not copied from Services of the own cluster; DOMAIN/* stands for all of a domain.")
	s.StringVar(&o.excludedAnnotations, "local-excluded-annotations", "", "`KEYS` of annotations, likewise.")
	s.StringVar(&o.multiclusterNamespace, "multicluster-namespace", "linkerd-multicluster", "`NAMESPACE` of Linkerd's multicluster extension: of its Links, and of the Leases by which its service mirrors show that they run.")
}

// check returns what is wrong with the flags' values, and sets the fields that are derived from them.
func (o *exportOptions) check() (err error) {
	if o.unlinkedAfter < 10*time.Second || o.unlinkedAfter > 168*time.Hour {
		return cli.Usagef("--unlinked-after is %v: give a duration from 10s to 168h, such as 10m", o.unlinkedAfter)
	}
	if problems := validation.IsDNS1123Label(o.multiclusterNamespace); len(problems) > 0 {
		return cli.Usagef("--multicluster-namespace=%q is no namespace's name: %s", o.multiclusterNamespace, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1123Label(o.clusterName); len(problems) > 0 {
		return cli.Usagef("--cluster-name=%q can't be the name of a cluster: %s", o.clusterName, strings.Join(problems, "; "))
	}
	for source := range strings.SplitSeq(o.exportSources, ",") {
		switch strings.TrimSpace(source) {
		case "labels":
			o.labels = true
		case "serviceexports":
			o.serviceExports = true
		default:
			return cli.Usagef("--export-sources has %q: give labels, serviceexports, or both, divided by a comma", source)
		}
	}
	if o.exportTo, err = plan.ParsePatterns(o.exportNamespaces); err != nil {
		return cli.Usagef("--export-namespaces: %w", err)
	}
	o.ownExport.Federated, err = selects(o.localFederated)
	if err != nil {
		return cli.Usagef("--local-federated-selector: %w: give a selector by labels, such as mirror.linkerd.io/federated=member", err)
	}
	for _, x := range []struct {
		name, list string
		to         *func(string) bool
	}{{"labels", o.excludedLabels, &o.ownExport.ExcludedLabels}, {"annotations", o.excludedAnnotations, &o.ownExport.ExcludedAnnotations}} {
		if *x.to, err = excludes(x.list); err != nil {
			return cli.Usagef("--local-excluded-%s: %w", x.name, err)
		}
	}
	return nil
}

// kept is what is kept of clusters for exports; nil: nothing. m is nil if --exports is off.
func (o *exportOptions) kept(m *mirrors) *clusterstore.ExportOptions {
	if m == nil {
		return nil
	}
	return &clusterstore.ExportOptions{Namespaces: o.exportTo, ServiceExports: o.serviceExports, Selectors: func(cluster string) plan.Selectors {
		if cluster == "" {
			return o.ownExport
		}
		return m.Selectors(cluster)
	}}
}

// selects parses a selector by labels. An empty one selects nothing.
func selects(selector string) (func(map[string]string) bool, error) {
	parsed, err := labels.Parse(selector)
	if err != nil || parsed.Empty() {
		return nil, err
	}
	return func(l map[string]string) bool { return parsed.Matches(labels.Set(l)) }, nil
}

// excludes parses a list of keys of labels or annotations.
func excludes(list string) (func(key string) bool, error) {
	var keys []string
	for key := range strings.SplitSeq(list, ",") {
		if key = strings.TrimSpace(key); key == "" {
			continue
		}
		problems := validation.IsQualifiedName(key)
		if domain, all := strings.CutSuffix(key, "/*"); all {
			problems = validation.IsDNS1123Subdomain(domain)
		}
		if len(problems) > 0 {
			return nil, fmt.Errorf("%q is no key: %s", key, strings.Join(problems, "; "))
		}
		keys = append(keys, key)
	}
	return linkerd.Excluded(keys), nil
}
