package federation

import "slices"

// Definition lists the members that make up a service of the local cluster.
type Definition struct {
	// Members are in order of precedence: an address that several of them offer
	// belongs to the first. No member is listed twice. A service that is not
	// federated has one member: itself, or the remote Service that it mirrors.
	// None means a mirror without the name of a remote Service.
	Members []Member
	// Federated: members that are not available (not linked, no such Service,
	// ExternalName) are skipped, and the service exists without them.
	Federated bool
	// Imported: it is the Service of a ServiceImport. That is for readers.
	Imported bool
	// Strict: a member has nothing at a port that its Service does not declare. Otherwise its endpoints are used with
	// the number that a client asks for.
	Strict bool
	// Preference is nil if clients get all endpoints, whatever their cluster and zone.
	Preference *Preference
}

// MemberStatus is whether a member contributes endpoints, and if not, why.
type MemberStatus struct {
	Link    LinkState
	Service ServiceState // only meaningful while Link is Ready
	// Unreached: the Service is there, and no Linkerd gateway that leads to it can be used. Only
	// [Table.Unserved] sets it.
	Unreached bool
}

// Serving reports whether the member contributes the endpoints of its Service.
func (s MemberStatus) Serving() bool { return s.Link == Ready && s.Service == Present }

// String is why a member does not serve, in words for a log.
func (s MemberStatus) String() string {
	switch {
	case s.Link != Ready:
		return "cluster is " + s.Link.String()
	case s.Service == Missing:
		return "no such Service in the cluster"
	case s.Service == ExternalName:
		return "Service is of type ExternalName"
	case s.Unreached:
		return "no gateway of the cluster can be used"
	}
	return "serving"
}

// equal compares two definitions; nil means "not defined".
func (d *Definition) equal(o *Definition) bool {
	if d == nil || o == nil {
		return d == o
	}
	return d.Federated == o.Federated && d.Imported == o.Imported && d.Strict == o.Strict && d.Preference.equal(o.Preference) && slices.Equal(d.Members, o.Members)
}

// plain reports whether the member is an ordinary service of the local cluster.
// That one is missing is not a fault of federation, so it is never reported.
func (d *Definition) plain(m Member) bool { return !d.Federated && m.Cluster == Local }
