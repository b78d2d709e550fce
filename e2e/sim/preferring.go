package sim

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/internal/spec"
)

// anyPreference returns a copy of a Service with random annotations for its preference, or without.
func anyPreference(w *world, o *corev1.Service) *corev1.Service {
	o = o.DeepCopy()
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	for _, a := range []struct {
		key   string
		value func(*world) string
	}{
		{spec.PreferKey, anyTiers},
		{spec.MinReadyKey, anyMinReady},
		{spec.ReturnAfterKey, anyReturn},
		{spec.ReturnOverKey, anyReturn},
	} {
		delete(o.Annotations, a.key)
		if !w.chance(3) {
			o.Annotations[a.key] = a.value(w)
		}
	}
	return o
}

func anyMinReady(w *world) string {
	return pick(w, []string{"1", "2", "3", "6", "30%", "60%", "100%", "0", "101%", "half"})
}

func anyReturn(w *world) string {
	return pick(w, []string{"0s", "300ms", "1s", "2s", "-1s", "2h", "soon"})
}

// longestSteering is how long fail-backs, losses and cordons can take in this package. The maximum
// is 2 s each for lost-after, cordon-over, return-after and return-over.
const longestSteering = 6 * time.Second

// anyTiers returns random tiers of distinct terms, or sometimes an invalid value.
func anyTiers(w *world) string {
	if w.chance(8) {
		return pick(w, []string{
			"",
			" ",
			"local,,any",
			"local+",
			"local, local",
			"any+c001,c001",
			"cluster/",
			strings.Repeat("a,", 16) + "b",
		})
	}
	words := []string{"zone", "local", "region", "remote", "any", "never-linked"}
	for _, c := range w.clusters[1:] {
		words = append(words, pick(w, []string{"", spec.Explicit})+c.name)
	}
	w.rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	text := words[0]
	for _, word := range words[1 : 1+w.rng.IntN(4)] {
		text += pick(w, []string{", ", ",", "+", " + "}) + word
	}
	if w.chance(3) && !strings.Contains(text, "any") {
		text += ", any"
	}
	return text
}

// keepPreference copies the preference from old to o. If old is nil, it does nothing.
func keepPreference(o, old *corev1.Service) *corev1.Service {
	if old == nil {
		return o
	}
	o.Annotations = maps.Clone(o.Annotations)
	for _, key := range spec.Keys {
		if value, ok := old.Annotations[key]; ok {
			if o.Annotations == nil {
				o.Annotations = map[string]string{}
			}
			o.Annotations[key] = value
		}
	}
	return o
}

// changePreference changes the preference of a Service that clients subscribe to.
func changePreference(w *world, local *cluster, s string) string {
	of := pick(w, []string{federatedName(s), federatedName(s), federatedName(s), s, mirrorName(s, mirrored(w, s)[0])})
	o := local.services[of]
	if o == nil {
		return ""
	}
	o = anyPreference(w, o)
	w.put(local, s, o)
	text := of + ":"
	for _, key := range spec.Keys {
		text += fmt.Sprintf(" %s %q", key, o.Annotations[key])
	}
	return text
}

// drain makes all endpoints of a service in a cluster unready, slice by slice, or all ready.
func drain(w *world, c *cluster, s string) string {
	all := c.slicesOf(s)
	if len(all) == 0 {
		return ""
	}
	ready := w.chance(2)
	for _, l := range all {
		l = l.DeepCopy()
		for i := range l.Endpoints {
			l.Endpoints[i].Conditions.Ready = &ready
		}
		w.put(c, s, l)
	}
	return fmt.Sprintf("%d slices ready=%v", len(all), ready)
}
