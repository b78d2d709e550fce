package clusterstore

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"isthmus/federation"
)

// Access is one link Secret, and how the cluster is reached by it. It holds credentials:
// it is for requests, and never for a page or a log.
type Access struct {
	Cluster federation.ClusterName // empty: the Secret's label is missing or invalid
	Secret  string                 // its name
	// Refused is why the Secret as it is now can't be used; nil: it can.
	Refused error
	// UsedInstead is the older Secret that is used for the cluster; empty: this one is, if
	// any.
	UsedInstead string
	// REST is nil if the Secret is not used.
	REST     *rest.Config
	Insecure []string // what is insecure about its kubeconfig
	Network  string   // of the cluster's Pods, by its annotation
	// Unread has an entry for each annotation of the Secret as it is now that can't be read:
	// why, and what holds in its place. It has those of a Secret that is not used, too.
	Unread []string
}

// Accesses returns one entry for every Secret of the link type, the oldest first. A Secret
// that has become invalid has the credentials that are in use.
func (s *Store) Accesses() []Access {
	now, _ := s.secrets.Get()
	links := s.publishedLinks()
	return accesses(now.secrets, func(name federation.ClusterName) *credentials {
		if v := links[name]; v != nil {
			return v.accepted
		}
		return nil
	})
}

// ReadAccesses returns what a Store would use of these Secrets, all of one namespace. Those
// of another type are left out.
func ReadAccesses(secrets []corev1.Secret) []Access {
	var list []*credentials
	for i := range secrets {
		if secrets[i].Type == SecretType {
			list = append(list, readSecret(&secrets[i], time.Now(), standingRules{}))
		}
	}
	sortCredentials(list)
	return accesses(list, func(name federation.ClusterName) *credentials {
		if name == "" {
			return nil
		}
		return pick(slices.DeleteFunc(slices.Clone(list), func(c *credentials) bool { return c.cluster != name }), nil)
	})
}

// accesses describes Secrets. accepted returns what is used of those for a cluster; nil:
// nothing.
func accesses(list []*credentials, accepted func(federation.ClusterName) *credentials) []Access {
	all := make([]Access, 0, len(list))
	for _, c := range list {
		a := Access{Cluster: c.cluster, Secret: c.secret, Refused: c.refused, Unread: c.standing.warnings}
		switch used := accepted(c.cluster); {
		case used == nil:
		case used.secret == c.secret:
			a.REST, a.Insecure, a.Network = used.rest, used.warnings, c.standing.network
		case c.refused == nil:
			a.UsedInstead = used.secret
		}
		all = append(all, a)
	}
	return all
}

// String names what it is, without credentials.
func (a Access) String() string { return fmt.Sprintf("Secret %s for cluster %q", a.Secret, a.Cluster) }
