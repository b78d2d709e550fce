package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/decode"
)

// aServer makes a port of the Pods with these labels ("key=value,key=value")
// opaque; the port is a number or a name.
func aServer(name, port, labels string, options ...func(*decode.Server)) *decode.Server {
	selector, err := metav1.ParseToLabelSelector(labels)
	if err != nil {
		panic(err)
	}
	o := &decode.Server{ObjectMeta: inNS(name), Spec: decode.ServerSpec{
		PodSelector: selector, Port: intstr.Parse(port), ProxyProtocol: decode.ProtocolOpaque,
	}}
	for _, f := range options {
		f(o)
	}
	return o
}

// forWorkloads lets a Server select ExternalWorkloads instead of Pods.
func forWorkloads(o *decode.Server) {
	o.Spec.PodSelector, o.Spec.ExternalWorkloadSelector = nil, o.Spec.PodSelector
}

func protocol(name string) func(*decode.Server) {
	return func(o *decode.Server) { o.Spec.ProxyProtocol = name }
}

// aWorkload has ports "name=number" or "name=number/PROTOCOL".
func aWorkload(name string, ports ...string) *decode.ExternalWorkload {
	o := &decode.ExternalWorkload{ObjectMeta: inNS(name)}
	o.Spec.MeshTLS = decode.MeshTLS{Identity: "spiffe://root/" + name, ServerName: name + ".example"}
	for _, p := range ports {
		name, number, protocol := splitPort(p)
		o.Spec.Ports = append(o.Spec.Ports, decode.PortSpec{Name: name, Port: *number, Protocol: string(protocol)})
	}
	return o
}
