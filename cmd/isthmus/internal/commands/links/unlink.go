package links

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// impactTimeout limits how long the command waits for replicas to report the effect of the
// deletion.
const impactTimeout = 10 * time.Second

type unlinkOptions struct {
	commands.Target
	name                string
	linkedContext       string // context of the linked cluster
	revoke, dryRun, yes bool
	account             types.NamespacedName // empty fields are not given
}

func unlinkCommand() cli.Command {
	o := new(unlinkOptions)
	return cli.Command{
		Use:     "unlink NAME",
		Example: "east",
		Summary: "remove a link and, with --revoke, its account in the linked cluster",
		Intro:   unlinkIntro,
		Ending:  unlinkEnding,
		OneOf:   oneReplica,
		Flags: []cli.Section{cli.NewSection("Flags", func(s *pflag.FlagSet) {
			o.ClusterFlags(s, "to-context")
			s.BoolVar(&o.revoke, "revoke", false,
				"Also delete the objects that isthmus link created in the linked cluster.")
			s.StringVar(&o.linkedContext, "context", "", "With --revoke, the `CONTEXT` of the linked cluster.")
			s.StringVar(&o.account.Name, "service-account", "",
				"With --revoke, the `NAME` of the ServiceAccount in the linked cluster. "+
					"The default is the name in the link or, if there is none, "+defaultAccount.Name+".")
			s.StringVar(&o.account.Namespace, "service-account-namespace", "",
				"`NAMESPACE` of this ServiceAccount. "+
					"The default is the namespace in the link or, if there is none, "+defaultAccount.Namespace+".")
			s.BoolVar(&o.dryRun, "dry-run", false, "Show what would be deleted without deleting anything.")
			s.BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation.")
			o.AdminFlag(s)
			o.PodFlag(s)
			s.DurationVar(&o.Timeout, "timeout", time.Minute,
				"Finish within this `DURATION`, not counting the time spent waiting for your confirmation.")
		})},
		Run: func(ctx context.Context, p cli.Process) error { return o.run(ctx, p) },
	}
}

func (o *unlinkOptions) check(p cli.Process) error {
	o.name = p.Args[0]
	switch {
	case o.revoke && o.linkedContext == "":
		return cli.Usagef("--revoke needs --context: choose the context of the linked cluster")
	case !o.revoke && o.linkedContext != "":
		return cli.Usagef("--context selects the linked cluster and needs --revoke: " +
			"select the local cluster with --to-context")
	}
	return o.Target.Check()
}

func (o *unlinkOptions) run(ctx context.Context, p cli.Process) error {
	if err := o.check(p); err != nil {
		return err
	}
	local, err := open(o.Options)
	if err != nil {
		return err
	}
	defer local.Close()
	var linked *cluster
	if o.revoke {
		if linked, err = open(reach.Options{Kubeconfig: o.Kubeconfig, Context: o.linkedContext}); err != nil {
			return err
		}
		defer linked.Close()
	}
	return o.unlink(ctx, &work{p: p, out: p.Stdout, dry: o.dryRun}, local, linked)
}

// unlink deletes the link first, so that no replica uses revoked credentials.
func (o *unlinkOptions) unlink(ctx context.Context, w *work, local, linked *cluster) error {
	var links []corev1.Secret
	var r *revocation
	err := w.within(ctx, o.Timeout, "reading the clusters", func(ctx context.Context) (err error) {
		links, r, err = o.read(ctx, local, linked)
		return err
	})
	if err != nil {
		return err
	}
	if len(links) > 0 {
		o.showImpact(ctx, w)
	}
	if !o.yes && !o.dryRun {
		if err := w.p.Confirm(ctx, o.question(local, linked, links)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	for _, s := range links {
		remove := local.API.Secrets(s.Namespace).Delete
		if err := deleteObject(ctx, w, local, "link Secret "+key(&s), &s, remove); err != nil {
			return err
		}
	}
	return r.run(ctx, w)
}

// showImpact shows which endpoints each service would keep without the link, and warns about
// services that would lose all endpoints. showImpact never prevents the deletion of the link, even
// if no replica responds.
func (o *unlinkOptions) showImpact(ctx context.Context, w *work) {
	limit := min(o.Timeout, impactTimeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	replicas, err := foresee(ctx, w, &o.Target, o.name, adminapi.Withdrawn)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		who := "not every replica"
		if len(replicas) == 0 {
			who = "no replica"
		}
		err = fmt.Errorf("%s responded within %v", who, limit)
	}
	if err != nil {
		w.warn("the effect on services is unknown: %v", err)
	}
	if len(replicas) == 0 {
		return
	}
	list := impacts(replicas)
	showImpacts(w, list, o.name, titleWithout, false)
	var names []string
	for _, i := range bare(list) {
		if name := commands.Printable(i.Service); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		w.warn("%s no endpoints left: %s",
			text.Count(len(names), "service would have", "services would have"), text.Some(names, maxShown))
	}
}

func (o *unlinkOptions) read(
	ctx context.Context, local, linked *cluster,
) (links []corev1.Secret, r *revocation, err error) {
	all, err := listLinks(ctx, local, o.Namespace)
	if err != nil {
		return nil, nil, err
	}
	links = linksNamed(all, o.name)
	if len(links) > 0 {
		if err := local.require(ctx, localPermissions(o.Namespace, "delete")); err != nil {
			return nil, nil, err
		}
	}
	if o.revoke {
		if r, err = o.readThere(ctx, local, linked, links); err != nil {
			return nil, nil, err
		}
	}
	if len(links) == 0 && (r == nil || len(r.tokens) == 0) {
		return nil, nil,
			fmt.Errorf("%s: no link Secret for %q in namespace %s (-n, --to-context)", local.title, o.name, o.Namespace)
	}
	return links, r, nil
}

func (o *unlinkOptions) readThere(
	ctx context.Context, local, linked *cluster, links []corev1.Secret,
) (*revocation, error) {
	if err := identify(ctx, local, linked); err != nil {
		return nil, err
	}
	for _, s := range links {
		if uid := s.Annotations[clusterAnnotation]; uid != "" && uid != string(linked.uid) {
			return nil, fmt.Errorf("%s is not the cluster that Secret %s links to: "+
				"set --context to the context of the linked cluster",
				linked.title, key(&s))
		}
	}
	return newRevocation(ctx, linked, chooseAccount(o.account, links),
		linkKey{link: o.name, namespace: o.Namespace, by: local.uid})
}

func (o *unlinkOptions) question(local, linked *cluster, links []corev1.Secret) string {
	text := fmt.Sprintf("Unlink %s from %s? "+
		"All endpoints in the unlinked cluster are removed from all services immediately.", o.name, local.title)
	if len(links) == 0 {
		text = fmt.Sprintf("There is no link %s in %s.", o.name, local.title)
	}
	if linked != nil {
		text += " Its tokens in " + linked.title + " become invalid."
	}
	return text
}

type revocation struct {
	linked  *cluster
	account types.NamespacedName
	tokens  []corev1.Secret // tokens of the link
	others  []string        // names of all other Secrets with a token of the account
}

func newRevocation(
	ctx context.Context, linked *cluster, account types.NamespacedName, of linkKey,
) (*revocation, error) {
	if err := linked.require(ctx, revokePermissions(account.Namespace)); err != nil {
		return nil, err
	}
	r := &revocation{linked: linked, account: account}
	all, err := accountTokens(ctx, linked, account)
	if err != nil {
		return nil, err
	}
	mine := of.labels().AsSelector()
	for _, s := range all {
		if mine.Matches(labels.Set(s.Labels)) {
			r.tokens = append(r.tokens, s)
		} else {
			r.others = append(r.others, commands.Printable(s.Name))
		}
	}
	return r, nil
}

// accountTokens returns the Secrets that contain a token of an account, without duplicates. Token
// Secrets that were created by hand have the type kubernetes.io/service-account-token. Secrets that
// contain a token with an expiry time have the type Opaque and the label that "isthmus link" sets.
func accountTokens(
	ctx context.Context, linked *cluster, account types.NamespacedName,
) (found []corev1.Secret, err error) {
	for _, which := range []metav1.ListOptions{
		{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)},
		{LabelSelector: managedByLabel + "=" + managedBy},
	} {
		all, err := clusterstore.ListSecrets(ctx, linked.API, account.Namespace, which)
		if err != nil {
			return nil, linked.failed("list the token Secrets in namespace "+account.Namespace, err)
		}
		for _, s := range all {
			if s.Annotations[corev1.ServiceAccountNameKey] == account.Name {
				found = append(found, s)
			}
		}
	}
	slices.SortFunc(found, func(a, b corev1.Secret) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(found, func(a, b corev1.Secret) bool { return a.Name == b.Name }), nil
}

// run deletes the tokens, the account, and the account's permissions. If another Secret contains a
// token for the account, run keeps the account and its permissions, because another link may use
// that token. run also keeps objects that "isthmus link" did not create.
func (r *revocation) run(ctx context.Context, w *work) error {
	if r == nil {
		return nil
	}
	if err := deleteTokens(ctx, w, r.linked, r.tokens); err != nil {
		return err
	}
	if len(r.others) > 0 {
		fmt.Fprintf(w.out, "%s: kept ServiceAccount %s and its permissions, "+
			"because another link may use the account's %s (Secret %s)\n",
			r.linked.title, r.account, text.Count(len(r.others), "other token", "other tokens"),
			text.Some(r.others, maxShown))
		return nil
	}
	api, name := r.linked.API, r.account.Name
	if err := revoke(ctx, w, r.linked, api.ClusterRoleBindings(), "ClusterRoleBinding "+name, name); err != nil {
		return err
	}
	if err := revoke(ctx, w, r.linked, api.ClusterRoles(), "ClusterRole "+name, name); err != nil {
		return err
	}
	return revoke(ctx, w, r.linked, api.ServiceAccounts(r.account.Namespace), "ServiceAccount "+r.account.String(),
		name)
}

// revoke deletes an object if the object exists and "isthmus link" created it.
func revoke[T metav1.Object](ctx context.Context, w *work, c *cluster, of resource[T], title, name string) error {
	o, err := of.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return c.failed("read "+title, err)
	case !managed(o):
		fmt.Fprintf(w.out, "%s: kept %s, because it was not created by isthmus link\n", c.title, title)
		return nil
	}
	return deleteObject(ctx, w, c, title, o, of.Delete)
}

const unlinkIntro = `isthmus unlink removes a link. Isthmus drops the cluster's endpoints immediately. With --revoke,
the command then deletes the objects that isthmus link created in the linked cluster: the
link's tokens, the ServiceAccount and its permissions. The ServiceAccount stays while any
other Secret contains one of its tokens, because another link may use that token.

Usage: isthmus unlink NAME [FLAGS]`

const unlinkEnding = `Like isthmus cordon, the command first shows which endpoints each service keeps, and names
services that lose all endpoints. If no replica responds within 10 s, the command prints a
warning instead. It then asks for confirmation, but never refuses. If standard input is not
a terminal, --yes is required.

Objects that isthmus link did not create stay in the linked cluster. An API server may
accept a deleted token for another ten seconds or so.

Required permissions: list and delete secrets in the namespace of the links. To show the
effect on services without --admin, also list pods and create pods/portforward there.
--revoke needs get on namespace kube-system in both clusters. In the linked cluster, it also
needs list and delete on secrets and get and delete on serviceaccounts in the account's
namespace, and get and delete on clusterroles and clusterrolebindings.

The exit code is 1 if there is no such link, or if a step fails. Another run completes the
remaining steps.

Examples:
  isthmus unlink east
  isthmus unlink east --revoke --context east --dry-run
  isthmus unlink east --revoke --context east --to-context west --yes`
