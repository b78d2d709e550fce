package federation

import (
	"cmp"
	"strconv"
)

// ClusterName names a linked cluster, as its link Secret does.
type ClusterName string

// Local is the cluster that the gateway runs in.
const Local ClusterName = ""

// String is the name, or "local" for the cluster that the gateway runs in.
func (c ClusterName) String() string {
	if c == Local {
		return "local"
	}
	return string(c)
}

// ServiceID names a service of one cluster. By namespace sameness the members
// of a federated service share its namespace.
type ServiceID struct{ Namespace, Name string }

func (id ServiceID) String() string { return id.Namespace + "/" + id.Name }

// Member is one cluster's Service among those that make up a service.
type Member struct {
	Cluster ClusterName
	Service ServiceID
}

func (m Member) String() string { return m.Service.String() + "@" + m.Cluster.String() }

// Client is the part of a request that changes the answer. An empty field is
// unknown, or not part of the request.
type Client struct {
	Zone     string // the client's zone: topology.kubernetes.io/zone of its node
	Node     string // the client's node
	Instance string // the requested hostname, as in <hostname>.<service>.<namespace>
}

// Key is a service port and the part of a client that changes the answer. Watches
// of equal keys get the same sets.
type Key struct {
	Service ServiceID
	Port    uint16
	Client  Client
}

func (k Key) String() string { return k.Service.String() + ":" + strconv.Itoa(int(k.Port)) }

func (id ServiceID) compare(o ServiceID) int {
	return cmp.Or(cmp.Compare(id.Namespace, o.Namespace), cmp.Compare(id.Name, o.Name))
}
