package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/gateway"
	"isthmus/e2e/pod"
	"isthmus/e2e/poll"
)

// life is that of one Pod.
type life struct {
	nodes  *Nodes
	pod    *corev1.Pod
	run    *Run // guarded by the nodes' mu
	ip     string
	over   chan time.Duration // gets the grace when the Pod is to end
	ending bool               // guarded by the nodes' mu
}

// live runs the Pod until it is deleted, or ctx ends.
func (l *life) live(ctx context.Context) (err error) {
	n := l.nodes
	pods := n.cfg.Client.CoreV1().Pods(n.cfg.Namespace)
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: l.pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: l.run.Node}}
	if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	probe, err := readiness(l.pod, n.cfg.Container)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(n.cfg.Dir, "pod-")
	if err != nil {
		return err
	}
	p, err := pod.New(ctx, pod.Config{Template: corev1.PodTemplateSpec{Spec: l.pod.Spec}, Namespace: n.cfg.Namespace, Name: l.pod.Name,
		Container: n.cfg.Container, Client: n.cfg.Client, CA: n.cfg.CA, Binary: n.cfg.Binary, Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(), os.RemoveAll(dir)) }()
	began := time.Now()
	g, err := gateway.Start(ctx, gateway.Config{Pod: p.Gateway()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(g)) }()
	if err := poll.Pause(ctx, probe.next(time.Since(began))); err != nil {
		return err
	}
	l.note(func(r *Run) { r.Addr, n.byIP[l.ip] = g.Addr(), g.Addr() })
	if err := l.report(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-g.Exited():
		return fmt.Errorf("the gateway has ended by itself; its log ends with:\n%s", g.Log(20))
	case grace := <-l.over:
		return errors.Join(l.terminate(ctx, g, grace), pods.Delete(ctx, l.pod.Name, *metav1.NewDeleteOptions(0)))
	}
}

// end ends the process at once, unless it has ended.
func end(g *gateway.Gateway) error {
	if err := g.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(err, g.Stop())
	}
	return g.Stop()
}

func (l *life) note(what func(*Run)) {
	l.nodes.mu.Lock()
	defer l.nodes.mu.Unlock()
	what(l.run)
}

// report writes that the Pod is ready.
func (l *life) report(ctx context.Context) error {
	pods := l.nodes.cfg.Client.CoreV1().Pods(l.nodes.cfg.Namespace)
	err := poll.Until(ctx, time.Minute, look, func() error {
		p, err := pods.Get(ctx, l.pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := metav1.Now()
		p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
		p.Status.PodIP, p.Status.PodIPs = l.ip, []corev1.PodIP{{IP: l.ip}}
		p.Status.Conditions = nil
		for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.ContainersReady, corev1.PodReady} {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
		_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	})
	l.note(func(r *Run) { r.Ready = time.Now() })
	return err
}

// terminate asks the process to end, and kills it when its grace is over.
func (l *life) terminate(ctx context.Context, g *gateway.Gateway, grace time.Duration) error {
	l.note(func(r *Run) { r.Term, r.Grace = time.Now(), grace })
	if err := g.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-ctx.Done():
	case <-g.Exited():
		l.note(func(r *Run) { r.Ended = time.Now() })
	case <-limit.C:
		l.note(func(r *Run) { r.Ended, r.Killed = time.Now(), true })
		if err := g.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	return nil
}

// probe is when a container is asked whether it is ready.
type probe struct{ delay, period time.Duration }

func readiness(p *corev1.Pod, container string) (probe, error) {
	i := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 {
		return probe{}, fmt.Errorf("there is no container %s", container)
	}
	c := p.Spec.Containers[i]
	if c.Lifecycle != nil || c.StartupProbe != nil || c.ReadinessProbe == nil {
		return probe{}, errors.New("hooks, startup probes and containers without readiness probe: not understood here")
	}
	seconds := func(n int32) time.Duration { return time.Duration(n) * time.Second }
	return probe{delay: seconds(c.ReadinessProbe.InitialDelaySeconds), period: seconds(max(c.ReadinessProbe.PeriodSeconds, 1))}, nil
}

// next returns how long it is until the next probe, some time after the start.
func (p probe) next(since time.Duration) time.Duration {
	at := p.delay
	for at < since {
		at += p.period
	}
	return at - since
}
