package object

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ServicePort is the port of Services, and PortName its name.
	ServicePort = 80
	PortName    = "http"
	// Port is the port of EndpointSlices.
	Port = 8080
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// Namespace returns a Namespace.
func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: meta("", name)}
}

// ServiceAccount returns a ServiceAccount.
func ServiceAccount(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: meta(namespace, name)}
}

// Node returns a Node in a zone.
func Node(name, zone string) *corev1.Node {
	o := &corev1.Node{ObjectMeta: meta("", name)}
	o.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	return o
}

// Service returns a Service without selector.
func Service(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: meta(namespace, name),
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: PortName, Port: ServicePort}}},
	}
}

// Slice returns an EndpointSlice of a Service, called SERVICE-SUFFIX, with IPv4 addresses.
func Slice(namespace, service, suffix string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{
		ObjectMeta:  meta(namespace, service+"-"+suffix),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(PortName), Port: new(int32(Port))}},
		Endpoints:   endpoints,
	}
	o.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	return o
}

// Endpoint returns a ready endpoint.
func Endpoint(ip string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  []string{ip},
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
	}
}

// PodEndpoint returns the ready endpoint of a Pod.
func PodEndpoint(ip, namespace, pod string) discoveryv1.Endpoint {
	e := Endpoint(ip)
	e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod}
	return e
}

// Pod returns an unmeshed Pod on node-1, with one container. It ends as soon as it is deleted: there is no kubelet that
// would confirm the end of its containers.
func Pod(namespace, name, account string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(namespace, name), Spec: corev1.PodSpec{
		NodeName: "node-1", ServiceAccountName: account,
		AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{Name: "app", Image: "none"}},
	}}
}

// ReplicaSet returns a ReplicaSet of a Deployment.
func ReplicaSet(namespace, name, deployment string) *appsv1.ReplicaSet {
	o := &appsv1.ReplicaSet{ObjectMeta: meta(namespace, name)}
	o.Labels = map[string]string{"app": deployment}
	o.OwnerReferences = []metav1.OwnerReference{Owner("Deployment", deployment)}
	o.Spec.Replicas = new(int32(0))
	o.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": deployment}}
	o.Spec.Template.Labels = map[string]string{"app": deployment}
	o.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "none"}}
	return o
}

// Owner returns a reference to a controller of API group apps, which need not exist.
func Owner(kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: kind, Name: name, UID: "6f8ed2ee-30e4-4e1a-9d34-4c9a9a9c0b1d", Controller: new(true),
	}
}
