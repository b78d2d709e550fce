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

// link describes the Secrets that link a cluster, and which of them Isthmus must use.
type link struct {
	secrets  []secret // oldest first
	accepted string   // the Secret in use; empty if the cluster is not linked
	settled  bool     // Isthmus is known to serve the cluster
	current  bool     // Isthmus is known to use the credentials that the Secret has now
	made     int      // number of Secrets and tokens so far
	old      []string // tokens that no Secret contains any more
}

type secret struct {
	name, token string
	bad         bool              // unusable: Isthmus keeps using the previous version
	wrong       bool              // no API server accepts the token
	annotations map[string]string // nil keeps the current annotations
}

// linkSteps change the links of a linked cluster.
var linkSteps = []step{
	{"unlink", 4, func(w *world, c *cluster, _ string) string { return unlink(w, c) }},
	{"link", 8, func(w *world, c *cluster, _ string) string { return relink(w, c) }},
	{"rotate", 6, func(w *world, c *cluster, _ string) string { return rotate(w, c) }},
	{"revoke old tokens", 3, func(w *world, c *cluster, _ string) string { return revoke(w, c) }},
	{"break the Secret", 3, func(w *world, c *cluster, _ string) string { return spoil(w, c) }},
	{"wrong token", 3, func(w *world, c *cluster, _ string) string { return mistake(w, c) }},
	{"second Secret", 3, func(w *world, c *cluster, _ string) string { return secondSecret(w, c) }},
	{"delete the older Secret", 3, func(w *world, c *cluster, _ string) string { return takeOver(w, c) }},
}

// write creates or updates a Secret in the local cluster.
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

// settle notes that Isthmus uses the current Secrets.
func (l *link) settle() {
	l.settled = l.accepted != ""
	l.current = l.settled && l.good()
}

// good reports whether Isthmus can use all Secrets.
func (l *link) good() bool {
	return !slices.ContainsFunc(l.secrets, func(s secret) bool { return s.bad || s.wrong })
}

// accept updates which Secret Isthmus uses, after a change of the Secrets.
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

// token returns a new token that the API server accepts.
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

// rotate writes new credentials, which also repairs a broken Secret.
func rotate(w *world, c *cluster) string {
	if len(c.link.secrets) == 0 {
		return ""
	}
	s := c.link.secrets[0]
	write(w, c, secret{name: s.name, token: token(c)})
	return s.name + " rotated"
}

// revoke invalidates the tokens that no Secret contains, once Isthmus uses newer ones.
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

// spoil makes a Secret unusable.
func spoil(w *world, c *cluster) string { return damage(w, c, secret{bad: true}) }

// mistake writes credentials that no API server accepts.
func mistake(w *world, c *cluster) string { return damage(w, c, secret{wrong: true}) }

// damage breaks the only Secret of a cluster. Isthmus already uses the previous version.
func damage(w *world, c *cluster, how secret) string {
	if !c.link.settled || len(c.link.secrets) != 1 {
		return ""
	}
	how.name = c.link.secrets[0].name
	c.link.made++
	how.token = fmt.Sprintf("%s-wrong-%d", c.name, c.link.made)
	write(w, c, how)
	return how.name + " no longer works"
}

// secondSecret creates a second Secret for a cluster. Isthmus keeps using the first one.
func secondSecret(w *world, c *cluster) string {
	if len(c.link.secrets) != 1 || c.link.secrets[0].bad || c.link.secrets[0].wrong {
		return ""
	}
	c.link.made++
	s := secret{name: fmt.Sprintf("link-%s-%d", c.name, c.link.made), token: token(c)}
	write(w, c, s)
	return s.name + " besides " + c.link.secrets[0].name
}

// takeOver deletes the first of two Secrets, so that Isthmus uses the second one.
func takeOver(w *world, c *cluster) string {
	if len(c.link.secrets) != 2 {
		return ""
	}
	gone := c.link.secrets[0].name
	remove(w, c, 0)
	return gone + " deleted, remaining: " + c.link.secrets[0].name
}
