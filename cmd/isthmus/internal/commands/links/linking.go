package links

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/check"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/local/exports/plan"
)

// linking is the state of one run of "isthmus link". The command reads most of the state before it
// changes anything.
type linking struct {
	o             *linkOptions
	local, linked *cluster
	access        *remoteAccess
	linkKey       linkKey
	existing      *corev1.Secret  // the existing link; nil if there is none
	before        []corev1.Secret // Secrets of older tokens
	content       linkContent
	unsure        bool // a failed write may have written the link Secret
}

// read reads both clusters and returns an error if the link is invalid.
func (l *linking) read(ctx context.Context, w *work) (err error) {
	o := l.o
	local := l.local
	linked := l.linked
	if err := identify(ctx, local, linked); err != nil {
		return err
	}
	var all []corev1.Secret
	if l.existing, all, err = findLink(ctx, local, o.Namespace, o.name); err != nil {
		return err
	}
	if err := checkCluster(local, linked, o.name, l.existing, all); err != nil {
		return err
	}
	warnOfClashes(w, o.name, all)
	l.content = linkContent{
		link: o.name, cluster: linked.uid,
		account: chooseAccount(o.account, linksNamed(all, o.name)),
		server:  o.chooseServer(linked, l.existing),
		ranges:  o.ranges, network: o.network,
	}
	l.access = newRemoteAccess(l.content.account)
	if err := linked.require(ctx, remotePermissions(l.access, o.duration > 0)); err != nil {
		return err
	}
	if o.apply {
		if err := local.require(ctx, localPermissions(o.Namespace, "create update")); err != nil {
			return err
		}
	}
	d := o.chooseDomains(ctx, w, linked, l.existing)
	l.content.trustDomain = d.trust
	l.content.clusterDomain = d.cluster
	l.linkKey = linkKey{link: o.name, namespace: o.Namespace, by: local.uid}
	if l.before, err = l.linkKey.tokens(ctx, linked, l.content.account.Namespace); err != nil {
		return err
	}
	return l.preview(w)
}

// preview validates the link with a placeholder for the token, so that nothing is created for an
// invalid link.
func (l *linking) preview(w *work) error {
	s := l.content.server
	if s.loopback() {
		w.warn("the API server's address %s belongs to your own machine: "+
			"replicas on other machines cannot reach this address (--server)", s)
	}
	if l.linked.kube.Proxy != nil && l.o.server == "" {
		w.warn("you reach %s through a proxy, but links cannot use proxies: replicas must reach %s directly (--server)",
			l.linked.title, s)
	}
	with := l.content
	with.token.text = placeholder
	secret, err := with.toSecret(l.existing, l.o.Namespace)
	if err != nil {
		return err
	}
	readExports := func(annotations map[string]string) (any, []string) {
		return plan.LinkSettings{}.Read(annotations)
	}
	_, warnings, err := clusterstore.CheckLink(secret, readExports)
	if err != nil {
		return fmt.Errorf("replicas would not use this link: %w", err)
	}
	for _, warning := range warnings {
		w.warn("%s", warning)
	}
	return nil
}

// deliver tests the credentials, and then writes or prints the link Secret.
func (l *linking) deliver(ctx context.Context, w *work) (written *corev1.Secret, err error) {
	secret, err := l.content.toSecret(l.existing, l.o.Namespace)
	if err != nil {
		return nil, err
	}
	if !w.dry {
		try := func() error { return l.content.try(ctx, w, secret) }
		if err := w.wait("testing the link's credentials", try); err != nil {
			return nil, err
		}
		if ctx.Err() != nil { // write nothing
			return nil, l.local.failed("write the link", ctx.Err())
		}
	}
	if !l.o.apply {
		return nil, printSecret(w.p.Stdout, printed(secret), l.o.output)
	}
	verb := "create"
	if l.existing != nil {
		verb = "update"
	}
	err = w.do(ctx, l.local, verb, "link Secret "+key(secret), func(ctx context.Context) error {
		written, err = l.content.write(ctx, l.local, l.o.Namespace, l.existing)
		l.unsure = mayBeDone(err)
		return err
	})
	return written, err
}

// mayBeDone reports whether a write may have succeeded even though the request returned an error.
// A write may have succeeded if the API server has not responded or the response leaves the outcome
// open.
func mayBeDone(err error) bool {
	if err == nil || errors.Is(err, errChanged) {
		return false
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable:
		return true
	}
	return false
}

func printSecret(w io.Writer, s *corev1.Secret, format string) (err error) {
	var text []byte
	if format == "json" {
		text, err = commands.JSONLine(s)
	} else {
		text, err = yaml.Marshal(s)
	}
	if err != nil {
		return fmt.Errorf("print the Secret: %w", err)
	}
	_, err = w.Write(text)
	return err
}

// finish waits for the replicas and deletes unused tokens.
func (l *linking) finish(ctx context.Context, w *work, written *corev1.Secret) error {
	o := l.o
	if !o.apply || !o.wait {
		return l.deleteSuperseded(ctx, w)
	}
	if w.dry {
		fmt.Fprintf(w.out, "%s: would wait until every replica reads %s with the new token\n", l.local.title, o.name)
		return deleteTokens(ctx, w, l.linked, l.before)
	}
	if before, err := o.awaitLink(ctx, w, l.local, written); err != nil {
		return l.unfinished(ctx, w, written, before, err)
	}
	fmt.Fprintf(w.out, "%s: every replica reads %s: ready\n", l.local.title, o.name)
	return deleteTokens(ctx, w, l.linked, l.before)
}

// unfinished returns the error for a link that replicas may not be able to use. If the previous
// credentials still work, the method also restores the previous link and deletes the new token.
func (l *linking) unfinished(ctx context.Context, w *work, written *corev1.Secret, before bool, err error) error {
	const again = "Run isthmus clusters to see the problem, correct it, and run this command again"
	if before && l.existing != nil && l.restore(ctx, w, written) {
		l.access.dropToken(ctx, w, l.linked, l.content.token)
		return fmt.Errorf("the previous link was restored, and the new token was deleted: %w\n  %s", err, again)
	}
	left := ""
	if len(l.before) > 0 {
		left = ", and older tokens stay valid"
	}
	return fmt.Errorf("the link was written%s, but it may not work: %w\n  %s; --wait=false skips this check",
		left, err, again)
}

// restore writes the previous link Secret and reports whether the write succeeded. restore fails if
// the Secret has changed in the meantime.
func (l *linking) restore(ctx context.Context, w *work, written *corev1.Secret) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	was := l.existing.DeepCopy()
	was.ResourceVersion = written.ResourceVersion
	err := w.do(ctx, l.local, "restore", "link Secret "+key(was), func(ctx context.Context) error {
		_, err := l.local.API.Secrets(was.Namespace).Update(ctx, was, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		w.warn("%v", err)
	}
	return err == nil
}

// deleteSuperseded deletes the tokens that are older than the token of the existing link. Replicas
// still use the token of the existing link.
func (l *linking) deleteSuperseded(ctx context.Context, w *work) error {
	if len(l.before) == 0 {
		return nil
	}
	fmt.Fprintf(w.p.Stderr, "%s: older tokens stay valid: "+
		"isthmus link %s --apply deletes the older tokens once every replica uses the new token\n", w.p.Name, l.o.name)
	if l.existing == nil {
		return nil
	}
	inUse := slices.IndexFunc(l.before,
		func(s corev1.Secret) bool { return s.Name == l.existing.Annotations[tokenAnnotation] })
	return deleteTokens(ctx, w, l.linked, l.before[:max(inUse, 0)])
}

func checkNewName(name string) error {
	if name == "local" {
		return cli.Usagef(`NAME is "local", which stands for the local cluster: choose another name`)
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 || len(name) > validation.LabelValueMaxLength {
		return cli.Usagef("NAME is %q: it must consist of at most %d lowercase letters, digits, '-' and '.', "+
			"starting and ending with a letter or digit", name, validation.LabelValueMaxLength)
	}
	return nil
}

func listLinks(ctx context.Context, local *cluster, namespace string) ([]corev1.Secret, error) {
	list, err := clusterstore.ListSecrets(ctx, local.API, namespace, clusterstore.AllLinks)
	if err != nil {
		return nil, local.failed("list link Secrets in namespace "+namespace, err)
	}
	return list, nil
}

func linksNamed(list []corev1.Secret, name string) (of []corev1.Secret) {
	for _, s := range list {
		if s.Labels[clusterstore.ClusterNameLabel] == name {
			of = append(of, s)
		}
	}
	return of
}

// findLink returns the Secret of the given link, and a list of all link Secrets. If the link does
// not exist yet, the first result is nil. If another Secret conflicts with the link, findLink
// returns an error.
func findLink(
	ctx context.Context, local *cluster, namespace, name string,
) (existing *corev1.Secret, all []corev1.Secret, err error) {
	existing, err = local.API.Secrets(namespace).Get(ctx, secretName(name), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		existing = nil
	case err != nil:
		return nil, nil, local.failed("read Secret "+namespace+"/"+secretName(name), err)
	case existing.Type != clusterstore.SecretType:
		return nil, nil,
			fmt.Errorf("%s: Secret %s already exists, but its type is %s, so it is not a link: "+
				"delete it, or choose another NAME",
				local.title, key(existing), commands.Printable(string(existing.Type)))
	case existing.Labels[clusterstore.ClusterNameLabel] != name:
		return nil, nil,
			fmt.Errorf("%s: Secret %s is labeled as the link to cluster %s (label %s): "+
				"delete it, or choose another NAME",
				local.title, key(existing), commands.Printable(existing.Labels[clusterstore.ClusterNameLabel]),
				clusterstore.ClusterNameLabel)
	}
	if all, err = listLinks(ctx, local, namespace); err != nil {
		return nil, nil, err
	}
	for _, s := range linksNamed(all, name) {
		if s.Name != secretName(name) {
			return nil, nil,
				fmt.Errorf("%s: %s is already linked by Secret %s: delete that Secret, or choose another NAME; "+
					"isthmus unlink %s deletes all Secrets of the link", local.title, name, key(&s), name)
		}
	}
	return existing, all, nil
}

// checkCluster returns an error if the link would connect a cluster to itself, give a linked
// cluster a second name, or overwrite a link that connects a different cluster.
func checkCluster(local, linked *cluster, name string, existing *corev1.Secret, all []corev1.Secret) error {
	if local.uid == linked.uid {
		return fmt.Errorf("%s and %s are the same cluster: Isthmus reads the local cluster without a link",
			local.title, linked.title)
	}
	if existing != nil {
		if before := existing.Annotations[clusterAnnotation]; before != "" && before != string(linked.uid) {
			return fmt.Errorf("link %s already exists for a cluster other than %s: "+
				"remove that link first (isthmus unlink %s), or choose another NAME", name, linked.title, name)
		}
	}
	for _, s := range all {
		other := s.Labels[clusterstore.ClusterNameLabel]
		if other == name {
			continue
		}
		same := s.Annotations[clusterAnnotation] == string(linked.uid)
		if config := linkConfig(&s); config != nil && s.Annotations[clusterAnnotation] == "" {
			same = sameServer(config.Host, linked.kube.Host)
		}
		if same {
			return fmt.Errorf("the cluster that %s points to is already linked as %s by Secret %s, "+
				"so the cluster's endpoints would be counted twice: "+
				"run isthmus link %s, or remove that link first (isthmus unlink %s)",
				linked.title, commands.Printable(other), key(&s), nameArgument(other), nameArgument(other))
		}
	}
	return nil
}

// warnOfClashes warns if mirrors of the new link may have the same names as mirrors of another
// link.
func warnOfClashes(w *work, name string, all []corev1.Secret) {
	for _, s := range all {
		other := s.Labels[clusterstore.ClusterNameLabel]
		for _, text := range check.NameClashes([]string{name, other}) {
			w.warn("%s", commands.Printable(text))
		}
	}
}

// nameArgument returns the name of a link as an argument for a suggested command. Names with
// control characters are quoted, because a name can come from any user.
func nameArgument(name string) string {
	if name == "" || strings.HasPrefix(name, "-") {
		return "NAME"
	}
	return commands.Printable(name)
}
