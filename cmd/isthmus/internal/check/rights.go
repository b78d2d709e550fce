package check

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"isthmus/internal/adminapi"
)

// Right is what a cluster is asked to permit, as a rule of a manifest has it.
type Permission struct {
	Group, Resource string
	Verbs           []string
	Name            string // of the only object; empty: of any
	InNamespace     bool   // in the control plane's namespace only, as a Role permits it
	Level           Level  // of a verb that is missing; Unchecked: the right is optional
	Lost            string // what does not work without it
}

var read = []string{"get", "list", "watch"}

// LocalRights are those that the gateway has in its own cluster: manifests/install/rbac.yaml.
func LocalPermissions() []Permission {
	return []Permission{
		{"", "pods", read, "", false, Failure, "the gateway does not get ready"},
		{"", "services", read, "", false, Failure, "the gateway does not get ready"},
		{"", "endpoints", read, "", false, Warning, "it can't be run with --enable-endpoint-slices=false"},
		{
			"", "nodes", read, "", false, Warning,
			"it does not know zones and the region, and may probe Nodes as gateways of linked clusters",
		},
		{"discovery.k8s.io", "endpointslices", read, "", false, Failure, "the gateway does not get ready"},
		{"discovery.k8s.io", "endpointslices", []string{"create", "update", "patch", "delete"}, "", false, Warning, "no EndpointSlices are written for ExternalWorkloads"},
		{"apps", "replicasets", read, "", false, Warning, "labels do not name Deployments"},
		{"batch", "jobs", read, "", false, Warning, "labels do not name CronJobs"},
		{"linkerd.io", "serviceprofiles", read, "", false, Warning, "ServiceProfiles have no effect"},
		{"policy.linkerd.io", "servers", read, "", false, Warning, "Servers make no port opaque"},
		{"workload.linkerd.io", "externalworkloads", read, "", false, Warning, "ExternalWorkloads are not served"},
		{"", "secrets", read, "", true, Failure, "no cluster is linked, and a gateway that starts does not get ready"},
		{"coordination.k8s.io", "leases", []string{"create", "get", "update", "patch"}, "", true, Warning, "no EndpointSlices are written for ExternalWorkloads"},
		{"", "configmaps", []string{"get"}, anchorsConfigMap, true, Unchecked, "trust anchors can't be compared"},
	}
}

// ExportRights are those that it needs besides with --exports=on: manifests/install/exports/rbac.yaml.
func ExportPermissions() []Permission {
	const mcs, unwritten = "multicluster.x-k8s.io", "no ServiceImports are written"
	write, status := []string{"create", "update", "delete"}, []string{"update"}
	return []Permission{
		{"", "services", write, "", false, Warning, "no Services are written for exports"},
		{"", "namespaces", read, "", false, Warning, "nothing is written for exports"},
		{mcs, "serviceexports", read, "", false, Warning, unwritten},
		{mcs, "serviceimports", read, "", false, Warning, unwritten},
		{mcs, "serviceimports", write, "", false, Warning, unwritten},
		{mcs, "serviceimports/status", status, "", false, Warning, "they do not name the clusters that export"},
		{mcs, "serviceexports/status", status, "", false, Warning, "they have no conditions"},
	}
}

// LinkRights are those of a link's credentials in its cluster: manifests/link/remote-access.yaml.
func LinkPermissions() []Permission {
	return []Permission{
		{"", "pods", read, "", false, Failure, "the cluster does not join"},
		{"", "services", read, "", false, Failure, "the cluster does not join"},
		{"", "endpoints", read, "", false, Warning, "a gateway with --enable-endpoint-slices=false does not get its endpoints"},
		{"discovery.k8s.io", "endpointslices", read, "", false, Failure, "the cluster does not join"},
		{"apps", "replicasets", read, "", false, Warning, "labels do not name its Deployments"},
		{"batch", "jobs", read, "", false, Warning, "labels do not name its CronJobs"},
		{"policy.linkerd.io", "servers", read, "", false, Warning, "its Servers make no port opaque"},
		{"workload.linkerd.io", "externalworkloads", read, "", false, Unchecked, "its ExternalWorkloads are not served"},
		{"multicluster.x-k8s.io", "serviceexports", read, "", false, Unchecked, "its ServiceExports are not read"},
		{"", "nodes", read, "", false, Unchecked, "its region and its Pods' networks are not known"},
		{"", "configmaps", []string{"get"}, anchorsConfigMap, false, Unchecked, "its trust anchors can't be compared"},
	}
}

// String names the right as kubectl auth can-i takes it, without the verb.
func (r Permission) String() string {
	s := r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Name != "" {
		s += "/" + r.Name
	}
	return s
}

// missing returns the verbs of a right that have been refused.
func (r Permission) missing(refused []adminapi.RefusedRequest) (verbs []string) {
	for _, verb := range r.Verbs {
		if slices.ContainsFunc(refused, func(x adminapi.RefusedRequest) bool {
			resource, _, _ := strings.Cut(x.Resource, "/")
			return x.Status == http.StatusForbidden && x.Verb == verb && (x.Resource == r.String() || r.Name == "" && resource == r.String())
		}) {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

// checkRights reports what the credentials do not permit, with the worst of it as the level. Of a gateway it is what has been
// refused: a right that is not used is not known to be missing.
func (l *clusterCheck) checkRights(noAccount, notAsked string) {
	add := l.about(sectionAPI, Rights, l.Cluster.Cluster)
	if l.local && noAccount != "" {
		add(Unchecked, "there is no ServiceAccount "+noAccount+" yet", "the installation makes it and grants what it needs; --service-account names another")
		return
	}
	rights, hint := LinkPermissions(), "in that cluster: kubectl apply -f manifests/link/remote-access.yaml"
	if l.local {
		rights, hint = LocalPermissions(), "kubectl apply -f manifests/install/rbac.yaml"
		if l.exports {
			rights, hint = append(rights, ExportPermissions()...), hint+", and for --exports=on: kubectl apply -k manifests/install/exports"
		}
	}
	if notAsked != "" {
		add(Unchecked, notAsked, hint)
		return
	}
	worst, texts := OK, map[Level][]string{}
	for _, r := range rights {
		neededForImports := l.imports && !l.local && r.String() == "serviceexports.multicluster.x-k8s.io"
		if neededForImports {
			r.Level = Warning
		}
		if verbs := r.missing(l.API.Refused); len(verbs) > 0 {
			if neededForImports {
				hint += ", or isthmus link " + l.Cluster.Cluster + " --context CONTEXT --apply" +
					"; if ServiceExports are not wanted: --export-sources=labels"
			}
			texts[r.Level] = append(texts[r.Level], fmt.Sprintf("%s %v (%s)", strings.Join(verbs, ", "), r, r.Lost))
			worst = slices.MaxFunc([]Level{worst, r.Level}, func(a, b Level) int { return Rank(a) - Rank(b) })
		}
	}
	text := strings.Join(texts[worst], "; ")
	switch worst {
	case OK:
		if l.fromHere {
			add(OK, "all rights are granted", "")
			return
		}
		add(OK, "no right that has been used is missing", "")
	case Unchecked: // what is optional is not wrong
		add(OK, "all needed rights are granted; optional and not granted: "+text, "")
	default:
		add(worst, "not permitted: "+text, hint)
	}
}

// toPermit is what to do about something that could not be read; empty: no right is missing.
func (l *clusterCheck) toPermit(why string) string {
	switch {
	case !strings.HasPrefix(why, "the credentials may not read"):
		return ""
	case l.local:
		return "to permit it: kubectl apply -f manifests/install/rbac.yaml"
	}
	return "to permit it, in that cluster: kubectl apply -f manifests/link/remote-access.yaml"
}
