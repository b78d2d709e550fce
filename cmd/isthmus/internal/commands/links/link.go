package links

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/cmd/isthmus/internal/reach"
)

// linkOptions are those of "isthmus link".
type linkOptions struct {
	commands.Target
	name                string
	linkedContext       string // context of the cluster to be linked
	apply, dryRun, wait bool
	output              string

	server, caFile             string
	tlsServerName              *string // nil: not given
	ca                         []byte
	trustDomain, clusterDomain string
	ranges, network            string

	account  types.NamespacedName // what is empty is not given
	duration time.Duration
}

func linkCommand() cli.Command { return new(linkOptions).command() }

func (o *linkOptions) command() cli.Command {
	return cli.Command{
		Use:     "link NAME",
		Such:    "east",
		Summary: "link a cluster of your kubeconfig, or rotate the token of its link",
		Intro:   linkIntro,
		Ending:  linkEnding,
		OneOf:   oneReplica,
		Flags: []cli.Section{
			cli.NewSection("Clusters", func(s *pflag.FlagSet) {
				s.StringVar(&o.linkedContext, "context", "", "`CONTEXT` of the cluster to be linked.")
				o.ClusterFlags(s, "to-context")
			}),
			cli.NewSection("What is done", o.actionFlags),
			cli.NewSection("What the link has", o.contentFlags),
			cli.NewSection("The account in the linked cluster", o.accountFlags),
		},
		Run: func(ctx context.Context, p cli.Process) error { return o.run(ctx, p) },
	}
}

func (o *linkOptions) actionFlags(s *pflag.FlagSet) {
	s.BoolVar(&o.apply, "apply", false, "Write the link Secret, instead of printing it.")
	s.BoolVar(&o.dryRun, "dry-run", false, "Change nothing: show what would be done in both clusters. The token is then shown as "+placeholder+".")
	cli.Choice(s, &o.output, "output", "o", "`FORMAT` of the Secret that is printed: yaml or json.", "yaml", "json")
	s.BoolVar(&o.wait, "wait", true, "With --apply: wait until the gateway reads the cluster with the new token, and only then delete the tokens before it. Without, they stay.")
	replicaFlags(s, &o.Target)
}

func (o *linkOptions) contentFlags(s *pflag.FlagSet) {
	s.StringVar(&o.server, "server", "", "`URL` of the cluster's API server as the gateway reaches it. Without it: that of the link as it is, or else that of --context.")
	const tlsServerNameUsage = "`NAME` that the certificate of that server is checked for, " +
		"in place of the URL's host. Without it: likewise, also with --server. '': the URL's host."
	s.Func("tls-server-name", tlsServerNameUsage, func(name string) error {
		o.tlsServerName = &name
		return nil
	})
	s.StringVar(&o.caFile, "ca-file", "", "`FILE` with the certificate authority of that server, as PEM. Without it: likewise.")
	s.StringVar(&o.trustDomain, "trust-domain", "", "Trust `DOMAIN` of the cluster's Linkerd. Without it: that of the link as it is, or else what its ConfigMap linkerd-config has, or else "+defaultDomain+".")
	s.StringVar(&o.clusterDomain, "cluster-domain", "", "Cluster `DOMAIN`. Without it: likewise.")
	s.StringVar(&o.ranges, "address-ranges", "", "Networks of the cluster's Pods, as `CIDRS` divided by commas: no other addresses are taken from it. Without it: those of the link as it is; a link without them may offer any address.")
	s.StringVar(&o.network, "network", "", "`NAME` of the network that the cluster's Pods are on. If it is another than the gateway's (its flag --network), the cluster is reached through its Linkerd gateways. Without it: that of the link as it is, or else the network without a name.")
}

func (o *linkOptions) accountFlags(s *pflag.FlagSet) {
	s.StringVar(&o.account.Name, "service-account", "", "`NAME` of the ServiceAccount, and of its ClusterRole and ClusterRoleBinding. Without it: that of the link as it is, or else "+defaultAccount.Name+".")
	s.StringVar(&o.account.Namespace, "service-account-namespace", "", "Its `NAMESPACE`, which is made if need be. Without it: likewise, or else "+defaultAccount.Namespace+".")
	s.DurationVar(&o.duration, "duration", 0, "How long the token is good, as a `DURATION` of at least 10m: run this again before it ends. 0: it does not expire.")
}

// gatewayFlags adds those by which the gateways are found that a verb asks.
func replicaFlags(s *pflag.FlagSet, t *commands.Target) {
	t.AdminFlag(s)
	t.PodFlag(s)
	s.DurationVar(&t.Timeout, "timeout", time.Minute, "All is done within this `DURATION`.")
}

// oneGateway are the flags of which each names one gateway.
var oneReplica = [][2]string{{"admin", "pod"}}

var defaultAccount = types.NamespacedName{Namespace: "linkerd-multicluster", Name: "isthmus-remote-access"}

// maxCA is as much of certificate authorities as a link may have, in bytes.
const maxCA = 64 << 10

// check checks the arguments, and reads the file that they name.
func (o *linkOptions) check(p cli.Process) (err error) {
	o.name = p.Args[0]
	if err := checkNewName(o.name); err != nil {
		return err
	}
	switch {
	case o.linkedContext == "":
		return cli.Usagef("no --context given: name the cluster to be linked by a context of your kubeconfig")
	case o.duration != 0 && o.duration < 10*time.Minute:
		return cli.Usagef("--duration is %v: give at least 10m, or 0", o.duration)
	}
	for flag, value := range map[string]string{"trust-domain": o.trustDomain, "cluster-domain": o.clusterDomain} {
		if value != "" && domain(value) == "" {
			return cli.Usagef("--%s is %q: give a domain such as %s", flag, value, defaultDomain)
		}
	}
	if name := o.tlsServerName; name != nil && *name != "" && !serverName(*name) {
		return cli.Usagef("--tls-server-name is %q: "+
			"give the DNS name or the IP address in the server's certificate", *name)
	}
	if err := clusterstore.CheckNetwork(o.network); err != nil {
		return cli.Usagef("--network: %w", err)
	}
	if o.caFile != "" {
		if o.ca, err = os.ReadFile(o.caFile); err != nil {
			return cli.Usagef("--ca-file: %w", err)
		}
		if n := len(o.ca); n == 0 || n > maxCA {
			return cli.Usagef("--ca-file: %s has %d bytes: give 1 to %d", o.caFile, n, maxCA)
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
	there, err := open(reach.Options{Kubeconfig: o.Kubeconfig, Context: o.linkedContext})
	if err != nil {
		return err
	}
	defer there.Close()
	here, err := open(o.Options)
	if err != nil {
		return err
	}
	defer here.Close()
	w := &work{p: p, out: p.Stderr, dry: o.dryRun}
	if o.apply {
		w.out = p.Stdout
	}
	return o.link(ctx, w, here, there)
}

// chooseAccount returns the account of links, of which there may be several of one cluster: by flags, or else as
// the first has it that has one, or else the default one.
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
