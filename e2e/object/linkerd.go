package object

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Labels and annotations of Linkerd, and where it looks for link Secrets.
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

// Federated returns a Service that joins a Service of the local cluster (empty: none) with others, each SERVICE@CLUSTER.
func Federated(namespace, name, local string, remote ...string) *corev1.Service {
	o := Service(namespace, name)
	// Without members of other clusters there is the annotation all the same: it makes the Service a federated one.
	o.Annotations = map[string]string{RemoteDiscovery: strings.Join(remote, ",")}
	if local != "" {
		o.Annotations[LocalDiscovery] = local
	}
	return o
}

// Mirror returns a mirror of another cluster's Service, in remote-discovery mode.
func Mirror(namespace, name, cluster, service string) *corev1.Service {
	o := Service(namespace, name)
	o.Labels = map[string]string{RemoteDiscovery: cluster, RemoteService: service}
	return o
}

// Mesh makes a Pod a meshed one, with a proxy at the usual ports, and returns it.
func Mesh(pod *corev1.Pod) *corev1.Pod {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[MeshLabel] = LinkNamespace
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "linkerd-proxy", Image: "none", Env: proxyEnv()})
	return pod
}

// proxyEnv returns the variables of a proxy's container that configure where it listens.
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

// OpaqueServer returns a Server that makes a port opaque, of the Pods with label app=APP.
func OpaqueServer(namespace, name, app string, port int64) *unstructured.Unstructured {
	return custom("policy.linkerd.io/v1beta3", "Server", namespace, name, map[string]any{
		"port": port, "proxyProtocol": "opaque", "podSelector": map[string]any{"matchLabels": map[string]any{"app": app}},
	})
}

// ServiceProfile returns the ServiceProfile of a Service.
func ServiceProfile(namespace, service string, routes ...any) *unstructured.Unstructured {
	return custom("linkerd.io/v1alpha2", "ServiceProfile", namespace, FullName(namespace, service), map[string]any{"routes": append([]any{}, routes...)})
}

// ExternalWorkload returns a ready ExternalWorkload.
func ExternalWorkload(namespace, name, ip string) *unstructured.Unstructured {
	o := custom("workload.linkerd.io/v1beta1", "ExternalWorkload", namespace, name, map[string]any{
		"meshTLS":     map[string]any{"identity": "spiffe://root/" + name, "serverName": name},
		"ports":       []any{map[string]any{"port": int64(Port)}},
		"workloadIPs": []any{map[string]any{"ip": ip}},
	})
	o.Object["status"] = WorkloadStatus(true)
	return o
}

// WorkloadStatus returns the status of an ExternalWorkload.
func WorkloadStatus(ready bool) map[string]any {
	status := map[bool]string{false: "False", true: "True"}[ready]
	return map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
}

// FullName returns the DNS name of a Service.
func FullName(namespace, service string) string {
	return service + "." + namespace + ".svc.cluster.local"
}

// Authority returns what a proxy asks for to reach a Service.
func Authority(namespace, service string) string { return FullName(namespace, service) + ":80" }

// Link returns the Secret that links a cluster.
func Link(cluster string, kubeconfig []byte) *corev1.Secret {
	o := &corev1.Secret{
		ObjectMeta: meta(LinkNamespace, LinkName(cluster)), Type: LinkType, Data: map[string][]byte{"kubeconfig": kubeconfig},
	}
	o.Labels = map[string]string{ClusterName: cluster}
	o.Annotations = map[string]string{TrustDomain: "cluster.local", ClusterDomain: "cluster.local"}
	return o
}

// LinkName returns the name of the Secret that links a cluster.
func LinkName(cluster string) string { return "cluster-credentials-" + cluster }

// Kubeconfig returns a kubeconfig with one context of that name.
func Kubeconfig(name string, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &cluster
	config.AuthInfos[name] = &user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}
