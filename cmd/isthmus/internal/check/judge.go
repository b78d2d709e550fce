package check

import (
	"fmt"
	"net/netip"
	"time"

	"isthmus/internal/adminapi"
)

// Input is the state of a replica and its clusters, which [Judge] evaluates.
type Input struct {
	adminapi.Clusters
	Services []adminapi.Service
	// FromHere is true if "isthmus check" collected the Input itself, and false if a replica did.
	// If FromHere is true, the Input contains no information about services or watches. If "isthmus
	// check" cannot reach a cluster, a replica on a different network may still be able to reach
	// the cluster. In the local cluster, "isthmus check" uses the credentials of the user, not
	// those of a replica.
	FromHere bool
	// Exports is true if the checks include the permissions that --exports=on requires. If FromHere
	// is false, Exports is also false.
	Exports bool
	// NoAccount is the NAMESPACE/NAME of the replica's ServiceAccount if the ServiceAccount does
	// not exist yet.
	NoAccount string
	// NotAsked contains the reasons why permissions could not be checked, keyed by the name of the
	// cluster.
	NotAsked map[string]string
}

// Judge returns the results of all checks in the order of [Checks].
func Judge(s Input) []Result {
	r := new(report)
	now := time.Now()
	checkSecrets(r, &s)
	clusters := []*clusterCheck{newClusterCheck(r, s.Local, now)}
	for _, c := range s.Clusters.Clusters {
		if c.API != nil { // the link Secret is in use
			clusters = append(clusters, newClusterCheck(r, c, now))
		}
	}
	clusters[0].local = true
	clusters[0].Cluster.Cluster = "local"
	imports := s.Exports || s.Clusters.Exports != nil && s.Clusters.Exports.MCS != "none"
	for _, l := range clusters {
		l.fromHere = s.FromHere
		l.exports = s.Exports
		l.imports = imports
		l.checkServer()
		l.checkClock()
		if !l.local {
			l.checkExpiry()
		}
		l.checkState()
		if l.why != "" {
			l.unchecked()
			continue
		}
		l.checkPermissions(s.NoAccount, s.NotAsked[l.Cluster.Cluster])
		if l.local {
			l.checkKinds()
		}
		l.checkAnchors(clusters[0])
	}
	checkMemory(r, &s)
	checkNetworks(clusters)
	if !s.FromHere {
		checkConflicts(r, &s, now)
		checkServices(r, &s)
		checkLeftovers(r, &s)
		checkWriter(r, &s)
		checkCopies(r, &s)
		checkExports(r, &s)
	}
	return r.sorted()
}

func checkSecrets(r *report, s *Input) {
	add := r.about(sectionLinks, LinkSecrets, "")
	grant := "grant the permissions for secrets (see manifests/install/rbac.yaml) in namespace " + s.Secrets.Namespace
	switch why := s.Secrets.Reason; {
	case why == "" && s.Secrets.Listed:
		add(OK, fmt.Sprintf("link Secrets can be read: there are %d", len(s.Clusters.Clusters)), "")
	case why == "":
		add(Failure, "link Secrets cannot be read: they have not been listed yet", grant)
	case s.FromHere:
		add(Unchecked, "link Secrets cannot be read: "+why, grant)
	default:
		add(Failure, "link Secrets cannot be read: "+why, grant)
	}
	for i := range s.Clusters.Clusters {
		checkSecret(r, &s.Clusters.Clusters[i], s.Secrets.Namespace)
	}
}

func checkSecret(r *report, c *adminapi.Cluster, namespace string) {
	add := r.about(sectionLinks, LinkSecret, c.Secret)
	secret := fmt.Sprintf("secret -n %s %s", namespace, c.Secret)
	switch {
	case c.SecretRefused != "" && c.API != nil:
		why := c.Cluster + ": " + c.SecretRefused
		add(Failure, "the current version of the Secret cannot be used; "+
			"the previous version stays in use for cluster "+why,
			"undo the last change: kubectl describe "+secret)
	case c.SecretRefused != "":
		add(Failure, "cannot be used: "+c.SecretRefused,
			"recreate the Secret (isthmus link NAME --context CONTEXT --apply), or correct it: kubectl "+
				"describe "+secret)
	case c.UsedInstead != "":
		add(Failure,
			fmt.Sprintf("Secret %s also names cluster %s: Isthmus uses that Secret, because it is older",
				c.UsedInstead, c.Cluster),
			"delete the Secret that you do not need, or change its label multicluster.linkerd.io/cluster-name")
	case len(c.Insecure)+len(c.Ignored)+len(c.Unread) == 0:
		add(OK, "links cluster "+c.Cluster, "")
	}
	for _, why := range c.Insecure {
		add(Warning, "links cluster "+c.Cluster+" insecurely: "+why,
			"recreate the Secret with the API server's certificate authority")
	}
	for _, field := range c.Ignored {
		add(Warning, "links cluster "+c.Cluster+" by a kubeconfig with "+field+": it is ignored",
			"remove the field, or correct its spelling or indentation")
	}
	for _, why := range c.Unread {
		add(Failure, why,
			"correct the annotation, or remove it: kubectl edit "+secret+"; docs/links.md lists the valid values")
	}
}

// mostLinkedMemory is the percentage of GOMEMLIMIT that the caches of all linked clusters together
// may use before a warning is reported. The threshold of the alert IsthmusLinkedClustersMemory must
// be equal to mostLinkedMemory.
const mostLinkedMemory = 50

// checkMemory reports whether the caches of all linked clusters together use too much memory. The
// memory cap limits each cache, but not the total.
func checkMemory(r *report, s *Input) {
	m := s.LinkedMemory()
	if m.Limit == 0 {
		return
	}
	add := r.about(sectionLinks, LinkMemory, "")
	percent := m.Used * 100 / m.Limit
	text := fmt.Sprintf("the caches of all linked clusters together use %d%% of the memory limit (GOMEMLIMIT)", percent)
	if m.Used <= m.Limit/100*mostLinkedMemory {
		add(OK, text, "")
		return
	}
	add(Warning, fmt.Sprintf("%s, more than %d%%", text, mostLinkedMemory),
		"raise the memory limit of the container, or lower --cluster-memory: "+
			"clusters that exceed the new memory cap become stale")
}

// checkNetworks reports overlapping Pod CIDRs of clusters on the same network.
func checkNetworks(clusters []*clusterCheck) {
	ranges := make([][]netip.Prefix, len(clusters))
	for i, l := range clusters {
		var overlaps []string
		ranges[i] = l.podRanges()
		for j, before := range clusters[:i] {
			if before.Network != l.Network {
				continue
			}
			if mine, other, found := overlap(ranges[i], ranges[j]); found && mine == other {
				overlaps = append(overlaps, fmt.Sprintf("%v is also used by %s", mine, before.Cluster.Cluster))
			} else if found {
				overlaps = append(overlaps, fmt.Sprintf("%v overlaps %v of %s", mine, other, before.Cluster.Cluster))
			}
		}
		if l.why == "" {
			l.checkNetwork(overlaps)
		}
	}
}

// overlap returns two ranges that share addresses: one from the first list and one from the second
// list. Both lists must be sorted, and the ranges within each list must not overlap.
func overlap(a, b []netip.Prefix) (of, with netip.Prefix, found bool) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Overlaps(b[0]):
			return a[0], b[0], true
		case a[0].Compare(b[0]) < 0:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return of, with, false
}
