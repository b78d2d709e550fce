package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestNextProbe(t *testing.T) {
	p := probe{delay: 2 * time.Second, period: 5 * time.Second}
	for since, want := range map[time.Duration]time.Duration{0: 2, 2: 0, 3: 4, 7: 0, 8: 4} {
		if got := p.next(since * time.Second); got != want*time.Second {
			t.Errorf("after %d s: %v, not %d s", since, got, want)
		}
	}
}

// TestRefuses: what this package does not know of a Pod is an error.
func TestRefuses(t *testing.T) {
	for name, change := range map[string]func(*corev1.Container){
		"another container": func(c *corev1.Container) { c.Name = "other" },
		"a hook":            func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{} },
		"a startup probe":   func(c *corev1.Container) { c.StartupProbe = &corev1.Probe{} },
		"no probe":          func(c *corev1.Container) { c.ReadinessProbe = nil },
	} {
		c := corev1.Container{Name: "isthmus", ReadinessProbe: &corev1.Probe{PeriodSeconds: 5}}
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
		if _, err := readiness(p, "isthmus"); err != nil {
			t.Fatal(err)
		}
		change(&p.Spec.Containers[0])
		if _, err := readiness(p, "isthmus"); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

// TestChoose: Pods of one ReplicaSet are spread; those of others, and those that end, do not count.
func TestChoose(t *testing.T) {
	n := New(Config{Nodes: []string{"a", "b"}})
	pod := func(hash string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Labels = map[string]string{hashLabel: hash}
		return p
	}
	n.known["1"] = &life{pod: pod("old"), run: &Run{Node: "a"}}
	n.known["2"] = &life{pod: pod("new"), run: &Run{Node: "b"}}
	if got := n.choose(pod("new")); got != "a" {
		t.Errorf("on %s", got)
	}
	n.known["2"].run.Term = time.Now()
	n.known["1"].pod = pod("new")
	if got := n.choose(pod("new")); got != "b" {
		t.Errorf("on %s", got)
	}
}
