package check

import (
	"fmt"
	"time"

	"isthmus/internal/adminapi"
)

// Seen is what is judged.
type Seen struct {
	adminapi.Clusters
	Services []adminapi.Service
	// FromHere: it was not a gateway that has looked, but somebody from another network, with other rights in the own cluster.
	// Nothing is known of services then, nor of how clusters are followed.
	FromHere bool
	// Exports: from here, the rights for --exports=on have been asked for too.
	Exports bool
	// NoAccount is the ServiceAccount, NAMESPACE/NAME, that is to have the gateway's rights and is not there yet.
	NoAccount string
	// NotAsked is why rights could not be asked for, by cluster.
	NotAsked map[string]string
}

// Judge returns what is right and wrong, in the order of [Checks].
func Judge(s Seen) []Result {
	r, now := new(report), time.Now()
	checkSecrets(r, &s)
	clusters := []*clusterCheck{newClusterCheck(r, s.Local, now)}
	for _, c := range s.Clusters.Clusters {
		if c.API != nil { // its Secret is in use
			clusters = append(clusters, newClusterCheck(r, c, now))
		}
	}
	clusters[0].local, clusters[0].Cluster.Cluster = true, "local"
	imports := s.Exports || s.Clusters.Exports != nil && s.Clusters.Exports.MCS != "none"
	for _, l := range clusters {
		l.fromHere, l.exports, l.imports = s.FromHere, s.Exports, imports
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
		l.checkRights(s.NoAccount, s.NotAsked[l.Cluster.Cluster])
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
		checkExports(r, &s)
	}
	return r.sorted()
}

// unchecked adds results for what can't be judged of a cluster whose API server is no good.
func (l *clusterCheck) unchecked() {
	checks := [][2]string{{sectionAPI, Rights}, {sectionTrust, Anchors}, {sectionNetworks, PodNetworks}}
	if l.local {
		checks = append(checks, [2]string{sectionAPI, CRDs})
	}
	for _, c := range checks {
		l.about(c[0], c[1], l.Cluster.Cluster)(Unchecked, l.why, "")
	}
}

// checkSecrets reports whether link Secrets can be read, which can be used, and each thing that is wrong with one.
func checkSecrets(r *report, s *Seen) {
	add := r.about(sectionLinks, LinkSecrets, "")
	grant := "grant what manifests/install/rbac.yaml has for secrets in namespace " + s.Secrets.Namespace
	switch why := s.Secrets.Reason; {
	case why == "" && s.Secrets.Listed:
		add(OK, fmt.Sprintf("link Secrets can be read: there are %d", len(s.Clusters.Clusters)), "")
	case why == "":
		add(Failure, "link Secrets can't be read: they have not been listed yet", grant)
	case s.FromHere:
		add(Unchecked, "link Secrets can't be read: "+why, grant)
	default:
		add(Failure, "link Secrets can't be read: "+why, grant)
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
		add(Failure, fmt.Sprintf("can't be used as it is now, and the version before is, for cluster %s: %s", c.Cluster, c.SecretRefused), "undo the last change: kubectl describe "+secret)
	case c.SecretRefused != "":
		add(Failure, "can't be used: "+c.SecretRefused, "write it anew (isthmus link NAME --context CONTEXT --apply), or correct it: kubectl describe "+secret)
	case c.UsedInstead != "":
		add(Failure, fmt.Sprintf("is one of two for cluster %s: Secret %s, which is older, is used", c.Cluster, c.UsedInstead),
			"delete the one that is not wanted, or give it another label multicluster.linkerd.io/cluster-name")
	case len(c.Insecure)+len(c.Ignored)+len(c.Unread) == 0:
		add(OK, "links cluster "+c.Cluster, "")
	}
	for _, why := range c.Insecure {
		add(Warning, "links cluster "+c.Cluster+" insecurely: "+why, "write it anew with the API server's certificate authority")
	}
	for _, field := range c.Ignored {
		add(Warning, "links cluster "+c.Cluster+" by a kubeconfig with "+field+": it is ignored",
			"remove the field, or correct its spelling and its indentation")
	}
	for _, why := range c.Unread {
		add(Failure, why, "correct the annotation, or remove it: kubectl edit "+secret+"; docs/links.md has what it may be")
	}
}
