package world

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	account  = "web"
	template = "5f79f964bc" // pod-template-hash
	nodes    = 20
	zones    = 3
)

// Token is what the proxy of a client says of itself. Clients are spread over all nodes, and so over the zones.
func Token(i int) string {
	return fmt.Sprintf(`{"ns":"%s", "nodeName":"%s", "pod":"client-%d"}`, Namespace, node(i), i)
}

func node(i int) string { return fmt.Sprintf("node-%02d", i%nodes) }

// nodeObject is in one of the zones. The endpoints' own zones are not told, so that what clients are sent has one size.
func nodeObject(i int) *corev1.Node {
	zone := fmt.Sprintf("zone-%d", i%zones)
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node(i), Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
}

func replicaSetName(i int) string { return Web(i) + "-" + template }

func podName(i int, s Scale) string {
	return fmt.Sprintf("%s-%05d", replicaSetName(i/s.WebPods), i)
}

func service(name string, annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// replicaSet is the owner of the Pods of one of the Services with many Pods.
func replicaSet(i int) *appsv1.ReplicaSet {
	labels := map[string]string{"app": Web(i), "pod-template-hash": template}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: replicaSetName(i), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{owner("Deployment", Web(i))},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/shop/web"}}},
			},
		},
	}
}

func owner(kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "6f8ed2ee-30e4-4e1a-9d34-4c9a9a9c0b1d", Controller: new(true)}
}

// pod is a meshed Pod.
func pod(i int, s Scale) *corev1.Pod {
	set := i / s.WebPods
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(i, s),
			Labels: map[string]string{
				"app": Web(set), "pod-template-hash": template, "linkerd.io/control-plane-ns": "linkerd",
				"linkerd.io/proxy-deployment": Web(set), "linkerd.io/workload-ns": Namespace,
			},
			Annotations:     map[string]string{"linkerd.io/inject": "enabled", "linkerd.io/proxy-version": "edge-26.8.1"},
			OwnerReferences: []metav1.OwnerReference{owner("ReplicaSet", replicaSetName(set))},
		},
		Spec: corev1.PodSpec{
			NodeName: node(i), ServiceAccountName: account, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{
				{Name: "app", Image: "example.com/shop/web", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}},
				{Name: "linkerd-proxy", Image: "example.com/linkerd/proxy", Env: []corev1.EnvVar{
					{Name: "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", Value: "0.0.0.0:4143"},
					{Name: "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", Value: "0.0.0.0:4191"},
					{Name: "LINKERD2_PROXY_CONTROL_LISTEN_ADDR", Value: "0.0.0.0:4190"},
				}, Ports: []corev1.ContainerPort{{Name: "linkerd-proxy", ContainerPort: 4143}, {Name: "linkerd-admin", ContainerPort: 4191}}},
			},
		},
	}
}
