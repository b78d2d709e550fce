package links

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/adminapi"
)

type linkOptions struct {
	commands.Target
	name                string
	linkedContext       string // context of the linked cluster
	apply, dryRun, wait bool
	output              string

	server, caFile             string
	tlsServerName              *string // nil if not given
	ca                         []byte
	trustDomain, clusterDomain string
	ranges, network            string

	account  types.NamespacedName // empty fields are not given
	duration time.Duration
}

func linkCommand() cli.Command { return new(linkOptions).command() }

func (o *linkOptions) command() cli.Command {
	return cli.Command{
		Use:     "link NAME",
		Example: "east",
		Summary: "link a cluster from your kubeconfig, or rotate the token of its link",
		Intro:   linkIntro,
		Ending:  linkEnding,
		OneOf:   oneReplica,
		Flags: []cli.Section{
			cli.NewSection("Clusters", func(s *pflag.FlagSet) {
				s.StringVar(&o.linkedContext, "context", "", "`CONTEXT` of the cluster to link.")
				o.ClusterFlags(s, "to-context")
			}),
			cli.NewSection("Actions", o.actionFlags),
			cli.NewSection("Contents of the link", o.contentFlags),
			cli.NewSection("Account in the linked cluster", o.accountFlags),
		},
		Run: func(ctx context.Context, p cli.Process) error { return o.run(ctx, p) },
	}
}

func (o *linkOptions) actionFlags(s *pflag.FlagSet) {
	s.BoolVar(&o.apply, "apply", false,
		"Create or update the link Secret in the local cluster instead of printing it.")
	s.BoolVar(&o.dryRun, "dry-run", false,
		"Show the changes to both clusters without making them. "+
			"The token is shown as "+placeholder+".")
	cli.Choice(s, &o.output, "output", "o", "`FORMAT` of the printed Secret: yaml or json.", "yaml", "json")
	s.BoolVar(&o.wait, "wait", true,
		"With --apply, delete older tokens only after every replica uses the new token to access the cluster. "+
			"With --wait=false, the previous token stays valid.")
	replicaFlags(s, &o.Target)
}

func (o *linkOptions) contentFlags(s *pflag.FlagSet) {
	s.StringVar(&o.server, "server", "",
		"`URL` at which replicas reach the cluster's API server. "+
			"The default is the URL in the existing link or, for a new link, the one in your kubeconfig.")
	const tlsServerNameUsage = "`NAME` to expect in the API server's certificate instead of the URL's host. " +
		"The default is the name in the existing link or, for a new link, the one in your kubeconfig. " +
		"If the name is empty, the certificate must contain the URL's host."
	s.Func("tls-server-name", tlsServerNameUsage, func(name string) error {
		o.tlsServerName = &name
		return nil
	})
	s.StringVar(&o.caFile, "ca-file", "",
		"`FILE` with the certificate authority of the API server, in PEM format. "+
			"The default is the authority in the existing link or, for a new link, the one in your kubeconfig.")
	s.StringVar(&o.trustDomain, "trust-domain", "",
		"Trust domain (`DOMAIN`) of the cluster's Linkerd installation. "+
			"The default is the domain in the existing link. "+
			"For a new link, the default is the domain in the cluster's ConfigMap linkerd-config. "+
			"Without this ConfigMap, the default is "+defaultDomain+".")
	s.StringVar(&o.clusterDomain, "cluster-domain", "", "DNS `DOMAIN` of the cluster. "+
		"The default comes from the same sources as the default of --trust-domain.")
	s.StringVar(&o.ranges, "address-ranges", "",
		"Networks of the cluster's Pods, as comma-separated `CIDRS`. "+
			"Isthmus ignores the cluster's addresses outside these networks. "+
			"The default is the list in the existing link. "+
			"If a link does not list networks, its cluster may offer any address.")
	s.StringVar(&o.network, "network", "",
		"`NAME` of the network that the cluster's Pods are on. "+
			"If isthmus gateway runs with a different --network, "+
			"clients reach the cluster through its Linkerd gateways. "+
			"The default is the network in the existing link or, for a new link, the unnamed network.")
}

func (o *linkOptions) accountFlags(s *pflag.FlagSet) {
	s.StringVar(&o.account.Name, "service-account", "",
		"`NAME` of the ServiceAccount, its ClusterRole and its ClusterRoleBinding. "+
			"The default is the name in the existing link or, if there is none, "+defaultAccount.Name+".")
	s.StringVar(&o.account.Namespace, "service-account-namespace", "",
		"`NAMESPACE` of the ServiceAccount. The command creates a missing namespace. "+
			"The default is the namespace in the existing link or, if there is none, "+defaultAccount.Namespace+".")
	s.DurationVar(&o.duration, "duration", 0,
		"Lifetime of the token, as a `DURATION` of at least 10m. "+
			"Run the command again before the token expires. Zero means that the token does not expire.")
}

var defaultAccount = types.NamespacedName{Namespace: "linkerd-multicluster", Name: "isthmus-remote-access"}

const maxCA = 64 << 10

// check validates the arguments and reads the file that --ca-file names.
func (o *linkOptions) check(p cli.Process) (err error) {
	o.name = p.Args[0]
	if err := checkNewName(o.name); err != nil {
		return err
	}
	switch {
	case o.linkedContext == "":
		return cli.Usagef("no --context given: choose the context of the cluster to link")
	case o.duration != 0 && o.duration < 10*time.Minute:
		return cli.Usagef("--duration is %v: use 0 or at least 10m", o.duration)
	}
	for flag, value := range map[string]string{"trust-domain": o.trustDomain, "cluster-domain": o.clusterDomain} {
		if value != "" && validDomain(value) == "" {
			return cli.Usagef("--%s is %q: use a domain such as %s", flag, value, defaultDomain)
		}
	}
	if name := o.tlsServerName; name != nil && *name != "" && !isServerName(*name) {
		return cli.Usagef("--tls-server-name is %q: "+
			"use the DNS name or the IP address in the server's certificate", *name)
	}
	if err := clusterstore.CheckNetwork(o.network); err != nil {
		return cli.Usagef("--network: %w", err)
	}
	if o.caFile != "" {
		if o.ca, err = os.ReadFile(o.caFile); err != nil {
			return cli.Usagef("--ca-file: %w", err)
		}
		if n := len(o.ca); n == 0 || n > maxCA {
			return cli.Usagef("--ca-file: %s contains %d bytes: use a file of 1 to %d bytes", o.caFile, n, maxCA)
		}
	}
	return o.Check()
}

func (o *linkOptions) run(ctx context.Context, p cli.Process) error {
	if err := o.check(p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	linked, err := open(reach.Options{Kubeconfig: o.Kubeconfig, Context: o.linkedContext})
	if err != nil {
		return err
	}
	defer linked.Close()
	local, err := open(o.Options)
	if err != nil {
		return err
	}
	defer local.Close()
	w := &work{p: p, out: p.Stderr, dry: o.dryRun}
	if o.apply {
		w.out = p.Stdout
	}
	return o.link(ctx, w, local, linked)
}

// link creates or renews the account, then the token, and finally the link Secret. Older tokens are
// deleted only after the new token is in use.
func (o *linkOptions) link(ctx context.Context, w *work, local, linked *cluster) error {
	l := &linking{o: o, local: local, linked: linked}
	if err := w.wait("reading both clusters", func() error { return l.read(ctx, w) }); err != nil {
		return err
	}
	if err := l.access.ensure(ctx, w, linked); err != nil {
		return err
	}
	made, err := l.access.newToken(ctx, w, linked, l.linkKey, o.duration)
	if err != nil {
		return err
	}
	l.content.token = made
	written, err := l.deliver(ctx, w)
	switch {
	case err == nil:
	case l.unsure:
		w.warn("the link Secret may have been written despite the error, so the new token stays valid: " +
			"run the command again to delete unused tokens")
		return err
	default:
		l.access.dropToken(ctx, w, linked, made)
		return err
	}
	if !made.expires.IsZero() {
		fmt.Fprintf(w.p.Stderr, "%s: the token expires at %s: run the command again before then\n", w.p.Name,
			made.expires.UTC().Format(time.RFC3339))
	}
	return l.finish(ctx, w, written)
}

// chooseServer returns the API server of a link. Flags take precedence over the existing link. By
// default, a new link uses the server in the user's kubeconfig.
func (o *linkOptions) chooseServer(c *cluster, existing *corev1.Secret) server {
	from := c.kube
	if before := linkConfig(existing); before != nil {
		from = before
	}
	s := server{
		Server: from.Host, TLSServerName: from.ServerName,
		CertificateAuthorityData: from.CAData, InsecureSkipTLSVerify: from.Insecure,
	}
	if o.server != "" {
		s.Server = o.server
	}
	if o.tlsServerName != nil {
		s.TLSServerName = *o.tlsServerName
	}
	if o.ca != nil {
		s.CertificateAuthorityData = o.ca
		s.InsecureSkipTLSVerify = false
	}
	return s
}

// chooseDomains returns the domains of a link. Domains from flags take precedence over the domains
// in the existing link Secret. By default, a new link uses the domains of Linkerd in the linked
// cluster.
func (o *linkOptions) chooseDomains(ctx context.Context, w *work, linked *cluster, existing *corev1.Secret) domains {
	d := domains{o.trustDomain, o.clusterDomain}
	if existing != nil {
		d.trust = cmp.Or(d.trust, existing.Annotations[clusterstore.TrustDomainAnnotation])
		d.cluster = cmp.Or(d.cluster, existing.Annotations[clusterstore.ClusterDomainAnnotation])
	}
	if d.trust != "" && d.cluster != "" {
		return d
	}
	installed := readDomains(ctx, w, linked, o.Namespace)
	return domains{cmp.Or(d.trust, installed.trust, defaultDomain), cmp.Or(d.cluster, installed.cluster, defaultDomain)}
}

// awaitLink waits until the replicas use the new credentials to read the cluster. If some replicas
// do not switch to the new credentials, the first result reports whether the previous credentials
// still work. If every replica that responded reports that the cluster has stayed ready, the
// previous credentials still work.
func (o *linkOptions) awaitLink(
	ctx context.Context, w *work, local *cluster, written *corev1.Secret,
) (before bool, err error) {
	with, without := 0, 0
	err = awaitReplicas(ctx, w, &o.Target, "reads "+o.name+" with the new credentials",
		func(page adminapi.Clusters) (string, error) {
			now, err := local.API.Secrets(written.Namespace).Get(ctx, written.Name, metav1.GetOptions{})
			if err != nil {
				return "", local.failed("read the link Secret again", err)
			}
			if !sameCredentials(now, written) {
				return "", fmt.Errorf("link Secret %s: %w", key(written), errChanged)
			}
			for _, c := range page.Clusters {
				if c.Secret != written.Name {
					continue
				}
				if c.State == adminapi.Ready {
					with++
				} else {
					without++
				}
				if c.State == adminapi.Ready && c.SecretVersion == now.ResourceVersion {
					return "", nil
				}
				return describeCluster(&c), nil
			}
			return fmt.Sprintf("link Secret %s is missing: does the replica read link Secrets in namespace %s?",
				written.Name, written.Namespace), nil
		})
	return with > 0 && without == 0, err
}

// chooseAccount returns the namespace and name of the ServiceAccount for a link. Flags take
// precedence over the annotations of the existing link Secrets.
func chooseAccount(flags types.NamespacedName, links []corev1.Secret) types.NamespacedName {
	before := types.NamespacedName{}
	for i := range links {
		if before.Name == "" {
			before.Namespace, before.Name, _ = strings.Cut(links[i].Annotations[accountAnnotation], "/")
		}
	}
	return types.NamespacedName{
		Namespace: cmp.Or(flags.Namespace, before.Namespace, defaultAccount.Namespace),
		Name:      cmp.Or(flags.Name, before.Name, defaultAccount.Name),
	}
}

type domains struct{ trust, cluster string }

const defaultDomain = "cluster.local"

// readDomains reads the domains from the Linkerd installation in the given namespace. If the given
// namespace contains no installation, readDomains uses Linkerd's default namespace. Isthmus may run
// beside Linkerd.
func readDomains(ctx context.Context, w *work, c *cluster, namespace string) domains {
	const own, name = "linkerd", "linkerd-config"
	config, err := c.API.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && namespace != own {
		config, err = c.API.ConfigMaps(own).Get(ctx, name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		w.warn("%s has no Linkerd ConfigMap %s/%s: assuming the domain %s "+
			"(--trust-domain, --cluster-domain)", c.title, namespace, name, defaultDomain)
		return domains{}
	case err != nil:
		w.warn("%v: assuming the domain %s (--trust-domain, --cluster-domain)",
			c.failed("read ConfigMap "+namespace+"/"+name, err), defaultDomain)
		return domains{}
	}
	return parseDomains(config.Data["values"])
}

// maxValues limits the size of Linkerd's installation values, in bytes.
const maxValues = 256 << 10

// parseDomains reads the domains from Linkerd's installation values and omits invalid values.
// parseDomains does not decode the YAML, because decoding would copy the target of every alias and
// compare each key with all others.
func parseDomains(text string) (d domains) {
	var document yaml.Node
	if len(text) > maxValues || yaml.Unmarshal([]byte(text), &document) != nil || len(document.Content) == 0 ||
		document.Content[0].Kind != yaml.MappingNode {
		return d
	}
	values := document.Content[0].Content
	for i := 0; i+1 < len(values); i += 2 {
		if values[i+1].Kind != yaml.ScalarNode {
			continue
		}
		switch values[i].Value {
		case "identityTrustDomain":
			d.trust = validDomain(values[i+1].Value)
		case "clusterDomain":
			d.cluster = validDomain(values[i+1].Value)
		}
	}
	return d
}

func validDomain(text string) string {
	if len(validation.IsDNS1123Subdomain(text)) > 0 {
		return ""
	}
	return text
}

const linkIntro = `isthmus link links a cluster from your kubeconfig. In that cluster, it creates a ServiceAccount
with a token and the read permissions of manifests/link/remote-access.yaml. For the local
cluster, in which Isthmus runs, it prints the link Secret or, with --apply, writes the
Secret. To rotate the token, run the command again. Open streams continue.

Usage: isthmus link NAME --context CONTEXT [FLAGS]

NAME is the name of the linked cluster in the local cluster: in annotations of Services,
labels, metrics and pages.`

const linkEnding = `An existing link keeps its labels and annotations, such as a cordon, and all settings that
no flag changes. The command deletes a token only after every ready replica reads the
cluster with the new token. If the cluster stays ready with the previous token instead, the
command restores the link and deletes the new token. Otherwise, both tokens stay, and
another run completes the rotation.

The command refuses in these cases:
  - Another Secret links NAME.
  - The context is that of the local cluster.
  - The cluster is already linked under another name.
  - The account or its permissions already exist, differ, and were not created by
    isthmus link.

Required permissions in the cluster to link: get and create namespaces, serviceaccounts,
clusterroles (also update) and clusterrolebindings; get, list, create and delete secrets in
the account's namespace; get the ConfigMap linkerd-config in the namespace of -n or else in
linkerd, unless you give both domains; and everything that the ClusterRole grants. With
--duration, also create serviceaccounts/token.

Required permissions in the local cluster: get namespace kube-system; get, list and, with
--apply, create and update secrets in the namespace of the links. Without --admin, also list
pods and create pods/portforward there.

Standard output contains the Secret or, with --apply, a line for each change. The command
prints a token only in the Secret. The exit code is 1 if the command refuses or fails.

Examples:
  isthmus link east --context east --apply
  isthmus link east --context east --dry-run --apply
  isthmus link east --context east --apply --server https://10.0.0.5:6443
  isthmus link east --context east --duration 720h --apply
  isthmus link east --context east --to-context west -o yaml > link-east.yaml`
