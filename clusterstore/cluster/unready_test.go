package cluster

import (
	"slices"
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

// TestUnreadyChanges: each change of an address that is not ready is reported and read;
// what is the same keeps its pointer. Its Pod is not looked at.
func TestUnreadyChanges(t *testing.T) {
	w := newWorld(t, nil)
	r := w.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, 80)
	var before *federation.Slice
	read := func(want string) *federation.Slice {
		t.Helper()
		share := r.Read()
		var got []string
		if len(share.Slices) == 1 {
			got = describeAll(share.Slices[0])
		}
		if text := strings.Join(got, ", "); text != want || len(share.Slices) > 1 {
			t.Fatalf("got %q, want %q", text, want)
		}
		if len(got) == 0 {
			return nil
		}
		return share.Slices[0]
	}
	const bare, twin = "10.0.0.2:8080 namespace:ns service:web", " twin=ns/p"
	w.put(aService("web", "http=80"))
	steps := []struct{ first, want string }{ // of the slice's addresses
		{"10.0.0.1 pod=p node=n unready", "unready pod 10.0.0.1:8080 node=n" + twin},
		{"10.0.0.1 pod=p node=m unready", "unready pod 10.0.0.1:8080 node=m" + twin},
		{"10.0.0.1 pod=p node=m zone=z unready", "unready pod 10.0.0.1:8080 zone=z node=m" + twin},
		{"10.0.0.1 pod=p node=m zone=z host=h unready", "unready pod 10.0.0.1:8080 zone=z node=m host=h" + twin},
		{"10.0.0.1 host=h unready", "unready address 10.0.0.1:8080 host=h"},
		{"10.0.0.3 host=h unready", "unready address 10.0.0.3:8080 host=h"},
		{"10.0.0.3 host=h unready terminating", ""},
	}
	for i, step := range steps {
		w.marked()
		w.put(aSlice("s", "web", "http=8080", "10.0.0.2", step.first))
		if marked := w.marked(); !slices.Equal(marked, []string{"web"}) {
			t.Errorf("%s: reported %q", step.first, marked)
		}
		want := bare
		if step.want != "" {
			want += ", " + step.want
		}
		now := read(want)
		if i > 0 && (now == before || now.Endpoints[0] != before.Endpoints[0]) {
			t.Errorf("%s: the pointers are wrong", step.first)
		}
		before = now
	}
	last := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p node=n unready")
	w.put(last)
	before = read("unready pod 10.0.0.1:8080 node=n" + twin)
	w.marked()
	w.put(last, aPod("p"), aPod("p", meshed), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p node=n unready hint=a"))
	w.del(aPod("p"))
	if marked := w.marked(); len(marked) > 0 || w.state.size() != 2 {
		t.Errorf("reported %q, %d objects are kept", marked, w.state.size())
	}
	if now := read("unready pod 10.0.0.1:8080 node=n" + twin); now != before {
		t.Error("another pointer")
	}
	w.put(aSlice("s", "web", "http=8080", "10.0.0.1 pod=p node=n unready", "10.0.0.5 unready"))
	if now := read("unready pod 10.0.0.1:8080 node=n" + twin + ", unready address 10.0.0.5:8080"); now.Unready[0] != before.Unready[0] {
		t.Error("another pointer to an equal address")
	}
	w.put(aPod("p"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"))
	if now := read("10.0.0.1:8080 namespace:ns service:web pod:p serviceaccount:default node=node-1 twin=ns/p"); now.Endpoints[0].Twin != before.Unready[0].Twin {
		t.Error("another Twin once it is ready")
	}
	w.del(last)
	read("")
}
