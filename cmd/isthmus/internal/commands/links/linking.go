package links

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/commands"
)

// linking is what "isthmus link" has found out before it changes anything.
type linking struct {
	o           *linkOptions
	here, there *cluster
	access      *access
	linkKey     linkKey
	existing    *corev1.Secret  // the link as it is; nil: there is none
	before      []corev1.Secret // Secrets of its tokens
	content     content
	unsure      bool // the link Secret may have been written, though that has failed
}

// link makes or renews the link: first the account, then its token, and the link Secret
// last. Tokens that are there end only once the new one is in use.
func (o *linkOptions) link(ctx context.Context, w *work, here, there *cluster) error {
	l := &linking{o: o, here: here, there: there}
	if err := w.wait("reading both clusters", func() error { return l.read(ctx, w) }); err != nil {
		return err
	}
	if err := l.access.ensure(ctx, w, there); err != nil {
		return err
	}
	made, err := l.access.newToken(ctx, w, there, l.linkKey, o.duration)
	if err != nil {
		return err
	}
	l.content.token = made
	written, err := l.deliver(ctx, w)
	switch {
	case err == nil:
	case l.unsure:
		w.warn("the link Secret may have been written all the same, so its new token stays: run this again, it deletes what is not used")
		return err
	default:
		l.access.dropToken(ctx, w, there, made)
		return err
	}
	if !made.expires.IsZero() {
		fmt.Fprintf(w.p.Stderr, "%s: the token expires at %s: run this again before\n", w.p.Name, made.expires.UTC().Format(time.RFC3339))
	}
	return l.finish(ctx, w, written)
}

// read reads both clusters, and refuses what can't be.
func (l *linking) read(ctx context.Context, w *work) (err error) {
	o, here, there := l.o, l.here, l.there
	if err := identify(ctx, here, there); err != nil {
		return err
	}
	var all []corev1.Secret
	if l.existing, all, err = findLink(ctx, here, o.Namespace, o.name); err != nil {
		return err
	}
	if err := checkCluster(here, there, o.name, l.existing, all); err != nil {
		return err
	}
	warnOfClashes(w, o.name, all)
	l.content = content{link: o.name, cluster: there.uid, account: chooseAccount(o.account, named(all, o.name)), server: o.chooseServer(there, l.existing), ranges: o.ranges, network: o.network}
	l.access = newAccess(l.content.account)
	if err := there.require(ctx, remotePermissions(l.access, o.duration > 0)); err != nil {
		return err
	}
	if o.apply {
		if err := here.require(ctx, localPermissions(o.Namespace, "create update")); err != nil {
			return err
		}
	}
	d := o.chooseDomains(ctx, w, there, l.existing)
	l.content.trustDomain, l.content.clusterDomain = d.trust, d.cluster
	l.linkKey = linkKey{link: o.name, namespace: o.Namespace, by: here.uid}
	if l.before, err = l.linkKey.tokens(ctx, there, l.content.account.Namespace); err != nil {
		return err
	}
	return l.preview(w)
}

// preview checks the link with a token that stands for the one to come, so that nothing
// is made for a link that can't be.
func (l *linking) preview(w *work) error {
	s := l.content.server
	if s.loopback() {
		w.warn("the API server's address is %s, which is your own machine: the gateway can't reach it there, unless it runs on this machine (--server)", s)
	}
	if l.there.kube.Proxy != nil && l.o.server == "" {
		w.warn("you reach %s through a proxy, which a link can't have: the gateway has to reach %s without (--server)", l.there.title, s)
	}
	with := l.content
	with.token.text = placeholder
	secret, err := with.into(l.existing, l.o.Namespace)
	if err != nil {
		return err
	}
	_, warnings, err := clusterstore.CheckLink(secret)
	if err != nil {
		return fmt.Errorf("the gateway would not use this link: %w", err)
	}
	for _, warning := range warnings {
		w.warn("%s", warning)
	}
	return nil
}

// deliver tries the link, and writes or prints its Secret.
func (l *linking) deliver(ctx context.Context, w *work) (written *corev1.Secret, err error) {
	secret, err := l.content.into(l.existing, l.o.Namespace)
	if err != nil {
		return nil, err
	}
	if !w.dry {
		if err := w.wait("trying the link's credentials", func() error { return l.content.try(ctx, w, secret) }); err != nil {
			return nil, err
		}
		if ctx.Err() != nil { // nothing is written then
			return nil, l.here.failed("write the link", ctx.Err())
		}
	}
	if !l.o.apply {
		return nil, printSecret(w.p.Stdout, printed(secret), l.o.output)
	}
	verb := "create"
	if l.existing != nil {
		verb = "update"
	}
	err = w.do(ctx, l.here, verb, "link Secret "+key(secret), func(ctx context.Context) error {
		written, err = l.content.write(ctx, l.here, l.o.Namespace, l.existing)
		l.unsure = mayBeDone(err)
		return err
	})
	return written, err
}

// mayBeDone reports whether a write that has failed may have been done all the same: the
// API server has not answered, or its answer leaves that open.
func mayBeDone(err error) bool {
	if err == nil || errors.Is(err, errChanged) {
		return false
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable:
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

// finish deletes the tokens that nothing uses.
func (l *linking) finish(ctx context.Context, w *work, written *corev1.Secret) error {
	o := l.o
	if !o.apply || !o.wait {
		return l.deleteSuperseded(ctx, w)
	}
	if w.dry {
		fmt.Fprintf(w.out, "%s: would wait until the gateway reads %s with the new token\n", l.here.title, o.name)
		return deleteTokens(ctx, w, l.there, l.before)
	}
	if before, err := o.awaitLink(ctx, w, l.here, written); err != nil {
		return l.unfinished(ctx, w, written, before, err)
	}
	fmt.Fprintf(w.out, "%s: the gateway reads %s: ready\n", l.here.title, o.name)
	return deleteTokens(ctx, w, l.there, l.before)
}

// unfinished returns the error for a link that is not known to work. before: every gateway reads the cluster with
// the token before: then the link becomes what it was, and the new token ends.
func (l *linking) unfinished(ctx context.Context, w *work, written *corev1.Secret, before bool, err error) error {
	const again = "See isthmus clusters, and run this again once that is corrected"
	if before && l.existing != nil && l.restore(ctx, w, written) {
		l.access.dropToken(ctx, w, l.there, l.content.token)
		return fmt.Errorf("the link is as it was, and the new token is deleted: %w\n  %s", err, again)
	}
	left := ""
	if len(l.before) > 0 {
		left = "; the tokens before it stay valid"
	}
	return fmt.Errorf("the link is written%s, but it is not known to work: %w\n  %s; --wait=false does not ask the gateway", left, err, again)
}

// restore writes the link Secret as it was, and reports whether that is done: not if somebody else has changed it.
func (l *linking) restore(ctx context.Context, w *work, written *corev1.Secret) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	was := l.existing.DeepCopy()
	was.ResourceVersion = written.ResourceVersion
	err := w.do(ctx, l.here, "restore", "link Secret "+key(was), func(ctx context.Context) error {
		_, err := l.here.API.Secrets(was.Namespace).Update(ctx, was, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		w.warn("%v", err)
	}
	return err == nil
}

// deleteSuperseded deletes the tokens that are older than the one that the link had until
// now, which the gateway still uses.
func (l *linking) deleteSuperseded(ctx context.Context, w *work) error {
	if len(l.before) == 0 {
		return nil
	}
	fmt.Fprintf(w.p.Stderr, "%s: tokens before this one stay valid: isthmus link %s --apply deletes them once the gateway uses the new one\n", w.p.Name, l.o.name)
	if l.existing == nil {
		return nil
	}
	inUse := slices.IndexFunc(l.before, func(s corev1.Secret) bool { return s.Name == l.existing.Annotations[tokenAnnotation] })
	return deleteTokens(ctx, w, l.there, l.before[:max(inUse, 0)])
}
