package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/poll"
)

// Pod is what stands for a program on this machine.
type Pod struct {
	Namespace, Name string
	Labels          map[string]string
	Container       string           // its only one's name
	Image           string           // of the container; empty: none
	Ports           map[string]int32 // of the container, by name
	Forward         map[int32]string // where the program listens, by the Pod's port
}

// podLimit is how long a new namespace may take to take Pods.
const podLimit = time.Minute

// Run adds a Pod to the node, which is ready at once. Its namespace must be there.
func (k *Kubelet) Run(ctx context.Context, p Pod) error {
	k.mu.Lock()
	for port, address := range p.Forward {
		k.ports[target{p.Namespace + "/" + p.Name, port}] = address
	}
	k.mu.Unlock()
	container := v1.Container{Name: p.Container, Image: cmp.Or(p.Image, "none")}
	for name, port := range p.Ports {
		container.Ports = append(container.Ports, v1.ContainerPort{Name: name, ContainerPort: port})
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels},
		Spec:       v1.PodSpec{NodeName: k.node, Containers: []v1.Container{container}},
	}
	err := poll.Until(ctx, podLimit, 20*time.Millisecond, func() error { // until the namespace has its ServiceAccount
		_, err := k.client.CoreV1().Pods(p.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("kubelet %s: run Pod %s/%s: %w", k.node, p.Namespace, p.Name, err)
	}
	return k.SetReady(ctx, p.Namespace, p.Name, true)
}

// SetReady writes the status of a Pod that runs.
func (k *Kubelet) SetReady(ctx context.Context, namespace, name string, ready bool) error {
	pods := k.client.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	condition := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse}
	if ready {
		condition.Status = v1.ConditionTrue
	}
	pod.Status.Phase, pod.Status.Conditions = v1.PodRunning, []v1.PodCondition{condition}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// Delete takes a Pod away at once.
func (k *Kubelet) Delete(ctx context.Context, namespace, name string) error {
	return k.client.CoreV1().Pods(namespace).Delete(ctx, name, *metav1.NewDeleteOptions(0))
}
