package server

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/local/exports/linkerd"
	"isthmus/local/exports/plan"
)

// Values of --exports.
const (
	exportsOff  = "off"
	exportsPlan = "plan"
	exportsOn   = "on"
)

// exportOptions are the values of the flags for exported Services.
type exportOptions struct {
	exports               string
	sources               exportSources
	clusterName           string
	exportTo              plan.Patterns
	excludeLabels         plan.KeyPatterns
	unlinkedAfter         time.Duration
	maxPerNamespace       uint32
	maxPerLink            uint32
	localExport           plan.Selectors // of the local cluster
	multiclusterNamespace string
}

// exportSources are the enabled sources of exports.
type exportSources struct{ labels, serviceExports bool }

// exportFlags defines the flags for exported Services.
func (o *exportOptions) exportFlags(s *pflag.FlagSet) {
	cli.Choice(s, &o.exports, "exports", "",
		"`MODE` in which Services are written here for those that clusters export: "+
			"NAME-CLUSTER for the label mirror.linkerd.io/exported=remote-discovery, "+
			"NAME-federated for mirror.linkerd.io/federated=member, and a ServiceImport with its Service "+
			"NAME-clusterset for ServiceExports. "+
			"off: none are. plan: isthmus exports shows what would be written; "+
			"nothing is, and no right to write is needed. on: one replica at a time writes them, "+
			"with the rights of manifests/install/exports. Other Services are never changed, "+
			"except what Linkerd's service mirror wrote, once that has stopped; docs/exports.md.",
		exportsOff, exportsPlan, exportsOn)
	parse(s, &o.sources, "export-sources", "labels,serviceexports", parseSources,
		"`SOURCES` of exports, divided by commas: labels are Linkerd's, "+
			"serviceexports are those of the MCS-API (KEP-1645; docs/mcs.md), "+
			"which have no effect where the kind is not installed. What was written for one that is left out stays as "+
			"it is.")
	parse(s, &o.clusterName, "cluster-name", "local", label,
		"`NAME` of the gateway's own cluster in the status of ServiceImports. "+
			"Give it the name by which other clusters know it. A link of that name takes no part in ServiceImports.")
	parse(s, &o.exportTo, "export-namespaces", "*,!kube-*,!linkerd*", plan.ParsePatterns,
		"`PATTERNS` of namespaces that linked clusters may export to, divided by commas: "+
			"names in which * stands for any characters. One has to match, and none that begins with !. "+
			"A link Secret's annotation isthmus.io/export-namespaces replaces them. "+
			"The namespaces of --controller-namespace and --multicluster-namespace are never exported to.")
	parse(s, &o.excludeLabels, "export-exclude-labels", "", plan.ParseKeyPatterns,
		"`PATTERNS` of keys of labels that are not copied to what is written, divided by commas: "+
			"keys in which * stands for any characters, and ! before those that are copied all the same, "+
			"such as example.com/*,tmp-*,!tmp-a. "+
			"A link Secret's annotation isthmus.io/export-exclude-labels replaces them. "+
			"Labels by which well-known software finds its own objects are never copied; docs/exports.md lists them.")
	parse(s, &o.unlinkedAfter, "unlinked-after", "10m",
		duration(10*time.Second, 168*time.Hour, "a duration from 10s to 168h, such as 10m"),
		"`DURATION`, from 10s to 168h, for which what is written for a cluster stays after its link Secret has gone, "+
			"or after more than half of its exports have gone at once.")
	parse(s, &o.maxPerNamespace, "max-exports-per-namespace", strconv.Itoa(plan.DefaultPerNamespace), exportLimit,
		"Write at most `NUMBER` objects, from 1 to 5000, in one namespace for the exports of one cluster, "+
			"linked or local. A lower number deletes nothing that is still exported. "+
			"Pods do not start in a namespace with some 2,000 Services.")
	parse(s, &o.maxPerLink, "max-exports-per-link", strconv.Itoa(plan.DefaultPerLink), exportLimit,
		"Write at most `NUMBER` objects, from 1 to 5000, for the exports of one linked cluster. "+
			"For all clusters together, at most 5000 are written.")
	parse(s, &o.localExport.Federated, "local-federated-selector", "mirror.linkerd.io/federated=member", selects,
		"`SELECTOR`, by labels, of Services of the gateway's own cluster that become members of federated Services. "+
			"An empty one selects none. As in the arguments of Linkerd's local service mirror.")
	parse(s, &o.localExport.ExcludedLabels, "local-excluded-labels", "", excludes,
		"`KEYS` of labels, divided by commas, that are not copied from Services of the own cluster; "+
			"DOMAIN/* stands for all of a domain.")
	parse(s, &o.localExport.ExcludedAnnotations, "local-excluded-annotations", "", excludes,
		"`KEYS` of annotations, likewise.")
	parse(s, &o.multiclusterNamespace, "multicluster-namespace", "linkerd-multicluster", label,
		"`NAMESPACE` of Linkerd's multicluster extension: of its Links, "+
			"and of the Leases by which its service mirrors show that they run.")
}

// exportLimit parses a limit on the number of objects that are written for exports.
func exportLimit(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 || n > plan.MaxObjects {
		return 0, fmt.Errorf("give a number from 1 to %d", plan.MaxObjects)
	}
	return uint32(n), nil
}

func parseSources(text string) (of exportSources, err error) {
	for source := range strings.SplitSeq(text, ",") {
		switch strings.TrimSpace(source) {
		case "labels":
			of.labels = true
		case "serviceexports":
			of.serviceExports = true
		default:
			return of, errors.New("give labels, serviceexports, or both, divided by a comma")
		}
	}
	return of, nil
}

// selects parses a label selector. selects returns nil if the selector is empty, because an empty
// selector selects nothing here.
func selects(selector string) (func(map[string]string) bool, error) {
	parsed, err := labels.Parse(selector)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: give a selector by labels, such as mirror.linkerd.io/federated=member", err)
	case parsed.Empty():
		return nil, nil
	}
	return func(l map[string]string) bool { return parsed.Matches(labels.Set(l)) }, nil
}

// excludes parses a list of label or annotation keys.
func excludes(list string) (func(key string) bool, error) {
	var keys []string
	for key := range strings.SplitSeq(list, ",") {
		key = strings.TrimSpace(key)
		if key == "" {
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
