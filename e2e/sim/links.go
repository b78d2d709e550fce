package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"isthmus/e2e/harness/kube"
	"isthmus/internal/spec"
)

// link is the Secrets that link a cluster, and what the gateway must do with them.
type link struct {
	secrets  []secret // oldest first
	accepted string   // the Secret in use; empty: it is not linked
	settled  bool     // the gateway is known to serve it
	current  bool     // and by the credentials that are in the Secret now
	made     int      // Secrets and tokens so far
	old      []string // tokens that are in no Secret any more
}

type secret struct {
	name, token string
	bad         bool              // it can't be used: the one that it was before stays in use
	wrong       bool              // its token is let in nowhere
	annotations map[string]string // nil: those that it has already
}

// linkSteps change the links of a cluster that is not the local one.
var linkSteps = []step{
	{"unlink", 4, func(w *world, c *cluster, _ string) string { return unlink(w, c) }},
	{"link", 8, func(w *world, c *cluster, _ string) string { return relink(w, c) }},
	{"rotate", 6, func(w *world, c *cluster, _ string) string { return rotate(w, c) }},
	{"revoke old tokens", 3, func(w *world, c *cluster, _ string) string { return revoke(w, c) }},
	{"spoil the Secret", 3, func(w *world, c *cluster, _ string) string { return spoil(w, c) }},
	{"wrong token", 3, func(w *world, c *cluster, _ string) string { return mistake(w, c) }},
	{"second Secret", 3, func(w *world, c *cluster, _ string) string { return secondSecret(w, c) }},
	{"older Secret goes", 3, func(w *world, c *cluster, _ string) string { return takeOver(w, c) }},
}

// write brings a Secret into the local cluster.
func write(w *world, c *cluster, s secret) {
	kubeconfig, err := c.api.Kubeconfig(c.proxy.Addr(), s.token)
	w.err = errors.Join(w.err, err)
	if s.bad {
		kubeconfig = []byte("{")
	}
	i := slices.IndexFunc(c.link.secrets, func(x secret) bool { return x.name == s.name })
	if i >= 0 && s.annotations == nil {
		s.annotations = c.link.secrets[i].annotations
	}
	o := kube.Link(c.name, kubeconfig)
	o.Name = s.name
	maps.Copy(o.Annotations, s.annotations)
	if i >= 0 {
		if s.token != c.link.secrets[i].token {
			c.link.old = append(c.link.old, c.link.secrets[i].token)
		}
		c.link.secrets[i] = s
	} else {
		c.link.secrets = append(c.link.secrets, s)
	}
	c.link.settled = c.link.settled && c.link.accepted != ""
	c.link.current = false
	accept(c)
	w.put(w.clusters[0], "", o)
}

// settle notes that the gateway uses the Secrets as they are now.
func (l *link) settle() {
	l.settled = l.accepted != ""
	l.current = l.settled && l.good()
}

// good reports whether the gateway can use all Secrets.
func (l *link) good() bool {
	return !slices.ContainsFunc(l.secrets, func(s secret) bool { return s.bad || s.wrong })
}

// accept notes which Secret the gateway uses, after a change of the Secrets.
func accept(c *cluster) {
	var list []spec.LinkSecret
	for _, s := range c.link.secrets {
		list = append(list, spec.LinkSecret{Name: s.name, Usable: !s.bad})
	}
	c.link.accepted = spec.UsedSecret(list, c.link.accepted)
}

func remove(w *world, c *cluster, i int) {
	o := &corev1.Secret{}
	o.Namespace, o.Name = kube.LinkNamespace, c.link.secrets[i].name
	c.link.old = append(c.link.old, c.link.secrets[i].token)
	c.link.secrets = slices.Delete(c.link.secrets, i, i+1)
	c.link.settled, c.link.current = false, false
	accept(c)
	w.delete(w.clusters[0], "", o)
}

// token returns a new one, which is let in.
func token(c *cluster) string {
	c.link.made++
	token := fmt.Sprintf("%s-%d", c.name, c.link.made)
	c.api.Admit(token)
	return token
}

func unlink(w *world, c *cluster) string {
	if len(c.link.secrets) == 0 || !w.chance(3) {
		return ""
	}
	for len(c.link.secrets) > 0 {
		remove(w, c, 0)
	}
	return "unlinked"
}

func relink(w *world, c *cluster) string {
	if len(c.link.secrets) > 0 {
		return ""
	}
	write(w, c, secret{name: "link-" + c.name, token: token(c)})
	return "linked"
}

// rotate writes new credentials that work, and so corrects what is wrong with the Secret.
func rotate(w *world, c *cluster) string {
	if len(c.link.secrets) == 0 {
		return ""
	}
	s := c.link.secrets[0]
	write(w, c, secret{name: s.name, token: token(c)})
	return s.name + " rotated"
}

// revoke takes away tokens that are in no Secret, once the gateway has others.
func revoke(w *world, c *cluster) string {
	l := &c.link
	if !l.current || len(l.old) == 0 {
		return ""
	}
	for _, token := range l.old {
		c.api.Revoke(token)
	}
	trouble(w, c)
	c.api.CutWatches()
	old := l.old
	l.old = nil
	return "revoked " + strings.Join(old, " ")
}

// spoil makes a Secret one that can't be used.
func spoil(w *world, c *cluster) string { return damage(w, c, secret{bad: true}) }

// mistake writes credentials that are let in nowhere.
func mistake(w *world, c *cluster) string { return damage(w, c, secret{wrong: true}) }

// damage makes the only Secret one that does not work. The gateway knows the one before.
func damage(w *world, c *cluster, how secret) string {
	if !c.link.settled || len(c.link.secrets) != 1 {
		return ""
	}
	how.name = c.link.secrets[0].name
	c.link.made++
	how.token = fmt.Sprintf("%s-wrong-%d", c.name, c.link.made)
	write(w, c, how)
	return how.name + " does not work any more"
}

// secondSecret makes another Secret for the cluster, which is not used while the first one is.
func secondSecret(w *world, c *cluster) string {
	if len(c.link.secrets) != 1 || c.link.secrets[0].bad || c.link.secrets[0].wrong {
		return ""
	}
	c.link.made++
	s := secret{name: fmt.Sprintf("link-%s-%d", c.name, c.link.made), token: token(c)}
	write(w, c, s)
	return s.name + " besides " + c.link.secrets[0].name
}

// takeOver deletes the first of two Secrets: the other takes over.
func takeOver(w *world, c *cluster) string {
	if len(c.link.secrets) != 2 {
		return ""
	}
	gone := c.link.secrets[0].name
	remove(w, c, 0)
	return gone + " deleted, there is " + c.link.secrets[0].name
}
