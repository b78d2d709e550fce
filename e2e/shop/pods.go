package shop

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Run stands in for the Deployment controller, the scheduler and the nodes
// until ctx ends. It takes up again what it did when an API server was away.
func (c *Cluster) Run(ctx context.Context) {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		err := c.follow(ctx)
		c.mu.Lock()
		c.lost = err
		c.mu.Unlock()
		select {
		case <-retry.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow reconciles whenever something changes, until that fails.
func (c *Cluster) follow(ctx context.Context) error {
	deployments, err := c.AppsV1().Deployments(Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch Deployments: %w", err)
	}
	defer deployments.Stop()
	pods, err := c.CoreV1().Pods(Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch Pods: %w", err)
	}
	defer pods.Stop()
	for {
		if err := c.reconcile(ctx); err != nil {
			return err
		}
		if err := anyEvent(ctx, deployments, pods); err != nil {
			return err
		}
	}
}

// anyEvent returns at the next event of one of the watches.
func anyEvent(ctx context.Context, a, b watch.Interface) error {
	var event watch.Event
	var open bool
	select {
	case event, open = <-a.ResultChan():
	case event, open = <-b.ResultChan():
	case <-ctx.Done():
		return ctx.Err()
	}
	if !open || event.Type == watch.Error {
		return errors.New("the API server ended a watch")
	}
	return nil
}

func (c *Cluster) reconcile(ctx context.Context) error {
	list, err := c.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Deployments: %w", err)
	}
	for i := range list.Items {
		if err := c.roll(ctx, &list.Items[i]); err != nil {
			return fmt.Errorf("roll out %s: %w", list.Items[i].Name, err)
		}
	}
	return nil
}

// roll brings a Deployment's Pods to the number it asks for.
func (c *Cluster) roll(ctx context.Context, d *appsv1.Deployment) error {
	rs, err := c.replicaSet(ctx, d)
	if err != nil {
		return err
	}
	pods, err := c.pods(ctx, d.Name)
	if err != nil {
		return err
	}
	var live []*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		c.seen(pod)
		switch {
		case pod.DeletionTimestamp != nil: // it had its time to end
			err = c.delete(ctx, pod, 0)
		case pod.Status.PodIP == "":
			err = c.start(ctx, pod)
			fallthrough
		default:
			live = append(live, pod)
		}
		if err != nil {
			return err
		}
	}
	for n := len(live); n < int(*d.Spec.Replicas); n++ {
		if err := c.add(ctx, rs, n); err != nil {
			return err
		}
	}
	slices.SortStableFunc(live, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, pod := range live[min(len(live), int(*d.Spec.Replicas)):] {
		if err := c.delete(ctx, pod, *pod.Spec.TerminationGracePeriodSeconds); err != nil {
			return err
		}
	}
	return c.report(ctx, d, rs, int32(len(readyAddrs(pods))))
}

// report writes the number of ready Pods where people look for it.
func (c *Cluster) report(ctx context.Context, d *appsv1.Deployment, rs *appsv1.ReplicaSet, ready int32) error {
	apps := c.AppsV1()
	if rs.Status.ReadyReplicas != ready {
		rs.Status.Replicas, rs.Status.ReadyReplicas, rs.Status.AvailableReplicas = ready, ready, ready
		if _, err := apps.ReplicaSets(Namespace).UpdateStatus(ctx, rs, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("status of ReplicaSet %s: %w", rs.Name, err)
		}
	}
	if s := &d.Status; s.ReadyReplicas != ready {
		s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas = ready, ready, ready, ready
		if _, err := apps.Deployments(Namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("status of Deployment %s: %w", d.Name, err)
		}
	}
	return nil
}

// replicaSet returns the Deployment's ReplicaSet. It creates it, or sets its number of replicas, where needed.
func (c *Cluster) replicaSet(ctx context.Context, d *appsv1.Deployment) (*appsv1.ReplicaSet, error) {
	sets := c.AppsV1().ReplicaSets(Namespace)
	hash := fnv.New32a()
	hash.Write([]byte(d.Name))
	generation := fmt.Sprintf("%08x", hash.Sum32())
	rs, err := sets.Get(ctx, d.Name+"-"+generation, metav1.GetOptions{})
	if err == nil && *rs.Spec.Replicas != *d.Spec.Replicas {
		rs.Spec.Replicas = d.Spec.Replicas
		return sets.Update(ctx, rs, metav1.UpdateOptions{})
	}
	if !apierrors.IsNotFound(err) {
		return rs, err
	}
	rs = &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{
		Replicas: d.Spec.Replicas,
		Selector: d.Spec.Selector.DeepCopy(),
		Template: *d.Spec.Template.DeepCopy(),
	}}
	rs.Spec.Selector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] = generation
	rs.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = generation
	rs.Name, rs.Labels = d.Name+"-"+generation, rs.Spec.Template.Labels
	rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	return sets.Create(ctx, rs, metav1.CreateOptions{})
}

// add makes the n-th Pod of a ReplicaSet and starts it.
func (c *Cluster) add(ctx context.Context, rs *appsv1.ReplicaSet, n int) error {
	pod := &corev1.Pod{ObjectMeta: *rs.Spec.Template.ObjectMeta.DeepCopy(), Spec: *rs.Spec.Template.Spec.DeepCopy()}
	pod.GenerateName = rs.Name + "-"
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	zones := c.zones()
	pod.Spec.NodeName = zones[n%len(zones)].Node
	pod, err := c.CoreV1().Pods(Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a Pod: %w", err)
	}
	return c.start(ctx, pod)
}

// start gives a Pod an address and makes it ready.
func (c *Cluster) start(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.Now()
	addr := c.nextAddr().String()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: addr, PodIPs: []corev1.PodIP{{IP: addr}}, StartTime: &now,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	c.touch()
	if _, err := c.CoreV1().Pods(Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("start Pod %s: %w", pod.Name, err)
	}
	return nil
}

// delete deletes a Pod with a grace period in seconds, and does not wait for its end.
func (c *Cluster) delete(ctx context.Context, pod *corev1.Pod, grace int64) error {
	if grace > 0 {
		c.touch()
	}
	err := c.CoreV1().Pods(Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Pod %s: %w", pod.Name, err)
	}
	return nil
}

// touch notes that the set of ready Pods changes now.
func (c *Cluster) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = time.Now()
}

// seen notes a Pod's address, so that no later one gets it.
func (c *Cluster) seen(pod *corev1.Pod) {
	addr, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !addr.Is4() {
		return
	}
	b := addr.As4()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastPod = max(c.lastPod, int(b[2])*250+int(b[3]))
}

// nextAddr returns an address that no Pod has had.
func (c *Cluster) nextAddr() netip.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastPod++
	n := c.lastPod - 1
	return netip.AddrFrom4([4]byte{10, c.subnet, byte(n / 250), byte(n%250 + 1)})
}
