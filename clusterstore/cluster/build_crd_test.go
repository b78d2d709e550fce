package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/crd"
)

// aServer makes a port of the Pods with these labels ("key=value,key=value")
// opaque; the port is a number or a name.
func aServer(name, port, labels string, options ...func(*crd.Server)) *crd.Server {
	selector, err := metav1.ParseToLabelSelector(labels)
	if err != nil {
		panic(err)
	}
	o := &crd.Server{ObjectMeta: inNS(name), Spec: crd.ServerSpec{
		PodSelector: selector, Port: intstr.Parse(port), ProxyProtocol: crd.ProtocolOpaque,
	}}
	for _, f := range options {
		f(o)
	}
	return o
}

// forWorkloads lets a Server select ExternalWorkloads instead of Pods.
func forWorkloads(o *crd.Server) {
	o.Spec.PodSelector, o.Spec.ExternalWorkloadSelector = nil, o.Spec.PodSelector
}

func protocol(name string) func(*crd.Server) {
	return func(o *crd.Server) { o.Spec.ProxyProtocol = name }
}

// aWorkload has ports "name=number" or "name=number/PROTOCOL".
func aWorkload(name string, ports ...string) *crd.ExternalWorkload {
	o := &crd.ExternalWorkload{ObjectMeta: inNS(name)}
	o.Spec.MeshTLS = crd.MeshTLS{Identity: "spiffe://root/" + name, ServerName: name + ".example"}
	for _, p := range ports {
		name, number, protocol := splitPort(p)
		o.Spec.Ports = append(o.Spec.Ports, crd.PortSpec{Name: name, Port: *number, Protocol: string(protocol)})
	}
	return o
}
