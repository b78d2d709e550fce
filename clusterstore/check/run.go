package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/clusterstore/kube"
	"isthmus/clusterstore/typed"
	"isthmus/federation"
)

const (
	// Limit is how long a Run may take.
	Limit = 20 * time.Second
	// parallel clusters are asked at a time: 250 of which none answers take 18 s.
	parallel = 48
)

// Config is what a Run is about.
type Config struct {
	Namespace string       // of the control plane, where link Secrets are
	Local     *rest.Config // how the own cluster is reached
	// Account is the ServiceAccount, NAMESPACE/NAME, that is to have the gateway's rights there;
	// empty: the credentials of Local are.
	Account string
	// Links are the link Secrets. LinksErr is why they can't be read; nil: they can.
	Links    []clusterstore.Access
	LinksErr error
	Network  string // that the own cluster is on
	// Preflight: there is no gateway, and the credentials of Local are a user's. What these
	// do not permit is no failure.
	Preflight bool
	// Pre: nothing is installed yet, so that Account need not be there.
	Pre bool
}

// Run checks the own cluster and all links, and returns what it has found.
func Run(ctx context.Context, c Config) []Result {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	report := new(Report)
	now := time.Now()
	here := &look{
		cluster: federation.Local, namespace: c.Namespace, rest: c.Local, rights: LocalRights(), account: c.Account, pre: c.Pre, kinds: kinds, manifest: "manifests/install/rbac.yaml",
		report: report, on: c.Network,
	}
	all := []*look{here}
	c.checkSecrets(report)
	for _, a := range c.sorted() {
		if a.REST != nil {
			all = append(all, &look{
				cluster: a.Cluster, namespace: c.Namespace, rest: a.REST, rights: LinkRights(), manifest: "manifests/link/remote-access.yaml", report: report, on: a.Network,
			})
		}
	}
	runAll(ctx, all)
	checkAllExpiry(all[1:], now)
	compareAllAnchors(all, now)
	compareNetworks(all)
	return report.Results()
}

// ReadLinks reads the link Secrets of a namespace, as a gateway there does. It reads pages, so
// that the clients may bound each.
func ReadLinks(ctx context.Context, api *typed.Clients, namespace string) ([]clusterstore.Access, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterLimit)
	defer cancel()
	var secrets []corev1.Secret
	options := metav1.ListOptions{FieldSelector: "type=" + clusterstore.SecretType, Limit: linksOfPage}
	for len(secrets) < maxLinks {
		list, err := api.Secrets(namespace).List(ctx, options)
		if err != nil {
			return nil, kube.Printable(err)
		}
		secrets = append(secrets, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			return clusterstore.ReadAccesses(secrets), nil
		}
	}
	return nil, fmt.Errorf("there are more than %d link Secrets", maxLinks)
}

// Link Secrets that ReadLinks reads.
const maxLinks, linksOfPage = 4000, 200

// sorted returns the links by the name of the cluster.
func (c *Config) sorted() []clusterstore.Access {
	return slices.SortedStableFunc(slices.Values(c.Links), func(a, b clusterstore.Access) int { return cmp.Compare(a.Cluster, b.Cluster) })
}

// runAll asks clusters, some at a time. Those for which there is no time are skipped.
func runAll(ctx context.Context, all []*look) {
	var running sync.WaitGroup
	next := make(chan *look)
	for range min(parallel, len(all)) {
		running.Go(func() {
			for l := range next {
				l.run(ctx)
			}
		})
	}
	for i, l := range all {
		select {
		case next <- l:
			continue
		case <-ctx.Done():
		}
		for _, late := range all[i:] {
			const why = "no time was left"
			late.add(sectionAPI, API, Unchecked, why, "")
			late.add(sectionAPI, ClockSkew, Unchecked, why, "")
			late.skip(why)
		}
		break
	}
	close(next)
	running.Wait()
}

// checkSecrets reports which link Secrets can be used.
func (c *Config) checkSecrets(report *Report) {
	if c.LinksErr != nil {
		level := Failure
		if c.Preflight {
			level = Unchecked
		}
		report.Add(Result{
			Section: sectionLinks, Check: LinkSecrets, Level: level, Text: "link Secrets can't be read: " + c.LinksErr.Error(),
			Hint: "grant what manifests/install/rbac.yaml has for secrets in namespace " + c.Namespace,
		})
		if len(c.Links) == 0 {
			return
		}
	} else {
		report.Add(Result{Section: sectionLinks, Check: LinkSecrets, Level: OK, Text: fmt.Sprintf("link Secrets can be read: there are %d", len(c.Links))})
	}
	for _, a := range c.Links {
		checkSecret(report, a, c.Namespace)
	}
}

// checkSecret reports whether a Secret can be used, and each thing that is wrong with it.
func checkSecret(report *Report, a clusterstore.Access, namespace string) {
	add := func(level Level, text, hint string) {
		report.Add(Result{Section: sectionLinks, Check: LinkSecret, Object: a.Secret, Level: level, Text: text, Hint: hint})
	}
	describe := fmt.Sprintf("kubectl describe secret -n %s %s", namespace, a.Secret)
	switch {
	case a.Refused != nil && a.REST != nil:
		add(Failure, fmt.Sprintf("can't be used as it is now, and the version before is, for cluster %s: %v", a.Cluster, a.Refused), "undo the last change: "+describe)
	case a.Refused != nil:
		add(Failure, "can't be used: "+a.Refused.Error(), "write it anew (isthmus link NAME --context CONTEXT --apply), or correct it: "+describe)
	case a.UsedInstead != "":
		add(Failure, fmt.Sprintf("is one of two for cluster %s: Secret %s, which is older, is used", a.Cluster, a.UsedInstead),
			"delete the one that is not wanted, or give it another label multicluster.linkerd.io/cluster-name")
	case len(a.Insecure)+len(a.Unread) == 0:
		add(OK, "links cluster "+a.Cluster.String(), "")
	}
	for _, why := range a.Insecure {
		add(Warning, "links cluster "+a.Cluster.String()+" insecurely: "+why, "write it anew with the API server's certificate authority")
	}
	for _, why := range a.Unread {
		add(Failure, why, fmt.Sprintf("correct the annotation, or remove it: kubectl edit secret -n %s %s; docs/links.md has what it may be", namespace, a.Secret))
	}
}

// checkAllExpiry reports for how long the links' credentials are good. Where the API server has refused them, how long they
// would be says little, unless that time is over.
func checkAllExpiry(links []*look, now time.Time) {
	for _, l := range links {
		level, text := OK, "its credentials do not expire"
		if what, at := credentialExpiry(l.rest); what != "" {
			level, text = expiry(now, at, soonCredentials)
			text = "its " + what + " " + text
		}
		if l.refused && level != Failure {
			level, text = Unchecked, "the API server refuses its credentials"
		}
		hint := ""
		if level != OK {
			hint = fmt.Sprintf("renew the link: isthmus link %s --context CONTEXT --apply", l.cluster)
		}
		l.add(sectionLinks, LinkExpiry, level, text, hint)
	}
}

// compareAllAnchors reports the anchors of each cluster, and how they fit to the own ones. The
// first of all is the own cluster.
func compareAllAnchors(all []*look, now time.Time) {
	here := all[0]
	for _, l := range all {
		what := "ConfigMap " + l.namespace + "/" + anchorsConfigMap
		if l.anchorsErr != nil {
			level, text, hint := l.mayNotRead(what, l.anchorsErr)
			l.add(sectionTrust, Anchors, level, text, hint)
			continue
		}
		level, text := l.anchors.expiry(now)
		if l != here && here.anchorsErr == nil {
			if differ, how := compareAnchors(here.anchors, l.anchors); rank(differ) >= rank(level) {
				level, text = differ, how
			}
		}
		hint := ""
		if level != OK {
			hint = "rotate trust anchors in all clusters alike: https://linkerd.io/2/tasks/manually-rotating-control-plane-tls-credentials/"
		}
		l.add(sectionTrust, Anchors, level, text, hint)
	}
}

// compareNetworks reports which clusters' Pod CIDRs overlap, of those on one network.
func compareNetworks(all []*look) {
	known, found := make(map[string][]network), make(map[string][]overlap)
	for _, l := range all {
		if l.networkErr == nil && l.answers {
			known[l.on] = append(known[l.on], l.network)
		}
	}
	for _, list := range known {
		maps.Copy(found, overlaps(list))
	}
	for _, l := range all {
		switch over := found[l.name()]; {
		case l.networkErr != nil:
			level, text, hint := l.mayNotRead("Nodes", l.networkErr)
			l.add(sectionNetworks, PodNetworks, level, text, hint)
		case len(over) > 0:
			var texts []string
			for _, o := range over[:min(len(over), 5)] {
				texts = append(texts, o.String())
			}
			if more := len(over) - len(texts); more > 0 {
				texts = append(texts, fmt.Sprintf("%d more", more))
			}
			l.add(sectionNetworks, PodNetworks, Warning, "Pod CIDRs overlap: "+strings.Join(texts, "; "),
				"federated Services need flat networks, in which an address is one Pod's: give new clusters other --cluster-cidr ranges, or reach them through gateways (annotation isthmus.io/network of the link Secret)")
		case l.network.nodes == 0:
			l.add(sectionNetworks, PodNetworks, OK, "it has no Nodes", "")
		case len(l.network.ranges) == 0:
			l.add(sectionNetworks, PodNetworks, Unchecked, "its Nodes have no Pod CIDR", "some network plugins don't use them: compare their own ranges")
		case l.network.partly:
			l.add(sectionNetworks, PodNetworks, OK, fmt.Sprintf("its Pod CIDRs overlap no other's, as far as %d of its Nodes have them", maxNodes), "")
		default:
			l.add(sectionNetworks, PodNetworks, OK, "its Pod CIDRs overlap no other's", "")
		}
	}
}
