package local

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

const (
	localDiscovery  = "multicluster.linkerd.io/local-discovery"  // annotation
	remoteDiscovery = "multicluster.linkerd.io/remote-discovery" // annotation, and label
	remoteService   = "multicluster.linkerd.io/remote-service"   // label
)

// What a Service may be made of: far more than there are clusters in a mesh, and
// few enough that who may annotate one Service can't hold up all others.
const (
	maxMembers = 256
	maxItems   = 1024
)

// define says what a Service is made of, and what of that can't be used.
func define(id federation.ServiceID, svc *cluster.Service) (*federation.Definition, []string) {
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
		return definePlain(id), []string{"label " + remoteDiscovery + " is empty: it names no cluster"}
	}
	return definePlain(id), nil
}

func definePlain(id federation.ServiceID) *federation.Definition {
	return &federation.Definition{Members: []federation.Member{{Cluster: federation.Local, Service: id}}}
}

func defineMirror(namespace, cluster, service string) (*federation.Definition, []string) {
	if service == "" {
		return &federation.Definition{}, []string{"label " + remoteService + " is missing: it is to name the Service in cluster " + cluster}
	}
	return &federation.Definition{Members: []federation.Member{member(namespace, service, cluster)}}, nil
}

// defineFederated reads the annotations: a Service name, and a list of
// service@cluster. The local member comes first, the others in their order.
func defineFederated(namespace, local, remote string) (*federation.Definition, []string) {
	d := &federation.Definition{Federated: true}
	var problems []string
	if local = strings.TrimSpace(local); local != "" {
		if why := invalidName(local); why != "" {
			problems = append(problems, fmt.Sprintf("annotation %s: %q is no Service name: %s", localDiscovery, clip(local), why))
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
			problems = append(problems, fmt.Sprintf("annotation %s: more than %d members in %d items: the rest is passed over", remoteDiscovery, maxMembers, maxItems))
			break
		}
		m, why := parseItem(namespace, item)
		switch {
		case why != "":
			problems = append(problems, fmt.Sprintf("annotation %s: item %q: %s", remoteDiscovery, clip(item), why))
		case !seen[m]:
			seen[m] = true
			d.Members = append(d.Members, m)
		}
	}
	return d, compact(problems)
}

// parseItem reads service@cluster, or says why it can't.
func parseItem(namespace, item string) (m federation.Member, why string) {
	service, cluster, ok := strings.Cut(strings.TrimSpace(item), "@")
	switch {
	case !ok:
		return m, "not of the form service@cluster"
	case strings.Contains(cluster, "@"):
		return m, "more than one @"
	case cluster == "":
		return m, "no cluster"
	case cluster == federation.Local.String():
		return m, "local is the cluster that the gateway runs in: name its Service in " + localDiscovery + ", or give the linked cluster another name"
	}
	if why := invalidName(service); why != "" {
		return m, "no Service name: " + why
	}
	if errs := validation.IsValidLabelValue(cluster); len(errs) > 0 {
		return m, "no cluster name: " + errs[0]
	}
	return member(namespace, service, cluster), ""
}

func member(namespace, service, cluster string) federation.Member {
	return federation.Member{
		Cluster: federation.ClusterName(cluster),
		Service: federation.ServiceID{Namespace: namespace, Name: service},
	}
}

// invalidName says why something can't be a Service's name; empty: it can.
func invalidName(s string) string {
	if s == "" {
		return "empty"
	}
	if errs := validation.IsDNS1123Label(s); len(errs) > 0 {
		return errs[0]
	}
	return ""
}

// clip keeps what is quoted in a message short.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// compact reports the same once, and of very many the first ones.
func compact(problems []string) []string {
	const most = 10
	slices.Sort(problems)
	problems = slices.Compact(problems)
	if more := len(problems) - most; more > 0 {
		problems = append(problems[:most:most], fmt.Sprintf("and %d more", more))
	}
	return problems
}
