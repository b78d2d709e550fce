package decode

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Bounds of lists. Where the API's own validation has one, it is that.
var (
	fewTexts = bound{1_000, 1_000}

	podContainers = bound{1_000, 1_000}
	podPorts      = bound{20_000, 20_000}
	podVariables  = bound{1_000, 1_000} // that are used

	servicePorts = bound{20_000, 20_000}

	sliceEndpoints = bound{1_000, 1_000}
	sliceAddresses = bound{100, 100_000}
	slicePorts     = bound{20_000, 20_000}
	sliceHints     = bound{8, 8_000}

	// Endpoints have no bound but that of an object. These are what bytes allow.
	coreSubsets   = bound{50_000, 50_000}
	coreAddresses = bound{150_000, 150_000}
	corePorts     = bound{150_000, 150_000}
)

func podTable(r *room) table[corev1.Pod] {
	return table[corev1.Pod]{
		metadataNumber: sub(metadata(r), func(o *corev1.Pod) *metav1.ObjectMeta { return &o.ObjectMeta }),
		2: sub(table[corev1.PodSpec]{
			2:  list(r, "containers", podContainers, containerTable(r), func(s *corev1.PodSpec) *[]corev1.Container { return &s.Containers }),
			8:  text("spec.serviceAccountName", maxName, func(s *corev1.PodSpec) *string { return &s.ServiceAccountName }),
			10: text("spec.nodeName", maxName, func(s *corev1.PodSpec) *string { return &s.NodeName }),
			11: boolean(func(s *corev1.PodSpec) *bool { return &s.HostNetwork }),
			20: list(r, "initContainers", podContainers, containerTable(r), func(s *corev1.PodSpec) *[]corev1.Container { return &s.InitContainers }),
		}, func(o *corev1.Pod) *corev1.PodSpec { return &o.Spec }),
		3: sub(table[corev1.PodStatus]{
			1: text("status.phase", maxText, func(s *corev1.PodStatus) *corev1.PodPhase { return &s.Phase }),
			5: text("status.hostIP", maxText, func(s *corev1.PodStatus) *string { return &s.HostIP }),
			6: text("status.podIP", maxText, func(s *corev1.PodStatus) *string { return &s.PodIP }),
			12: list(r, "status.podIPs", fewTexts, table[corev1.PodIP]{
				1: text("status.podIPs.ip", maxText, func(p *corev1.PodIP) *string { return &p.IP }),
			}, func(s *corev1.PodStatus) *[]corev1.PodIP { return &s.PodIPs }),
			16: list(r, "status.hostIPs", fewTexts, table[corev1.HostIP]{
				1: text("status.hostIPs.ip", maxText, func(p *corev1.HostIP) *string { return &p.IP }),
			}, func(s *corev1.PodStatus) *[]corev1.HostIP { return &s.HostIPs }),
		}, func(o *corev1.Pod) *corev1.PodStatus { return &o.Status }),
	}
}

func containerTable(r *room) table[corev1.Container] {
	return table[corev1.Container]{
		1: text("containers.name", maxText, func(c *corev1.Container) *string { return &c.Name }),
		6: list(r, "ports of containers", podPorts, table[corev1.ContainerPort]{
			1: text("containers.ports.name", maxText, func(p *corev1.ContainerPort) *string { return &p.Name }),
			2: number(func(p *corev1.ContainerPort) *int32 { return &p.HostPort }),
			3: number(func(p *corev1.ContainerPort) *int32 { return &p.ContainerPort }),
			4: text("containers.ports.protocol", maxText, func(p *corev1.ContainerPort) *corev1.Protocol { return &p.Protocol }),
		}, func(c *corev1.Container) *[]corev1.ContainerPort { return &c.Ports }),
		7: filtered(variable, usedVariable, list(r, "addresses of proxies", podVariables, variable, func(c *corev1.Container) *[]corev1.EnvVar { return &c.Env })),
	}
}

var variable = table[corev1.EnvVar]{
	1: text("containers.env.name", unbounded, func(e *corev1.EnvVar) *string { return &e.Name }),
	2: text("containers.env.value", unbounded, func(e *corev1.EnvVar) *string { return &e.Value }),
}

// usedVariable reports whether an environment variable is used, or may be: those with the
// addresses that a proxy listens at.
func usedVariable(e *corev1.EnvVar) bool {
	return strings.HasPrefix(e.Name, "LINKERD2_PROXY_") && strings.HasSuffix(e.Name, "_LISTEN_ADDR")
}

func serviceTable(r *room) table[corev1.Service] {
	return table[corev1.Service]{
		metadataNumber: sub(metadata(r), func(o *corev1.Service) *metav1.ObjectMeta { return &o.ObjectMeta }),
		2: sub(table[corev1.ServiceSpec]{
			1: list(r, "ports", servicePorts, table[corev1.ServicePort]{
				1: text("ports.name", maxText, func(p *corev1.ServicePort) *string { return &p.Name }),
				2: text("ports.protocol", maxText, func(p *corev1.ServicePort) *corev1.Protocol { return &p.Protocol }),
				3: number(func(p *corev1.ServicePort) *int32 { return &p.Port }),
				4: sub(targetPort, func(p *corev1.ServicePort) *intstr.IntOrString { return &p.TargetPort }),
				6: optional(r, text("ports.appProtocol", maxText, self[string]), func(p *corev1.ServicePort) **string { return &p.AppProtocol }),
			}, func(s *corev1.ServiceSpec) *[]corev1.ServicePort { return &s.Ports }),
			2: mapping(r, "labels of its selector", maxLabels, maxText, nil, lend[string], func(s *corev1.ServiceSpec) *map[string]string { return &s.Selector }),
			3: text("spec.clusterIP", maxText, func(s *corev1.ServiceSpec) *string { return &s.ClusterIP }),
			4: text("spec.type", maxText, func(s *corev1.ServiceSpec) *corev1.ServiceType { return &s.Type }),
			5: texts(r, "externalIPs", bound{20_000, 20_000}, func(s *corev1.ServiceSpec) *[]string { return &s.ExternalIPs }),
			7: text("spec.sessionAffinity", maxText, func(s *corev1.ServiceSpec) *corev1.ServiceAffinity { return &s.SessionAffinity }),
			14: optional(r, sub(table[corev1.SessionAffinityConfig]{
				1: optional(r, sub(table[corev1.ClientIPConfig]{
					1: optional(r, number(self[int32]), func(c *corev1.ClientIPConfig) **int32 { return &c.TimeoutSeconds }),
				}, self[corev1.ClientIPConfig]), func(c *corev1.SessionAffinityConfig) **corev1.ClientIPConfig { return &c.ClientIP }),
			}, self[corev1.SessionAffinityConfig]), func(s *corev1.ServiceSpec) **corev1.SessionAffinityConfig { return &s.SessionAffinityConfig }),
			18: texts(r, "clusterIPs", fewTexts, func(s *corev1.ServiceSpec) *[]string { return &s.ClusterIPs }),
			19: texts(r, "ipFamilies", fewTexts, func(s *corev1.ServiceSpec) *[]corev1.IPFamily { return &s.IPFamilies }),
			22: optional(r, text("spec.internalTrafficPolicy", maxText, self[corev1.ServiceInternalTrafficPolicy]), func(s *corev1.ServiceSpec) **corev1.ServiceInternalTrafficPolicy { return &s.InternalTrafficPolicy }),
			23: optional(r, text("spec.trafficDistribution", maxText, self[string]), func(s *corev1.ServiceSpec) **string { return &s.TrafficDistribution }),
		}, func(o *corev1.Service) *corev1.ServiceSpec { return &o.Spec }),
		3: sub(table[corev1.ServiceStatus]{
			1: sub(table[corev1.LoadBalancerStatus]{
				1: list(r, "addresses of its load balancer", bound{20_000, 20_000}, table[corev1.LoadBalancerIngress]{
					1: text("status.loadBalancer.ingress.ip", maxText, func(i *corev1.LoadBalancerIngress) *string { return &i.IP }),
					2: text("status.loadBalancer.ingress.hostname", maxText, func(i *corev1.LoadBalancerIngress) *string { return &i.Hostname }),
				}, func(s *corev1.LoadBalancerStatus) *[]corev1.LoadBalancerIngress { return &s.Ingress }),
			}, func(s *corev1.ServiceStatus) *corev1.LoadBalancerStatus { return &s.LoadBalancer }),
		}, func(o *corev1.Service) *corev1.ServiceStatus { return &o.Status }),
	}
}

// targetPort is the number or name of a port.
var targetPort = table[intstr.IntOrString]{
	1: {protowire.VarintType, func(into *intstr.IntOrString, value uint64, _ []byte) error {
		into.Type = intstr.Type(value)
		return nil
	}},
	2: number(func(p *intstr.IntOrString) *int32 { return &p.IntVal }),
	3: text("ports.targetPort", maxText, func(p *intstr.IntOrString) *string { return &p.StrVal }),
}

func sliceTable(r *room) table[discoveryv1.EndpointSlice] {
	return table[discoveryv1.EndpointSlice]{
		metadataNumber: sub(metadata(r), func(o *discoveryv1.EndpointSlice) *metav1.ObjectMeta { return &o.ObjectMeta }),
		2: list(r, "endpoints", sliceEndpoints, table[discoveryv1.Endpoint]{
			1: texts(r, "addresses of an endpoint", sliceAddresses, func(e *discoveryv1.Endpoint) *[]string { return &e.Addresses }),
			2: sub(table[discoveryv1.EndpointConditions]{
				1: optional(r, boolean(self[bool]), func(c *discoveryv1.EndpointConditions) **bool { return &c.Ready }),
				3: optional(r, boolean(self[bool]), func(c *discoveryv1.EndpointConditions) **bool { return &c.Terminating }),
			}, func(e *discoveryv1.Endpoint) *discoveryv1.EndpointConditions { return &e.Conditions }),
			3: optional(r, text("endpoints.hostname", maxText, self[string]), func(e *discoveryv1.Endpoint) **string { return &e.Hostname }),
			4: optional(r, sub(referenceTable(), self[corev1.ObjectReference]), func(e *discoveryv1.Endpoint) **corev1.ObjectReference { return &e.TargetRef }),
			6: optional(r, text("endpoints.nodeName", maxText, self[string]), func(e *discoveryv1.Endpoint) **string { return &e.NodeName }),
			7: optional(r, text("endpoints.zone", maxText, self[string]), func(e *discoveryv1.Endpoint) **string { return &e.Zone }),
			8: optional(r, sub(table[discoveryv1.EndpointHints]{
				1: list(r, "zones as hints of an endpoint", sliceHints, table[discoveryv1.ForZone]{
					1: text("endpoints.hints.forZones.name", maxText, func(z *discoveryv1.ForZone) *string { return &z.Name }),
				}, func(h *discoveryv1.EndpointHints) *[]discoveryv1.ForZone { return &h.ForZones }),
			}, self[discoveryv1.EndpointHints]), func(e *discoveryv1.Endpoint) **discoveryv1.EndpointHints { return &e.Hints }),
		}, func(o *discoveryv1.EndpointSlice) *[]discoveryv1.Endpoint { return &o.Endpoints }),
		3: list(r, "ports", slicePorts, table[discoveryv1.EndpointPort]{
			1: optional(r, text("ports.name", maxText, self[string]), func(p *discoveryv1.EndpointPort) **string { return &p.Name }),
			3: optional(r, number(self[int32]), func(p *discoveryv1.EndpointPort) **int32 { return &p.Port }),
		}, func(o *discoveryv1.EndpointSlice) *[]discoveryv1.EndpointPort { return &o.Ports }),
		4: text("addressType", maxText, func(o *discoveryv1.EndpointSlice) *discoveryv1.AddressType { return &o.AddressType }),
	}
}

func referenceTable() table[corev1.ObjectReference] {
	return table[corev1.ObjectReference]{
		1: text("targetRef.kind", maxText, func(r *corev1.ObjectReference) *string { return &r.Kind }),
		2: text("targetRef.namespace", maxText, func(r *corev1.ObjectReference) *string { return &r.Namespace }),
		3: text("targetRef.name", maxText, func(r *corev1.ObjectReference) *string { return &r.Name }),
	}
}

// Core Endpoints, the predecessor of EndpointSlices.
type (
	//lint:ignore SA1019 they are read with --enable-endpoint-slices=false
	coreEndpoints = corev1.Endpoints
	//lint:ignore SA1019 a part of coreEndpoints
	coreSubset  = corev1.EndpointSubset
	coreAddress = corev1.EndpointAddress
	corePort    = corev1.EndpointPort
)

func endpointsTable(r *room) table[coreEndpoints] {
	addresses := func(ready bool, at func(*coreSubset) *[]coreAddress) field[coreSubset] {
		t := table[coreAddress]{
			1: text("subsets.addresses.ip", maxText, func(a *coreAddress) *string { return &a.IP }),
			2: optional(r, sub(referenceTable(), self[corev1.ObjectReference]), func(a *coreAddress) **corev1.ObjectReference { return &a.TargetRef }),
			3: text("subsets.addresses.hostname", maxText, func(a *coreAddress) *string { return &a.Hostname }),
			4: optional(r, text("subsets.addresses.nodeName", maxText, self[string]), func(a *coreAddress) **string { return &a.NodeName }),
		}
		if ready {
			t = t[:4] // the Pod says where it is
		}
		return list(r, "addresses", coreAddresses, t, at)
	}
	return table[coreEndpoints]{
		metadataNumber: sub(metadata(r), func(o *coreEndpoints) *metav1.ObjectMeta { return &o.ObjectMeta }),
		2: list(r, "subsets", coreSubsets, table[coreSubset]{
			1: addresses(true, func(s *coreSubset) *[]coreAddress { return &s.Addresses }),
			2: addresses(false, func(s *coreSubset) *[]coreAddress { return &s.NotReadyAddresses }),
			3: list(r, "ports", corePorts, table[corePort]{
				1: text("subsets.ports.name", maxText, func(p *corePort) *string { return &p.Name }),
				2: number(func(p *corePort) *int32 { return &p.Port }),
			}, func(s *coreSubset) *[]corePort { return &s.Ports }),
		}, func(o *coreEndpoints) *[]coreSubset { return &o.Subsets }),
	}
}

func secretTable(r *room) table[corev1.Secret] {
	return table[corev1.Secret]{
		metadataNumber: sub(metadata(r), func(o *corev1.Secret) *metav1.ObjectMeta { return &o.ObjectMeta }),
		2: mapping(r, "data", maxLabels, maxObject, func(key string) bool { return key == "kubeconfig" },
			func(data []byte) []byte { return data }, func(o *corev1.Secret) *map[string][]byte { return &o.Data }),
		3: text("type", maxText, func(o *corev1.Secret) *corev1.SecretType { return &o.Type }),
	}
}

func nodeTable(r *room) table[corev1.Node] {
	return table[corev1.Node]{
		metadataNumber: sub(table[metav1.ObjectMeta]{
			1: text("name", maxName, func(m *metav1.ObjectMeta) *string { return &m.Name }),
		}, func(o *corev1.Node) *metav1.ObjectMeta { return &o.ObjectMeta }),
		2: sub(table[corev1.NodeSpec]{
			1: text("spec.podCIDR", maxText, func(s *corev1.NodeSpec) *string { return &s.PodCIDR }),
			7: texts(r, "spec.podCIDRs", fewTexts, func(s *corev1.NodeSpec) *[]string { return &s.PodCIDRs }),
		}, func(o *corev1.Node) *corev1.NodeSpec { return &o.Spec }),
		3: sub(table[corev1.NodeStatus]{
			5: list(r, "addresses", fewTexts, table[corev1.NodeAddress]{
				2: text("status.addresses.address", maxText, func(a *corev1.NodeAddress) *string { return &a.Address }),
			}, func(s *corev1.NodeStatus) *[]corev1.NodeAddress { return &s.Addresses }),
		}, func(o *corev1.Node) *corev1.NodeStatus { return &o.Status }),
	}
}

func partialTable(r *room) table[metav1.PartialObjectMetadata] {
	return table[metav1.PartialObjectMetadata]{
		metadataNumber: sub(metadata(r), func(o *metav1.PartialObjectMetadata) *metav1.ObjectMeta { return &o.ObjectMeta }),
	}
}
