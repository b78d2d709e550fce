package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/e2e/admin"
	"isthmus/e2e/gateway"
	"isthmus/e2e/object"
	"isthmus/e2e/poll"
)

// Junk is what Pods of a linked cluster cost that no slice names, and that belong to one kind of owner.
type Junk struct {
	Kind string // of their owners
	Pods int
	Each float64 // bytes on the gateway's heap, after a collection
	Left float64 // bytes that are left of each when all are deleted
}

func (j Junk) String() string {
	return fmt.Sprintf("%d pods of %ss that no slice names take %.0f bytes each; %.0f when they are deleted", j.Pods, j.Kind, j.Each, j.Left)
}

// MeasureJunk lets a linked cluster have so many Pods, with labels, variables and owners as real ones have them: first those
// of Deployments with three replicas, then of StatefulSets, then of Jobs that have run, each kind alone.
func MeasureJunk(ctx context.Context, cfg Config, pods int) ([]Junk, error) {
	cfg.Clusters, cfg.Services, cfg.Endpoints = 2, 1, 0
	var all []Junk
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "Job"} {
		j, err := measureJunk(ctx, cfg, kind, pods)
		if err != nil {
			return all, err
		}
		all = append(all, j)
	}
	return all, nil
}

// measureJunk measures one kind in a gateway of its own: maps keep the room that they had.
func measureJunk(ctx context.Context, cfg Config, kind string, pods int) (j Junk, err error) {
	w, err := newWorld(cfg)
	if err != nil {
		return j, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.fill()
	g, err := w.startGateway(ctx, "-log-level=info", "-enable-pprof=true")
	if err != nil {
		return j, err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	// What is made once and for all is made now.
	if err := w.junkIs(ctx, g, kind, pods/10); err != nil {
		return j, err
	}
	var heap [3]int64
	for i, n := range []int{0, pods, 0} {
		if err := w.junkIs(ctx, g, kind, n); err != nil {
			return j, err
		}
		if heap[i], err = admin.Heap(ctx, g.MetricsAddr()); err != nil {
			return j, err
		}
	}
	return Junk{kind, pods, float64(heap[1]-heap[0]) / float64(pods), float64(heap[2]-heap[0]) / float64(pods)}, nil
}

// junkIs makes or deletes Pods of a kind until there are so many, and waits until the gateway knows.
func (w *world) junkIs(ctx context.Context, g *gateway.Gateway, kind string, n int) error {
	c := w.clusters[1]
	for ; c.made < n; c.made++ {
		w.put(c, "", junkPod(kind, c.made))
	}
	for ; c.made > n; c.made-- {
		w.delete(c, "", junkPod(kind, c.made-1))
	}
	for w.err == nil {
		objects, err := podsKnown(ctx, g, c.name)
		if err != nil || objects == n {
			return err
		}
		if err := poll.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return w.err
}

// junkPod is one with what real Pods have that belong to a kind of owner.
func junkPod(kind string, i int) *corev1.Pod {
	var o *corev1.Pod
	switch app := fmt.Sprintf("shop-%d", i/10); kind {
	case "ReplicaSet":
		set := fmt.Sprintf("shop-%d-5f79f964bc", i/3)
		o = newPod(fmt.Sprintf("%s-%05d", set, i), app, look{meshed: true, hash: "5f79f964bc", owner: object.Owner(kind, set)})
	case "StatefulSet":
		o = newPod(fmt.Sprintf("%s-db-%d", app, i), app, look{meshed: true, owner: object.Owner(kind, app+"-db")})
		o.Labels["statefulset.kubernetes.io/pod-name"] = o.Name
		o.Labels["apps.kubernetes.io/pod-index"] = strconv.Itoa(i)
		o.Labels["controller-revision-hash"] = app + "-db-6b7c8d9f"
	default:
		job, uid := fmt.Sprintf("%s-backup-%d", app, 29_000_000+i), fmt.Sprintf("0f5d3c1e-6a0b-4c1d-9e8f-%012x", i)
		o = newPod(job+"-x7k2p", app, look{owner: object.Owner(kind, job)})
		for _, key := range []string{"batch.kubernetes.io/controller-uid", "controller-uid"} {
			o.Labels[key] = uid
		}
		for _, key := range []string{"batch.kubernetes.io/job-name", "job-name"} {
			o.Labels[key] = job
		}
		o.Status.Phase = corev1.PodSucceeded
	}
	app := o.Labels["app"]
	for key, value := range map[string]string{"name": app, "instance": app + "-production", "version": "1.2.3", "component": "backend", "part-of": "shop"} {
		o.Labels["app.kubernetes.io/"+key] = value
	}
	o.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z", "checksum/config": fmt.Sprintf("%064d", i)}
	main := &o.Spec.Containers[0]
	main.Ports = []corev1.ContainerPort{{Name: object.PortName, ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}}
	for k := range 20 {
		main.Env = append(main.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", k), Value: fmt.Sprintf("value %d of pod %d", k, i)})
	}
	o.Spec.NodeName = fmt.Sprintf("node-%d", i%200)
	return o
}

// podsKnown returns how many Pods of a cluster the gateway knows.
func podsKnown(ctx context.Context, g *gateway.Gateway, cluster string) (int, error) {
	page, err := admin.ReadClusters(ctx, g.MetricsAddr())
	for _, c := range admin.Named(page, cluster) {
		for _, r := range c.Resources {
			if r.Resource == "pods" {
				return r.Objects, err
			}
		}
	}
	return 0, err
}
