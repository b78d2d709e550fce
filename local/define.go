package local

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/text"
	"isthmus/local/exports/plan"
)

const (
	localDiscovery  = "multicluster.linkerd.io/local-discovery"  // annotation
	remoteDiscovery = "multicluster.linkerd.io/remote-discovery" // annotation and label
	remoteService   = "multicluster.linkerd.io/remote-service"   // label
)

// The limits prevent one Service's annotation from slowing down other Services. The limits are far
// higher than any mesh needs.
const (
	maxMembers = 256  // members of one service
	maxItems   = 1024 // items of one annotation
)

// define returns a Service's definition, and the problems with its annotations and labels. The
// Service's annotations override the default preference.
func define(
	id federation.ServiceID, svc *cluster.Service, gateway *federation.Preference,
) (*federation.Definition, []string) {
	d, problems := defineMembers(id, svc)
	d.Strict = plan.Strict(plan.ID(id), svc.Labels, svc.Annotations)
	d.Imported = d.Strict && plan.ImportOf(plan.ID(id), svc.Labels) != ""
	p, more := preference(svc, gateway)
	d.Preference = p
	return d, append(problems, more...)
}

// defineMembers returns a definition without a preference, and the problems with annotations and
// labels.
//
// A Service with a local-discovery or remote-discovery annotation is federated, even if the
// annotation is empty. Federation annotations override the labels of a mirror. An empty annotation
// is not reported as a problem, because the service mirror leaves empty annotations behind. A
// mirror whose labels identify a cluster but not a Service has no members, so its clients are
// rejected. A Service whose remote-discovery label is empty is treated as an ordinary Service,
// because an empty label does not identify a cluster.
func defineMembers(id federation.ServiceID, svc *cluster.Service) (*federation.Definition, []string) {
	local, hasLocal := svc.Annotations[localDiscovery]
	remote, hasRemote := svc.Annotations[remoteDiscovery]
	if hasLocal || hasRemote {
		return defineFederated(id.Namespace, local, remote)
	}
	cluster, mirrors := svc.Labels[remoteDiscovery]
	switch {
	case mirrors && cluster != "":
		return defineMirror(id.Namespace, cluster, svc.Labels[remoteService])
	case mirrors:
		return definePlain(id), []string{"label " + remoteDiscovery + " is empty: set it to the name of a cluster"}
	}
	return definePlain(id), nil
}

func definePlain(id federation.ServiceID) *federation.Definition {
	return &federation.Definition{Members: []federation.Member{{Cluster: federation.Local, Service: id}}}
}

func defineMirror(namespace, cluster, service string) (*federation.Definition, []string) {
	if service == "" {
		return &federation.Definition{}, []string{
			"label " + remoteService + " is missing: set it to the name of the Service in cluster " + cluster,
		}
	}
	return &federation.Definition{Members: []federation.Member{member(namespace, service, cluster)}}, nil
}

// defineFederated parses the local and remote annotations of a federated Service. The value of the
// local annotation is a Service name. The remote annotation is a list of items of the form
// service@cluster. The local member comes first, followed by the remote members in the order of the
// annotation.
func defineFederated(namespace, local, remote string) (*federation.Definition, []string) {
	d := &federation.Definition{Federated: true}
	var problems []string
	if local = strings.TrimSpace(local); local != "" {
		if why := invalidName(local); why != "" {
			problems = append(problems, fmt.Sprintf(
				"annotation %s: %q is not a Service name: %s", localDiscovery, text.Truncate(local, text.Short), why,
			))
		} else {
			d.Members = append(d.Members, member(namespace, local, ""))
		}
	}
	if strings.TrimSpace(remote) == "" {
		return d, problems
	}
	seen := make(map[federation.Member]bool)
	for i, item := range strings.SplitN(remote, ",", maxItems+1) {
		if i == maxItems || len(d.Members) == maxMembers {
			problems = append(problems, fmt.Sprintf(
				"annotation %s: more than %d members or %d items: the rest is ignored",
				remoteDiscovery,
				maxMembers,
				maxItems,
			))
			break
		}
		m, why := parseItem(namespace, item)
		switch {
		case why != "":
			problems = append(problems, fmt.Sprintf(
				"annotation %s: item %q: %s", remoteDiscovery, text.Truncate(item, text.Short), why,
			))
		case !seen[m]:
			seen[m] = true
			d.Members = append(d.Members, m)
		}
	}
	return d, compact(problems)
}

// parseItem parses service@cluster. If an item of the remote annotation is invalid, parseItem
// returns the reason.
func parseItem(namespace, item string) (m federation.Member, why string) {
	service, cluster, ok := strings.Cut(strings.TrimSpace(item), "@")
	switch {
	case !ok:
		return m, "not of the form service@cluster"
	case strings.Contains(cluster, "@"):
		return m, "more than one @"
	case cluster == "":
		return m, "the name of the cluster is missing"
	case cluster == federation.Local.String():
		return m, "the cluster name \"local\" is reserved for the cluster that Isthmus runs in: " +
			"specify a Service of that cluster in " + localDiscovery + ", or rename the linked cluster"
	}
	if why := invalidName(service); why != "" {
		return m, "not a Service name: " + why
	}
	if errs := validation.IsValidLabelValue(cluster); len(errs) > 0 {
		return m, "not a cluster name: " + errs[0]
	}
	return member(namespace, service, cluster), ""
}

func member(namespace, service, cluster string) federation.Member {
	return federation.Member{
		Cluster: federation.ClusterName(cluster),
		Service: federation.ServiceID{Namespace: namespace, Name: service},
	}
}

func invalidName(s string) string {
	if s == "" {
		return "empty"
	}
	if errs := validation.IsDNS1123Label(s); len(errs) > 0 {
		return errs[0]
	}
	return ""
}

// compact removes duplicate problems, and replaces all but the first ten with a count.
func compact(problems []string) []string {
	const listed = 10
	slices.Sort(problems)
	return text.First(slices.Compact(problems), listed)
}
