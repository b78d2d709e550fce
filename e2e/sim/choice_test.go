package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"isthmus/e2e/object"
)

// newSteered is a world of three linked clusters that each have two endpoints of a service, one of them in zone-1; the last one's
// second is not ready. The local one and c001 are in region-1.
func newSteered(t *testing.T) *world {
	w := &world{cfg: Config{Services: 1}, flags: gatewayFlags{prefer: "any", minReady: "1", whenLost: "keep", cordonLocal: "false"}, written: func(string) {}}
	for i := range 3 {
		c := &cluster{objects: newObjects(), name: fmt.Sprintf("c%03d", i), number: i}
		c.link.accepted, c.link.secrets = "link", []secret{{name: "link", annotations: map[string]string{}}}
		c.set(newNode("node-1", "", regions[i/2]), true)
		c.set(newService("s00"), true)
		slice := object.Slice(namespace, "s00", "000")
		for n, zone := range []string{"zone-1", "zone-2"} {
			pod := newPod(fmt.Sprint("pod-", n), "s00", look{})
			c.set(pod, true)
			slice.Endpoints = append(slice.Endpoints, newEndpoint(fmt.Sprintf("10.%d.0.%d", i, n), pod.Name, zone))
		}
		*slice.Endpoints[1].Conditions.Ready = i < 2
		c.set(slice, true)
		w.clusters = append(w.clusters, c)
	}
	return w
}

// TestChoice: which endpoints clients hold in the end, as the cluster's number and the last of the address.
func TestChoice(t *testing.T) {
	cordon := func(c int, value string) func(*world) {
		return func(w *world) { w.clusters[c].link.secrets[0].annotations[cordonKey] = value }
	}
	annotated := func(prefer string, minReady ...string) map[string]string {
		a := map[string]string{preferKey: prefer}
		for _, text := range minReady {
			a[minReadyKey] = text
		}
		return a
	}
	for _, x := range []struct {
		name        string
		annotations map[string]string
		zone        string
		change      func(*world)
		want        string
	}{
		{name: "nothing is asked for", want: "00 01 10 11 20"},
		{name: "the first tier suffices", annotations: annotated("local, any"), want: "00 01"},
		{name: "it does not", annotations: annotated("local, c002, any", "3"), want: "00 01 20"},
		{name: "half are ready", annotations: annotated("c002, any", "50%"), want: "20"},
		{name: "not so many are", annotations: annotated("c002, any", "51%"), want: "00 01 10 11 20"},
		{name: "nothing suffices", annotations: annotated("local, c001", "100"), want: "00 01 10 11"},
		{name: "zones", annotations: annotated("zone, any"), zone: "zone-1", want: "00 10 20"},
		{name: "an unknown zone", annotations: annotated("zone, remote"), want: "10 11 20"},
		{name: "the region", annotations: annotated("region"), want: "00 01 10 11"},
		{name: "joined terms", annotations: annotated("cluster/c001 + c002,any"), want: "10 11 20"},
		{name: "no such cluster", annotations: annotated("nowhere, c001"), want: "10 11"},
		{name: "what can't be read", annotations: annotated("local,,any", "-3"), want: "00 01 10 11 20"},
		{name: "the gateway's default", change: func(w *world) { w.flags.prefer = "local, any" }, want: "00 01"},
		{name: "withdrawn", change: cordon(1, "true"), want: "00 01 20"},
		{name: "withdrawn from its tier", annotations: annotated("c001, local"), change: cordon(1, "true"), want: "00 01"},
		{name: "last resort", change: cordon(1, "last-resort"), want: "00 01 20"},
		{name: "the last resort is needed", annotations: annotated("c001, c002"), change: func(w *world) {
			cordon(1, "last-resort")(w)
			cordon(2, "last-resort")(w)
		}, want: "10 11 20"},
		{name: "a last resort that nothing names", annotations: annotated("c001"), change: func(w *world) {
			cordon(1, "true")(w)
			cordon(2, "last-resort")(w)
		}, want: ""},
		{name: "lost", annotations: annotated("c001, any"), change: func(w *world) {
			w.clusters[1].link.secrets[0].annotations[whenLostKey] = "withdraw"
			w.clusters[1].fault = &fault{refuse, true}
		}, want: "00 01 20"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newSteered(t)
			o := object.Federated(namespace, "s00-all", "s00", "s00@c001", "s00@c002")
			maps.Copy(o.Annotations, x.annotations)
			w.clusters[0].set(o, true)
			if x.change != nil {
				x.change(w)
			}
			if got := w.ask(view{"s00-all", x.zone}).String(); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

// TestSingle: for a Service with one member only zones differ.
func TestSingle(t *testing.T) {
	w := newSteered(t)
	for _, o := range []*corev1.Service{newService("s00"), object.Mirror(namespace, "s00-c001", "c001", "s00")} {
		o.Annotations = map[string]string{preferKey: "zone, nowhere"}
		w.clusters[0].set(o, true)
	}
	for _, x := range []struct{ service, zone, cordon, want string }{
		{"s00", "zone-1", "false", "00"}, {"s00", "", "false", "00 01"},
		{"s00-c001", "zone-2", "false", "11"}, {"s00-c001", "zone-3", "false", "10 11"},
		{"s00-c001", "zone-2", "last-resort", "11"}, {"s00-c001", "zone-2", "true", ""},
	} {
		w.clusters[1].link.secrets[0].annotations[cordonKey] = x.cordon
		if a := w.ask(view{x.service, x.zone}); a.String() != x.want || !a.exists {
			t.Errorf("%+v: got %q, exists=%v", x, a, a.exists)
		}
	}
}

func (a answer) String() string {
	var list []string
	for addr := range a.endpoints {
		ip := addr.Addr().As4()
		list = append(list, fmt.Sprint(ip[1])+fmt.Sprint(ip[3]))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
