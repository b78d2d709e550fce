package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/harness/kube"
	"isthmus/internal/spec"
)

// Annotations of a link Secret that decide how far the cluster is used.
const (
	cordonKey     = "isthmus.io/cordon"
	cordonOverKey = "isthmus.io/cordon-over"
	whenLostKey   = "isthmus.io/when-lost"
	lostAfterKey  = "isthmus.io/lost-after"
	regionKey     = "isthmus.io/region"
)

var (
	cordons = map[string]spec.Standing{
		"false":       spec.InService,
		"last-resort": spec.LastResort,
		"true":        spec.Withdrawn,
	}
	whenLosts = map[string]spec.Standing{
		"keep":        spec.InService,
		"last-resort": spec.LastResort,
		"withdraw":    spec.Withdrawn,
	}
)

// annotation returns one of those of the Secret in use.
func (c *cluster) annotation(key string) string {
	i := slices.IndexFunc(c.link.secrets, func(s secret) bool { return s.name == c.link.accepted })
	if i < 0 {
		return ""
	}
	return c.link.secrets[i].annotations[key]
}

// cordon returns how far a cluster is taken out by hand.
func (w *world) cordon(c *cluster) spec.Standing {
	if c.number == 0 {
		return cordons[w.flags.cordonLocal]
	}
	return cordons[c.annotation(cordonKey)]
}

// whenLost returns how far a cluster is to be taken out while it is not followed.
func (w *world) whenLost(c *cluster) spec.Standing {
	if c.number == 0 {
		return spec.InService
	}
	if s, ok := whenLosts[c.annotation(whenLostKey)]; ok {
		return s
	}
	return whenLosts[w.flags.whenLost]
}

// standing returns what a cluster's comes to in the end while nothing changes. Of most faults, and
// that they are over, the gateway learns late, so that it is doubtful whether the cluster is lost;
// while it can't be reached, it certainly is.
func (w *world) standing(c *cluster) (s spec.Standing, doubtful bool) {
	s, lost := w.cordon(c), w.whenLost(c)
	if w.silenced(c) {
		s = max(s, spec.LastResort)
	}
	switch {
	case lost <= s:
		return s, false
	case c.fault != nil && c.fault.name == refuse:
		return lost, false
	}
	return s, c.troubled
}

// takenOut reports whether clients hold nothing of a cluster in the end, even if it is away.
func (w *world) takenOut(c *cluster) bool {
	s, _ := w.standing(c)
	return s == spec.Withdrawn
}

// region is where a cluster is, as far as the gateway can know; empty: it can't.
func (c *cluster) region() string {
	if r := c.annotation(regionKey); slices.Contains(regions, r) {
		return r // others can't be read here
	}
	region := ""
	for _, node := range named(c.nodes, "") {
		r := node.Labels[corev1.LabelTopologyRegion]
		if r == "" || region != "" && r != region {
			return ""
		}
		region = r
	}
	return region
}

// region is that of the gateway.
func (w *world) region() string { return cmp.Or(w.flags.region, w.clusters[0].region()) }

// spreading reports whether a cordon, or its end, may still be taking effect.
func (c *cluster) spreading() bool { return time.Now().Before(c.spreadUntil) }

// regions are the names that Nodes and Secrets have.
var regions = []string{"region-1", "region-2"}

// standingSteps change how far clusters are used, and where they are.
var standingSteps = []step{
	{"cordon", 6, func(w *world, c *cluster, _ string) string {
		return w.annotate(c, cordonKey, []string{"", "false", "false", "last-resort", "true", "yes"})
	}},
	{"cordon-over", 2, func(w *world, c *cluster, _ string) string {
		return w.annotate(c, cordonOverKey, []string{"", "0s", "1s", "2s", "-1s"})
	}},
	{"when-lost", 4, func(w *world, c *cluster, _ string) string {
		return w.annotate(c, whenLostKey, []string{"", "keep", "last-resort", "withdraw", "drop"})
	}},
	{"lost-after", 2, func(w *world, c *cluster, _ string) string {
		return w.annotate(c, lostAfterKey, []string{"", "1s", "2s", "soon", "0s"})
	}},
	{"region of a link", 2, func(w *world, c *cluster, _ string) string {
		return w.annotate(c, regionKey, append([]string{"", "", "no region!"}, regions...))
	}},
	{"region of Nodes", 3, (*world).moveNodes},
}

// annotate gives an annotation of a link Secret one of these values; empty: none.
func (w *world) annotate(c *cluster, key string, values []string) string {
	if len(c.link.secrets) == 0 {
		return ""
	}
	s, value := pick(w, c.link.secrets), pick(w, values)
	annotations := map[string]string{}
	maps.Copy(annotations, s.annotations)
	delete(annotations, key)
	if value != "" {
		annotations[key] = value
	}
	s.annotations = annotations
	w.write(c, s)
	over, _ := spec.ReadDuration(annotations[cordonOverKey], time.Hour)
	if until := time.Now().Add(over); until.After(c.spreadUntil) {
		c.spreadUntil = until
	}
	return fmt.Sprintf("%s of %s is %q", key, s.name, value)
}

// moveNodes gives one Node of any cluster another region, or all of them.
func (w *world) moveNodes(_ *cluster, _ string) string {
	c := pick(w, w.clusters)
	region, all := pick(w, append([]string{""}, regions...)), w.chance(2)
	list := named(c.nodes, "")
	if !all {
		list = []*corev1.Node{pick(w, list)}
	}
	for _, node := range list {
		w.put(c, "", newNode(node.Name, node.Labels[corev1.LabelTopologyZone], region))
	}
	return fmt.Sprintf("%d nodes of %s are in %q", len(list), c.name, region)
}

func newNode(name, zone, region string) runtime.Object {
	o := kube.Node(name, zone)
	if region != "" {
		o.Labels[corev1.LabelTopologyRegion] = region
	}
	return o
}
