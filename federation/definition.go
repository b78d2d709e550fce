package federation

import "slices"

// Definition says what a service of the local cluster is made of.
type Definition struct {
	// Members hold the endpoints, in the order that settles who wins an
	// address; no member twice. A service that is not federated has one: itself,
	// or the remote Service that it mirrors. None means a mirror that does not
	// say of which service.
	Members []Member
	// Federated: members that can't be had (not linked, no such Service,
	// ExternalName) are passed over, and the service exists without them.
	Federated bool
}

// MemberStatus says what a member is good for.
type MemberStatus struct {
	Link    LinkState
	Service ServiceState // only meaningful while Link is Ready
}

// Serving tells whether the member contributes what its Service has.
func (s MemberStatus) Serving() bool { return s.Link == Ready && s.Service == Present }

// String says why a member does not serve, in words for a log.
func (s MemberStatus) String() string {
	switch {
	case s.Link != Ready:
		return "cluster is " + s.Link.String()
	case s.Service == Missing:
		return "no such Service in the cluster"
	case s.Service == ExternalName:
		return "Service is of type ExternalName"
	}
	return "serving"
}

// equal tells whether the two say the same; nil says "gone".
func (d *Definition) equal(o *Definition) bool {
	if d == nil || o == nil {
		return d == o
	}
	return d.Federated == o.Federated && slices.Equal(d.Members, o.Members)
}

// plain tells whether the member is a service of the local cluster that stands
// for itself only: whether it is there is nobody's concern but its own.
func (d *Definition) plain(m Member) bool { return !d.Federated && m.Cluster == Local }
