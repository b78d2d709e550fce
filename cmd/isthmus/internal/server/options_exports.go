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
	"isthmus/local/exports"
	"isthmus/local/exports/plan"
)

// Values of --exports.
const (
	exportsOff  = "off"
	exportsPlan = "plan"
	exportsOn   = "on"
)

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

type exportSources struct{ labels, serviceExports bool }

func (o *exportOptions) exportFlags(s *pflag.FlagSet) {
	cli.Choice(s, &o.exports, "exports", "",
		"Choose the `MODE` in which Isthmus writes local Services for exported Services. "+
			"With --exports=off, Isthmus writes nothing. "+
			"With --exports=plan, the command \"isthmus exports\" shows which objects Isthmus would write, "+
			"and Isthmus needs no permission to write them. "+
			"With --exports=on, one replica at a time writes the objects. "+
			"To write the objects, Isthmus needs the permissions in manifests/install/exports. "+
			"A Service named NAME with the label mirror.linkerd.io/exported=remote-discovery "+
			"is mirrored as NAME-CLUSTER. "+
			"A Service named NAME with the label mirror.linkerd.io/federated=member "+
			"becomes a member of NAME-federated. "+
			"For a ServiceExport named NAME, "+
			"Isthmus writes a ServiceImport named NAME and a Service named NAME-clusterset. "+
			"Isthmus never changes other Services, "+
			"except those that a stopped service mirror of Linkerd has left behind; see docs/exports.md.",
		exportsOff, exportsPlan, exportsOn)
	parse(s, &o.sources, "export-sources", "labels,serviceexports", parseSources,
		"Use these comma-separated `SOURCES` of exports: "+
			"labels (Linkerd's labels) and serviceexports (of the MCS API, KEP-1645; see docs/mcs.md). "+
			"The source serviceexports has no effect if the ServiceExport CRD is not installed. "+
			"If you remove a source, the objects that were written for it stay unchanged.")
	parse(s, &o.clusterName, "cluster-name", "local", label,
		"Use this `NAME` for the local cluster in the status of ServiceImports. "+
			"Choose the name that other clusters use for this cluster. "+
			"ServiceImports never include the exports of a linked cluster that has the local cluster's name.")
	parse(s, &o.exportTo, "export-namespaces", "*,!kube-*,!linkerd*", plan.ParsePatterns,
		"Let linked clusters export to the namespaces that match these comma-separated `PATTERNS`, "+
			"in which * matches any sequence of characters. "+
			"A leading ! excludes the namespaces that match the rest of the pattern. "+
			"All other namespaces must match at least one pattern. "+
			"The annotation isthmus.io/export-namespaces on a link Secret overrides the patterns. "+
			"The namespaces set by --controller-namespace and --multicluster-namespace are always excluded.")
	parse(s, &o.excludeLabels, "export-exclude-labels", "", plan.ParseKeyPatterns,
		"Do not copy labels whose keys match these comma-separated `PATTERNS` to the objects that Isthmus writes. "+
			"In a pattern, * matches any sequence of characters. "+
			"A pattern that starts with ! selects keys that are copied anyway, as in example.com/*,tmp-*,!tmp-a. "+
			"The annotation isthmus.io/export-exclude-labels on a link Secret overrides the patterns. "+
			"Isthmus never copies the labels that well-known software uses to find its own objects. "+
			"See docs/exports.md for the labels that are never copied.")
	parse(s, &o.unlinkedAfter, "unlinked-after", "10m",
		duration(10*time.Second, 168*time.Hour, "a duration from 10s to 168h, such as 10m"),
		"After a link Secret is deleted, wait for `DURATION` (10s to 168h) before deleting the objects "+
			"that were written for the cluster. "+
			"If a cluster loses more than half of its exports, and at least ten, within a minute, "+
			"Isthmus also delays the deletion of the objects that were written for them.")
	parse(s, &o.maxPerNamespace, "max-exports-per-namespace", strconv.Itoa(plan.DefaultPerNamespace), exportLimit,
		"Write at most `NUMBER` objects (1 to 5000) per namespace for the exports of each cluster, linked or local. "+
			"Lowering the limit does not delete the objects of existing exports. "+
			"In a namespace with more than about 2,000 Services, Pods cannot start.")
	parse(s, &o.maxPerLink, "max-exports-per-link", strconv.Itoa(plan.DefaultPerLink), exportLimit,
		"Write at most `NUMBER` objects (1 to 5000) for the exports of each linked cluster. "+
			"Across all clusters, Isthmus writes at most 5000 objects.")
	parse(s, &o.localExport.Federated, "local-federated-selector", "mirror.linkerd.io/federated=member", selects,
		"Add the local Services that match this label `SELECTOR` to federated Services. "+
			"An empty selector matches nothing. "+
			"Linkerd's local service mirror has a setting for the same purpose.")
	parse(s, &o.localExport.ExcludedLabels, "local-excluded-labels", "", excludes,
		"Do not copy labels with these comma-separated `KEYS` from local Services. "+
			"DOMAIN/* matches all keys of a domain.")
	parse(s, &o.localExport.ExcludedAnnotations, "local-excluded-annotations", "", excludes,
		"Do not copy annotations with these comma-separated `KEYS` from local Services. "+
			"DOMAIN/* matches all keys of a domain.")
	parse(s, &o.multiclusterNamespace, "multicluster-namespace", "linkerd-multicluster", label,
		"Set the `NAMESPACE` of Linkerd's multicluster extension. "+
			"This namespace contains Linkerd's Links, and the Leases of Linkerd's service mirrors.")
}

func exportLimit(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 || n > plan.MaxObjects {
		return 0, fmt.Errorf("use a number from 1 to %d", plan.MaxObjects)
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
			return of, errors.New("use labels, serviceexports, or both, separated by a comma")
		}
	}
	return of, nil
}

// selects parses a label selector and returns a function that matches labels. If the selector is
// empty, the result is nil, because an empty value of the flag matches nothing.
func selects(selector string) (func(map[string]string) bool, error) {
	parsed, err := labels.Parse(selector)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: use a label selector, such as mirror.linkerd.io/federated=member", err)
	case parsed.Empty():
		return nil, nil
	}
	return func(l map[string]string) bool { return parsed.Matches(labels.Set(l)) }, nil
}

// excludes parses a comma-separated list of label or annotation keys and returns a function that
// reports whether a key matches the list.
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
			return nil, fmt.Errorf("%q is not a valid key: %s", key, strings.Join(problems, "; "))
		}
		keys = append(keys, key)
	}
	return exports.Excluded(keys), nil
}
