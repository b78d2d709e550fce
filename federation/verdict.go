package federation

import (
	"iter"
	"net/netip"
	"time"
)

// Verdict is whether clients get an address or, if not, the one reason that keeps it out:
// of several that which is decided first.
type Verdict uint8

const (
	// Served: clients get it. Of a Source: it is in the Share.
	Served Verdict = iota

	// What keeps it out of a Share.

	// NoSuchService: the cluster has no such Service, or one of type ExternalName.
	NoSuchService
	// NoSuchPort: its slice does not have the port for TCP.
	NoSuchPort
	// Terminating: it is shutting down, and so will not be ready again.
	Terminating
	// NotReady: its slice has it as not ready.
	NotReady
	// OtherTarget: it stands for something that is neither a Pod nor an ExternalWorkload.
	OtherTarget
	// UnusableText: it can't be read, or a text of its endpoint can't be sent.
	UnusableText
	// NotRoutable: no other host can have it.
	NotRoutable
	// PodUnknown: its Pod or ExternalWorkload is not known yet, or no longer.
	PodUnknown
	// Unusable: its ExternalWorkload can't be used.
	Unusable
	// BehindGateway: its cluster is on another network, and clients reach it through the
	// cluster's Linkerd gateways.
	BehindGateway
	// GatewayDead: it is a Linkerd gateway that does not answer, and another of its cluster does.
	GatewayDead
	// NothingBehind: it is a Linkerd gateway, and the Service has no ready endpoint behind it.
	NothingBehind

	// What keeps it out of all sets.

	// PortUndeclared: the member's Service does not declare the port for TCP, and the service is Strict.
	PortUndeclared
	// Unread: it has just changed in its cluster, and not been read yet.
	Unread
	// OutsideRanges: it is not one that the cluster's link may offer.
	OutsideRanges
	// Owned: it belongs to an object of the local cluster.
	Owned
	// ClusterCordoned: the cluster is withdrawn by hand.
	ClusterCordoned
	// ClusterLost: the cluster is withdrawn while its API is not followed.
	ClusterLost
	// Taken: clients get the address from another member, or from another slice.
	Taken

	// What keeps it out of the client's set.

	// OtherInstance: it does not have the hostname that was asked for.
	OtherInstance
	// OtherNode: traffic has to stay on the client's node.
	OtherNode
	// Unpreferred: no tier of the service's preference names it.
	Unpreferred
	// TierNotUsed: its tier is not in use, or it has left that already.
	TierNotUsed
	// HintedToOtherNodes: it is hinted to other nodes than the client's, and another endpoint is hinted to that.
	HintedToOtherNodes
	// OtherZones: it is hinted to other zones than the client's.
	OtherZones
	// IPv6Off: the gateway does not serve IPv6.
	IPv6Off
	// OtherFamily: clients get its Pod by an IPv6 address.
	OtherFamily
)

var verdictWords = [...]string{
	Served: "served", NoSuchService: "no-such-service", NoSuchPort: "no-such-port", Terminating: "terminating", NotReady: "not-ready",
	OtherTarget: "stands-for-something-else", UnusableText: "unusable-text", NotRoutable: "not-routable", PodUnknown: "pod-not-known",
	Unusable: "unusable", BehindGateway: "behind-a-gateway", GatewayDead: "gateway-dead", NothingBehind: "nothing-behind-the-gateway",
	PortUndeclared: "port-not-declared", Unread: "just-changed", OutsideRanges: "outside-ranges", Owned: "owned-by-local-cluster",
	ClusterCordoned: "cluster-cordoned", ClusterLost: "cluster-lost", Taken: "taken", OtherInstance: "other-instance",
	OtherNode: "other-node", Unpreferred: "in-no-tier", TierNotUsed: "tier-not-in-use",
	HintedToOtherNodes: "hinted-to-other-nodes", OtherZones: "hinted-to-other-zones",
	IPv6Off: "ipv6-off", OtherFamily: "other-address-preferred",
}

// String is the verdict in words, as programs may rely on.
func (v Verdict) String() string { return verdictWords[v] }

// Explainer may be implemented by a Source: it explains addresses that are in none of its
// Shares why. It is safe for concurrent use and never calls back into the Table.
type Explainer interface {
	// Explain iterates over the addresses of all slices of a Service, as they are now, with
	// what a Share of that port makes of each, slice by slice. An address that a slice has
	// twice comes twice, where it has a port first.
	Explain(ServiceID, uint16) iter.Seq[Considered]
}

// Considered is an address of a slice, and what its Source makes of it.
type Considered struct {
	Slice   string         // as in Slice.Name
	Addr    netip.AddrPort // its port is 0 if the slice does not have the port; not valid: see Text
	Text    string         // what is written in place of an address that can't be read, or the beginning of it
	Target  string         // what it stands for; empty: nothing, or not known
	Verdict Verdict        // Served: it is in the Share
	Detail  string         // more about the verdict, if there is more
	Changed time.Time      // when what the slice offers changed last, or was first known; zero: not known
}

// omitted collects why a client does not get endpoints that others may get. nil collects nothing.
type omitted map[*Endpoint]Verdict

// note notes why endpoints of a list are not in what is left of it, which it returns.
func (o omitted) note(why Verdict, list, left []*Endpoint) []*Endpoint {
	if o == nil || len(list) == len(left) {
		return left
	}
	rest := left
	for _, e := range list {
		if len(rest) > 0 && rest[0] == e {
			rest = rest[1:]
		} else {
			o[e] = why
		}
	}
	return left
}
