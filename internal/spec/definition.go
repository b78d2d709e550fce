package spec

import (
	"slices"
	"strings"
)

// Definition lists the Services from which a Service of the local cluster gets its endpoints.
type Definition struct {
	Federated bool
	Members   []MemberName // in order of precedence
}

// MemberName identifies a Service in the namespace of the definition.
type MemberName struct {
	Cluster string // empty for the local cluster
	Service string
}

const (
	LocalDiscoveryKey  = "multicluster.linkerd.io/local-discovery"  // annotation
	RemoteDiscoveryKey = "multicluster.linkerd.io/remote-discovery" // annotation and label
	RemoteServiceKey   = "multicluster.linkerd.io/remote-service"   // label
)

const (
	maxItems   = 1024
	maxMembers = 256 // of the Service, including the local member
)

// Define parses the annotations and labels of a Service. Annotations take precedence over labels.
// If a Service has neither a relevant annotation nor a relevant label, its only member is the
// Service itself.
func Define(name string, labels, annotations map[string]string) Definition {
	local, hasLocal := annotations[LocalDiscoveryKey]
	remote, hasRemote := annotations[RemoteDiscoveryKey]
	if hasLocal || hasRemote {
		return Definition{Federated: true, Members: federatedMembers(strings.TrimSpace(local), remote)}
	}
	cluster := labels[RemoteDiscoveryKey]
	service := labels[RemoteServiceKey]
	switch {
	case cluster == "":
		return Definition{Members: []MemberName{{Service: name}}}
	case service == "":
		return Definition{}
	}
	return Definition{Members: []MemberName{{Cluster: cluster, Service: service}}}
}

func federatedMembers(local, remote string) (list []MemberName) {
	if serviceName.MatchString(local) {
		list = append(list, MemberName{Service: local})
	}
	for i, item := range strings.Split(remote, ",") {
		service, cluster, _ := strings.Cut(strings.TrimSpace(item), "@")
		m := MemberName{Cluster: cluster, Service: service}
		valid := serviceName.MatchString(service) && labelValue.MatchString(cluster) && cluster != "local"
		if i < maxItems && len(list) < maxMembers && valid && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}
