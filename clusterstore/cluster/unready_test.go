package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"isthmus/federation"
)

// unreadyOfShare lists the addresses that are not ready, slice by slice.
func unreadyOfShare(s federation.Share) string {
	var parts []string
	for _, l := range s.Slices {
		parts = append(parts, strings.Join(describeUnready(l), ", "))
	}
	return strings.Join(parts, " | ")
}

// TestUnready: which addresses are known and not ready, at which port, and what is known
// of them.
func TestUnready(t *testing.T) {
	const web = "unready pod 10.0.0.1:8080 zone=z node=n host=h twin=ns/p"
	inWorkload := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p unready")
	inWorkload.Endpoints[0].TargetRef.Namespace = "workload"
	for _, x := range []struct {
		name string
		port uint16
		o    k8sruntime.Object
		want string
	}{
		{"Pod that is not known", 80, aSlice("s", "web", "http=8080", "10.0.0.1 pod=p zone=z node=n host=h hint=z unready"), web},
		{"Pod in a namespace of a telling name", 80, inWorkload, "unready pod 10.0.0.1:8080 twin=workload/p"},
		{"several addresses", 80, aSlice("s", "web", "http=8080", "10.0.0.1+fd00::1 unready"), "unready address 10.0.0.1:8080, unready address [fd00::1]:8080"},
		{"addresses that no endpoint has", 80, aSlice("s", "web", "http=8080", "127.0.0.1 unready", "x unready"), ""},
		{"zone that can't be sent", 80, aSlice("s", "web", "http=8080", "10.0.0.1 pod=p zone=\xff unready"), ""},
		{"any port", federation.AnyPort, aSlice("s", "web", "other=8080", "10.0.0.1 unready"), "unready address 10.0.0.1:0"},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, change := range []func(*Config){nil, withAddresses} {
				w := newWorld(t, change)
				w.put(aService("web", "http=80"), x.o)
				if got := unreadyOfShare(w.read("web", x.port)); got != x.want {
					t.Errorf("got %q, want %q", got, x.want)
				}
			}
		})
	}
}

// TestUnreadyOfEndpoints: the same for the older Endpoints objects.
func TestUnreadyOfEndpoints(t *testing.T) {
	node := "n"
	w := newWorld(t, func(c *Config) { c.Rules.EndpointSlices = false })
	w.put(aService("web", "http=80"), &coreEndpoints{ObjectMeta: inNS("web"), Subsets: []coreEndpointSubset{{
		Ports:     []corev1.EndpointPort{{Name: "http", Port: 8080}},
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}},
		NotReadyAddresses: []corev1.EndpointAddress{
			{IP: "10.0.0.3", Hostname: "h", NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "p"}},
			{IP: "10.0.0.2", NodeName: &node}, {IP: "10.0.0.5", TargetRef: &corev1.ObjectReference{Kind: "Node", Name: "x"}}},
	}, {
		Ports:             []corev1.EndpointPort{{Name: "http", Port: 8081}},
		NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}, {IP: "10.0.0.4"}},
	}, {
		Ports:             []corev1.EndpointPort{{Name: "http", Port: 8080}},
		NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}},
	}, {
		Ports:             []corev1.EndpointPort{{Name: "other", Port: 1}},
		NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.0.0.6"}},
	}}})
	want := "unready address 10.0.0.1:8081, unready address 10.0.0.2:8080, unready pod 10.0.0.3:8080 node=n host=h twin=ns/p, unready address 10.0.0.4:8081"
	if got := unreadyOfShare(w.read("web", 80)); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// TestUnreadyAlone: an address that is not ready is not connected with its Pod, whose changes are none of it.
func TestUnreadyAlone(t *testing.T) {
	w := newWorld(t, nil)
	last := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p node=n unready")
	w.put(aService("web", "http=80"), last)
	w.marked()
	w.put(last, aPod("p"), aPod("p", meshed), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p node=n unready hint=a"))
	w.del(aPod("p"))
	if marked := w.marked(); len(marked) > 0 || w.state.size() != 2 {
		t.Errorf("reported %q, %d objects are kept", marked, w.state.size())
	}
}
