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

// annotations returns the annotations of the Secret in use.
func annotations(c *cluster) map[string]string {
	i := slices.IndexFunc(c.link.secrets, func(s secret) bool { return s.name == c.link.accepted })
	if i < 0 {
		return nil
	}
	return c.link.secrets[i].annotations
}

// settings returns how a cluster is used. Flags decide for the local cluster, and the link Secret
// for any other.
func settings(w *world, c *cluster) spec.LinkSettings {
	var defaults spec.LinkSettings
	if c.number == 0 {
		return defaults.With(map[string]string{
			spec.CordonKey:  w.flags.cordonLocal,
			spec.RegionKey:  w.flags.region,
			spec.NetworkKey: w.flags.network,
		})
	}
	return defaults.With(map[string]string{spec.WhenLostKey: w.flags.whenLost}).With(annotations(c))
}

// standing returns the standing that a cluster has once nothing changes. Isthmus notices most
// faults, and their end, with a delay, so doubtful reports whether the cluster may count as lost.
// While a cluster refuses connections, it certainly counts as lost.
func standing(w *world, c *cluster) (s spec.Standing, doubtful bool) {
	settings := settings(w, c)
	dead := behind(w, c) && spec.AllDead(specGateways(c))
	now, lost := settings.Standing(false, dead), settings.Standing(true, dead)
	switch {
	case lost == now:
		return now, false
	case c.fault != nil && c.fault.name == refuse:
		return lost, false
	}
	return now, c.troubled
}

// takenOut reports whether clients hold no endpoint of a cluster once nothing changes, even if the
// cluster is away.
func takenOut(w *world, c *cluster) bool {
	s, _ := standing(w, c)
	return s == spec.Withdrawn
}

// regionOf returns the region of a cluster, as far as Isthmus can know it, or "".
func regionOf(w *world, c *cluster) string {
	var list []string
	for _, node := range c.nodes {
		list = append(list, node.Labels[corev1.LabelTopologyRegion])
	}
	return cmp.Or(settings(w, c).Region, spec.CommonRegion(list))
}

// spreading reports whether a cordon, or its end, may not be complete yet.
func spreading(c *cluster) bool { return time.Now().Before(c.spreadUntil) }

var regions = []string{"region-1", "region-2"}

// standingSteps change the standing and the region of clusters.
var standingSteps = []step{
	{"cordon", 6, func(w *world, c *cluster, _ string) string {
		return annotate(w, c, spec.CordonKey, []string{"", "false", "false", "last-resort", "true", "yes"})
	}},
	{"cordon-over", 2, func(w *world, c *cluster, _ string) string {
		return annotate(w, c, spec.CordonOverKey, []string{"", "0s", "1s", "2s", "-1s"})
	}},
	{"when-lost", 4, func(w *world, c *cluster, _ string) string {
		return annotate(w, c, spec.WhenLostKey, []string{"", "keep", "last-resort", "withdraw", "drop"})
	}},
	{"lost-after", 2, func(w *world, c *cluster, _ string) string {
		return annotate(w, c, spec.LostAfterKey, []string{"", "1s", "2s", "soon", "0s"})
	}},
	{"region of a link", 2, func(w *world, c *cluster, _ string) string {
		return annotate(w, c, spec.RegionKey, append([]string{"", "", "no region!"}, regions...))
	}},
	{"region of Nodes", 3, moveNodes},
}

// annotate sets an annotation of a link Secret to one of the values. The empty value removes it.
func annotate(w *world, c *cluster, key string, values []string) string {
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
	write(w, c, s)
	over, _ := spec.ReadDuration(annotations[spec.CordonOverKey], time.Hour)
	if until := time.Now().Add(over); until.After(c.spreadUntil) {
		c.spreadUntil = until
	}
	return fmt.Sprintf("%s of %s is %q", key, s.name, value)
}

// moveNodes moves one Node or all Nodes of a cluster to another region.
func moveNodes(w *world, _ *cluster, _ string) string {
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
