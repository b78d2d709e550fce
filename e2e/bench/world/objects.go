package world

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/object"
)

const (
	account  = "web"
	template = "5f79f964bc" // pod-template-hash
	nodes    = 20
	zones    = 3
)

// Token returns the context token that a client's proxy sends. Clients are spread over all nodes, and so over the zones.
func Token(i int) string {
	return fmt.Sprintf(`{"ns":"%s", "nodeName":"%s", "pod":"client-%d"}`, Namespace, node(i), i)
}

func node(i int) string { return fmt.Sprintf("node-%02d", i%nodes) }

// nodeObject is in one of the zones. The endpoints have none of their own, so that what clients are sent has one size.
func nodeObject(i int) *corev1.Node { return object.Node(node(i), fmt.Sprintf("zone-%d", i%zones)) }

func replicaSetName(i int) string { return Web(i) + "-" + template }

func podName(i int, s Scale) string {
	return fmt.Sprintf("%s-%05d", replicaSetName(i/s.WebPods), i)
}

// replicaSet is the owner of the Pods of one of the Services with many Pods.
func replicaSet(i int) *appsv1.ReplicaSet {
	o := object.ReplicaSet(Namespace, replicaSetName(i), Web(i))
	o.Labels[object.HashLabel] = template
	return o
}

// pod is a meshed Pod.
func pod(i int, s Scale) *corev1.Pod {
	set := i / s.WebPods
	o := object.Pod(Namespace, podName(i, s), account)
	o.Labels = map[string]string{
		"app": Web(set), object.HashLabel: template, "linkerd.io/proxy-deployment": Web(set), "linkerd.io/workload-ns": Namespace,
	}
	o.Annotations = map[string]string{"linkerd.io/inject": "enabled", "linkerd.io/proxy-version": "edge-26.8.1"}
	o.OwnerReferences = []metav1.OwnerReference{object.Owner("ReplicaSet", replicaSetName(set))}
	o.Spec.NodeName = node(i)
	o.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: object.PortName, ContainerPort: object.Port}}
	object.Mesh(o).Spec.Containers[1].Ports = []corev1.ContainerPort{
		{Name: "linkerd-proxy", ContainerPort: 4143}, {Name: "linkerd-admin", ContainerPort: 4191},
	}
	return o
}
