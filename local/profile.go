package local

import (
	"fmt"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// profile returns the profile of a destination from the objects as they are now.
// Federated and mirrored Services have profiles like any other.
func (l *Local) profile(k federation.ProfileKey) *federation.Profile {
	if k.Addr.IsValid() {
		switch at := l.cluster.LookupAddress(k.Addr); {
		case at.Claimed != "":
			return &federation.Profile{Reason: federation.Ambiguous, Claimed: at.Claimed}
		case at.Service != nil:
			return l.portProfile(at.ID, at.Service, k.Addr.Port(), k.Namespace)
		default:
			return &federation.Profile{Endpoint: at.Endpoint}
		}
	}
	svc := l.cluster.Service(k.Service)
	switch {
	case svc == nil:
		return &federation.Profile{Reason: federation.NoService}
	case k.Instance != "":
		if e := l.cluster.Instance(k.Service, k.Instance, k.Port); e != nil {
			return &federation.Profile{Endpoint: e}
		}
		return &federation.Profile{Reason: federation.NoInstance}
	}
	return l.portProfile(k.Service, svc, k.Port, k.Namespace)
}

// portProfile returns the profile of a service port for clients of a namespace.
//
// The ServiceProfile of the client's namespace overrides that of the Service's, even
// if it can't be used: that it exists means that the other one is not wanted. Opaque
// ports come from the Service's annotation or the default; those of a ServiceProfile
// are ignored.
func (l *Local) portProfile(id federation.ServiceID, svc *cluster.Service, port uint16, client string) *federation.Profile {
	switch {
	case !svc.HasPort(port):
		return &federation.Profile{Reason: federation.NoPort}
	case svc.ExternalName:
		return &federation.Profile{Reason: federation.NoAddress}
	}
	p := &federation.Profile{
		Service: id,
		Port:    port,
		Name:    l.profileName(id),
		Opaque:  svc.OpaquePorts.Contains(port),
	}
	var exists bool
	if client != "" {
		p.Routes, exists = l.cluster.ServiceProfile(client, p.Name)
	}
	if !exists {
		p.Routes, exists = l.cluster.ServiceProfile(id.Namespace, p.Name)
	}
	p.Rejected = exists && p.Routes == nil
	return p
}

// profileName is the fully qualified name of a Service, which is the name of its ServiceProfiles.
func (l *Local) profileName(id federation.ServiceID) string {
	return fmt.Sprintf("%s.%s.svc.%s", id.Name, id.Namespace, l.domain)
}

// ProfileProblem describes what can't be used of the ServiceProfile that a Service has for clients
// of a namespace. Empty means that all of the ServiceProfile can be used, or that there is none.
func (l *Local) ProfileProblem(id federation.ServiceID, client string) string {
	name := l.profileName(id)
	for _, namespace := range []string{client, id.Namespace} {
		if namespace == "" {
			continue
		}
		problem, exists := l.cluster.ServiceProfileProblem(namespace, name)
		switch {
		case exists && problem == "":
			return ""
		case exists:
			return fmt.Sprintf("ServiceProfile %s/%s: %s", namespace, name, problem)
		}
	}
	return ""
}
