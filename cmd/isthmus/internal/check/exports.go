package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const maxClashes = 10

// NameClashes finds pairs of links in which the longer name ends with a hyphen followed by the
// shorter name. If links a-b and b exist, some Services of link b cannot be mirrored, because their
// mirrors would have names that belong to link a-b. NameClashes describes at most maxClashes pairs.
func NameClashes(links []string) (texts []string) {
	is := make(map[string]bool)
	for _, name := range links {
		is[name] = true
	}
	for _, long := range slices.Sorted(maps.Keys(is)) {
		for i := 1; i < len(long); i++ {
			short := long[i:]
			if long[i-1] != '-' || i == 1 || !is[short] {
				continue
			}
			if len(texts) == maxClashes {
				return texts
			}
			texts = append(texts, fmt.Sprintf("links %s and %s: a Service NAME-%s of %s is not mirrored, "+
				"because the name NAME-%s belongs to %s",
				short, long, long[:i-1], short, long, long))
		}
	}
	return texts
}

func checkExports(r *report, s *Input) {
	x := s.Clusters.Exports
	if x == nil {
		return
	}
	add := r.about(SectionReplicas, Exports, "")
	switch {
	case x.Unread != "":
		add(Warning, "Isthmus cannot determine what to write for exports: "+x.Unread,
			"allow Isthmus to list and watch Services and Namespaces: kubectl apply -k manifests/install/exports")
	case x.LeaseError != "":
		add(Warning, "Isthmus cannot use the Lease that decides which replica writes Services for exports: "+
			x.LeaseError,
			"grant the permissions for leases (see manifests/install/rbac.yaml)")
	case x.Mode == "plan":
		add(OK, fmt.Sprintf("with --exports=on, %d Services would be created, updated or deleted for exports",
			x.Pending), "")
	case x.Holder != "":
		add(OK, "Services for exports are written by "+x.Holder, "")
	case x.Pending > 0:
		add(Warning,
			fmt.Sprintf("%d Services have to be written for exports, but no replica holds the Lease", x.Pending),
			"a Lease without a holder is normal for a few seconds after a replica stops; "+
				"if the warning persists, see the logs of the replicas")
	default:
		add(OK, "there are no exports to write Services for", "")
	}
	var missing []string
	for _, resource := range []string{"serviceexports", "serviceimports"} {
		right := Permission{Group: "multicluster.x-k8s.io", Resource: resource, Verbs: read}
		if s.Local.API != nil && len(right.missing(s.Local.API.Refused)) > 0 {
			missing = append(missing, right.String())
		}
	}
	switch {
	case len(missing) > 0:
		add(Warning,
			"not permitted: "+strings.Join(missing, ", ")+" (ServiceExports are not imported, "+
				"but exports by label work)",
			"kubectl apply -k manifests/install/exports; or set --export-sources=labels")
	case x.MCS == "none":
		add(OK, "ServiceExports are not imported, because the local cluster does not serve the MCS API; "+
			"exports by label work",
			"to import them, see docs/mcs.md; otherwise set --export-sources=labels")
	}
	for _, note := range x.Notes {
		add(Unchecked, note,
			"if Linkerd's multicluster extension is installed: kubectl apply -k manifests/install/exports/linkerd")
	}
	var links []string
	for _, c := range s.Clusters.Clusters {
		links = append(links, c.Cluster)
	}
	for _, text := range NameClashes(links) {
		add(Warning, text,
			"link one of the clusters under another name, or remove the label remote-discovery "+
				"from the affected Services")
	}
	for _, state := range slices.Sorted(maps.Keys(x.Unwritten)) {
		add(Warning, fmt.Sprintf("exports that are not written: %s: %s", state, strings.Join(x.Unwritten[state], "; ")),
			"run isthmus exports to list all exports; docs/exports.md explains what to do about each state")
	}
}

// checkWriter reports which replica writes EndpointSlices for ExternalWorkloads, or why no replica
// does.
func checkWriter(r *report, s *Input) {
	if s.Writer == nil {
		return
	}
	add := r.about(SectionReplicas, SliceWriter, "")
	switch w := s.Writer; {
	case w.LeaseError != "":
		add(Warning, "Isthmus cannot use the Lease that decides which replica writes EndpointSlices: "+w.LeaseError,
			"grant the permissions for leases (see manifests/install/rbac.yaml)")
	case w.Holder == "":
		add(Warning, "no replica holds the Lease for writing EndpointSlices",
			"a Lease without a holder is normal for a few seconds after a replica stops; "+
				"if the warning persists, run isthmus clusters to see why")
	case w.Error != "":
		add(Warning, "EndpointSlices for ExternalWorkloads cannot be written: "+w.Error,
			"grant the permissions for endpointslices (see manifests/install/rbac.yaml)")
	default:
		add(OK, "EndpointSlices for ExternalWorkloads are written by "+w.Holder, "")
	}
}

func checkCopies(r *report, s *Input) {
	if s.Copies == nil {
		return
	}
	const effect = "newly started replicas do not serve a linked cluster whose API is unreachable"
	grant := "grant the permissions for configmaps and leases (see manifests/install/rbac.yaml); " +
		"if Isthmus replaces Linkerd's destination controller, apply manifests/linkerd/cache"
	switch c := s.Copies; {
	case c.Off:
		r.about(SectionReplicas, Copies, "")(OK, "caches of stale clusters are not copied (--cache-max-age=0)", "")
	case c.Error != "":
		r.about(SectionReplicas, Copies, "")(Unchecked, effect+": ConfigMaps cannot be listed: "+c.Error, grant)
	case len(c.Missing) == 0:
		r.about(SectionReplicas, Copies, "")(OK, "caches of stale clusters are copied to ConfigMaps", "")
	default:
		for _, m := range c.Missing {
			text := "the cache of the stale cluster could not be copied: " + m.Reason
			if c.LeaseError != "" {
				text += ": " + c.LeaseError
			}
			r.about(SectionReplicas, Copies, m.Cluster)(Warning, text+"; "+effect,
				"do not restart replicas until the cluster is back; if a permission is missing, "+grant)
		}
	}
}
