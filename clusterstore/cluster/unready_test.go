package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

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
