package kube

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// ServicePort is the port of Services.
	ServicePort = 80
	PortName    = "http"
	// Port is the port of EndpointSlices.
	Port = 8080
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: objectMeta("", name)}
}

func ServiceAccount(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: objectMeta(namespace, name)}
}

// Node returns a Node in a zone.
func Node(name, zone string) *corev1.Node {
	o := &corev1.Node{ObjectMeta: objectMeta("", name)}
	o.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	return o
}

// Service returns a Service without a selector.
func Service(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: objectMeta(namespace, name),
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: PortName, Port: ServicePort}}},
	}
}

// Slice returns an EndpointSlice for a Service with IPv4 addresses. Its name is SERVICE-SUFFIX.
func Slice(namespace, service, suffix string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{
		ObjectMeta:  objectMeta(namespace, service+"-"+suffix),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(PortName), Port: new(int32(Port))}},
		Endpoints:   endpoints,
	}
	o.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	return o
}

func Endpoint(ip string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  []string{ip},
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
	}
}

// PodEndpoint returns a ready endpoint for a Pod.
func PodEndpoint(ip, namespace, pod string) discoveryv1.Endpoint {
	e := Endpoint(ip)
	e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod}
	return e
}

// Pod returns an unmeshed Pod on node-1 with one container. Its grace period is zero, because there
// is no kubelet to confirm the end of its containers.
func Pod(namespace, name, account string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: objectMeta(namespace, name), Spec: corev1.PodSpec{
		NodeName: "node-1", ServiceAccountName: account,
		AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{Name: "app", Image: "none"}},
	}}
}

func ReplicaSet(namespace, name, deployment string) *appsv1.ReplicaSet {
	o := &appsv1.ReplicaSet{ObjectMeta: objectMeta(namespace, name)}
	o.Labels = map[string]string{"app": deployment}
	o.OwnerReferences = []metav1.OwnerReference{Owner("Deployment", deployment)}
	o.Spec.Replicas = new(int32(0))
	o.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": deployment}}
	o.Spec.Template.Labels = map[string]string{"app": deployment}
	o.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "none"}}
	return o
}

// Owner returns an owner reference to a controller in API group apps. The controller need not
// exist.
func Owner(kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "apps/v1",
		Kind:       kind,
		Name:       name,
		UID:        "6f8ed2ee-30e4-4e1a-9d34-4c9a9a9c0b1d",
		Controller: new(true),
	}
}

// Labels and annotations from Linkerd, and the namespace of its link Secrets.
const (
	LinkNamespace = "linkerd"
	LinkType      = "mirror.linkerd.io/remote-kubeconfig"

	ClusterName     = "multicluster.linkerd.io/cluster-name"
	TrustDomain     = "multicluster.linkerd.io/trust-domain"
	ClusterDomain   = "multicluster.linkerd.io/cluster-domain"
	LocalDiscovery  = "multicluster.linkerd.io/local-discovery"
	RemoteDiscovery = "multicluster.linkerd.io/remote-discovery"
	RemoteService   = "multicluster.linkerd.io/remote-service"

	MeshLabel   = "linkerd.io/control-plane-ns"
	HashLabel   = "pod-template-hash"
	OpaquePorts = "config.linkerd.io/opaque-ports"
)

// Federated returns a federated Service with an optional local member and remote members, each
// SERVICE@CLUSTER.
func Federated(namespace, name, local string, remote ...string) *corev1.Service {
	o := Service(namespace, name)
	// The annotation marks a federated Service, so that it must exist even without remote members.
	o.Annotations = map[string]string{RemoteDiscovery: strings.Join(remote, ",")}
	if local != "" {
		o.Annotations[LocalDiscovery] = local
	}
	return o
}

// Mirror returns a mirror Service for a Service of a linked cluster, in remote-discovery mode.
func Mirror(namespace, name, cluster, service string) *corev1.Service {
	o := Service(namespace, name)
	o.Labels = map[string]string{RemoteDiscovery: cluster, RemoteService: service}
	return o
}

// Mesh adds a proxy with the usual ports to a Pod and returns the Pod.
func Mesh(pod *corev1.Pod) *corev1.Pod {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[MeshLabel] = LinkNamespace
	pod.Spec.Containers = append(
		pod.Spec.Containers,
		corev1.Container{Name: "linkerd-proxy", Image: "none", Env: proxyEnv()},
	)
	return pod
}

func proxyEnv() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", Value: "0.0.0.0:4143"},
		{Name: "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", Value: "0.0.0.0:4191"},
		{Name: "LINKERD2_PROXY_CONTROL_LISTEN_ADDR", Value: "0.0.0.0:4190"},
	}
}

func custom(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "spec": spec,
		"metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}

// OpaqueServer returns a Server that marks a port as opaque on Pods with the label app=APP.
func OpaqueServer(namespace, name, app string, port int64) *unstructured.Unstructured {
	return custom("policy.linkerd.io/v1beta3", "Server", namespace, name, map[string]any{
		"port":          port,
		"proxyProtocol": "opaque",
		"podSelector":   map[string]any{"matchLabels": map[string]any{"app": app}},
	})
}

func ServiceProfile(namespace, service string, routes ...any) *unstructured.Unstructured {
	return custom(
		"linkerd.io/v1alpha2",
		"ServiceProfile",
		namespace,
		FullName(namespace, service),
		map[string]any{"routes": append([]any{}, routes...)},
	)
}

func ExternalWorkload(namespace, name, ip string) *unstructured.Unstructured {
	o := custom("workload.linkerd.io/v1beta1", "ExternalWorkload", namespace, name, map[string]any{
		"meshTLS":     map[string]any{"identity": "spiffe://root/" + name, "serverName": name},
		"ports":       []any{map[string]any{"port": int64(Port)}},
		"workloadIPs": []any{map[string]any{"ip": ip}},
	})
	o.Object["status"] = WorkloadStatus(true)
	return o
}

func WorkloadStatus(ready bool) map[string]any {
	status := map[bool]string{false: "False", true: "True"}[ready]
	return map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
}

func FullName(namespace, service string) string {
	return service + "." + namespace + ".svc.cluster.local"
}

// Authority returns the authority that a proxy uses for a Service.
func Authority(namespace, service string) string { return FullName(namespace, service) + ":80" }

// Link returns the link Secret for a cluster.
func Link(cluster string, kubeconfig []byte) *corev1.Secret {
	o := &corev1.Secret{
		ObjectMeta: objectMeta(
			LinkNamespace,
			LinkName(cluster),
		), Type: LinkType, Data: map[string][]byte{"kubeconfig": kubeconfig},
	}
	o.Labels = map[string]string{ClusterName: cluster}
	o.Annotations = map[string]string{TrustDomain: "cluster.local", ClusterDomain: "cluster.local"}
	return o
}

func LinkName(cluster string) string { return "cluster-credentials-" + cluster }

// Kubeconfig returns a kubeconfig whose only context has the given name.
func Kubeconfig(name string, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &cluster
	config.AuthInfos[name] = &user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}
