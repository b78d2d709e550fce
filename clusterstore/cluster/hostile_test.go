package cluster

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// wire is an encoded API object.
type wire interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// FuzzJoin decodes objects from any bytes that a server might send and adds them in some order. It
// checks that endpoints can be sent to proxies.
func FuzzJoin(f *testing.F) {
	seed := func(order uint8, objects ...wire) {
		var data [4][]byte
		for i, o := range objects {
			var err error
			if data[i], err = o.Marshal(); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(order, data[0], data[1], data[2], data[3])
	}
	slice := aSlice(
		"s",
		"web",
		"http=8080,x=",
		"10.0.0.1 pod=p zone=z hint=a+b",
		"10.0.0.2 host=h",
		"10.0.0.1 unready",
		"10.0.0.3 unready pod=p zone=z node=n",
	)
	slice.Annotations = map[string]string{gatewayIdentityAnnotation: "id", remoteNameAnnotation: "a.b"}
	slice.Labels[mirrorClusterLabel] = "c"
	pod := aPod(
		"p",
		meshed,
		podAnnotation(opaqueAnnotation, "1-2,http"),
		podAnnotation(skipAnnotation, "5"),
		ownedBy("ReplicaSet", "r"),
	)
	endpoints := &coreEndpoints{ObjectMeta: inNS("web"), Subsets: []coreEndpointSubset{{
		Ports: []corev1.EndpointPort{{Name: "http", Port: 1}}, Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}},
		NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.0.0.2", Hostname: "h"}},
	}}}
	for order := range uint8(4) {
		seed(order, aService("web", "http=80"), slice, pod, endpoints)
	}
	f.Fuzz(func(t *testing.T, order uint8, service, slice, pod, endpoints []byte) {
		w := newWorld(t, func(c *Config) { c.Rules.EndpointSlices = order&1 == 0 })
		objects := []wire{&corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Pod{}}
		data := [][]byte{service, slice, pod}
		if order&1 == 1 {
			objects[1], data[1] = &coreEndpoints{}, endpoints
		}
		for i := range objects {
			i = (i + int(order>>1)) % len(objects)
			if objects[i].Unmarshal(data[i]) != nil {
				return
			}
			w.put(objects[i])
		}
		ports := []uint16{80, 0, 65535}
		for _, p := range objects[0].(*corev1.Service).Spec.Ports {
			ports = append(ports, uint16(p.Port))
		}
		for _, port := range ports {
			checkShare(
				t,
				w.Reader(serviceID(follow.JoinKey(objects[0].GetNamespace(), objects[0].GetName())), port).Read(),
			)
		}
		for _, o := range objects {
			w.del(o)
		}
		if n := w.cache.size(); n != 0 {
			t.Errorf("%d objects are still cached", n)
		}
	})
}

func checkAddrs(t *testing.T, list []*federation.Endpoint) {
	for i, e := range list {
		if ip := e.Addr.Addr(); !ip.IsValid() || ip.Is4In6() || ip.Zone() != "" || !Routable(ip) {
			t.Errorf("address %v", e.Addr)
		}
		if i > 0 && list[i-1].Addr.Compare(e.Addr) >= 0 {
			t.Errorf("%v before %v", list[i-1].Addr, e.Addr)
		}
	}
}

func checkShare(t *testing.T, share federation.Share) {
	for _, l := range share.Slices {
		checkAddrs(t, l.Endpoints)
		checkAddrs(t, l.Unready)
		for _, e := range l.Unready {
			if _, served := findAddr(l.Endpoints, e.Addr); served {
				t.Errorf("%v is both ready and not ready", e.Addr)
			}
			only := federation.Endpoint{
				Addr:     e.Addr,
				Kind:     e.Kind,
				Cluster:  e.Cluster,
				Zone:     e.Zone,
				Node:     e.Node,
				Hostname: e.Hostname,
				Twin:     e.Twin,
			}
			if !e.Equal(&only) || (e.Kind == federation.Address) != (e.Twin == "") ||
				e.Node != "" && e.Kind != federation.Pod ||
				!utf8.ValidString(e.Zone) {
				t.Errorf("not ready: %+v", e)
			}
		}
		for _, e := range l.Endpoints {
			name, _ := e.NameLabel()
			if !utf8.ValidString(
				name.Value + describe(&federation.Endpoint{Addr: e.Addr, Zone: e.Zone, Common: e.Common}),
			) {
				t.Errorf("not UTF-8: %q", describe(e))
			}
			labels := e.Common.Get().Labels
			for j := 1; j < len(labels); j++ {
				if labels[j-1].Name >= labels[j].Name {
					t.Errorf("labels %v", labels)
				}
			}
		}
	}
}

// FuzzPolicy decodes a Server and an ExternalWorkload from any JSON that a server might send. It
// checks that the two change no other endpoint except its opaque ports. Once they are deleted,
// nothing of them may stay cached.
func FuzzPolicy(f *testing.F) {
	f.Add(
		true,
		`{"metadata":{"namespace":"ns","name":"s"},`+
			`"spec":{"port":"http","proxyProtocol":"opaque","podSelector":{"matchLabels":{"app":"x"}}}}`,
		`{"metadata":{"namespace":"ns","name":"v"},`+
			`"spec":{"meshTLS":{"identity":"i","serverName":"n"},"ports":[{"name":"http","port":8080}]}}`,
		"app",
		"x",
	)
	f.Add(
		false,
		`{"metadata":{"namespace":"ns","name":"s"},"spec":{"port":8080,"proxyProtocol":"opaque",`+
			`"externalWorkloadSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}}}`,
		`{"metadata":{"namespace":"ns","name":"v","labels":{"a":"b"}},`+
			`"spec":{"ports":[{"name":"linkerd-proxy","port":-1},{"port":1.5}]}}`,
		"a",
		"\xff",
	)
	f.Add(
		false,
		`{"metadata":{"namespace":"ns"},"spec":{"port":{},"podSelector":7}}`,
		`{"metadata":{"name":"v"},"spec":null,"status":"?"}`,
		"\x00",
		"\x00",
	)
	f.Add(
		true,
		`{"spec":{"port":99999,"proxyProtocol":"opaque","podSelector":{}}}`,
		`{"metadata":{"namespace":"ns","name":"v","annotations":{"config.linkerd.io/opaque-ports":",,1-0,x"}},`+
			`"spec":{"meshTLS":{"identity":"\ud800"}}}`,
		"",
		"",
	)
	f.Fuzz(func(t *testing.T, before bool, server, workload, key, value string) {
		var s decode.Server
		var v decode.ExternalWorkload
		if json.Unmarshal([]byte(server), &s) != nil || json.Unmarshal([]byte(workload), &v) != nil {
			return // no API server accepts this metadata
		}
		w := newWorld(t, nil)
		if before {
			w.put(&s, &v)
		}
		p := aPod("p", podLabel(key, value), namedPort("http", 8080, 0))
		w.put(
			aService("web", "http=80"),
			p,
			aPod("q"),
			aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 pod=q", "10.0.0.3 ew=v", "10.0.0.4"),
		)
		if !before {
			w.put(&s, &v)
		}
		share := w.read("web", 80)
		checkShare(t, share)
		others := 0
		for _, e := range share.Slices[0].Endpoints {
			if e.Kind != federation.Workload {
				others++
			}
		}
		if readable := labels.Set(p.Labels).String(); others != 3 && readable == string([]rune(readable)) {
			t.Errorf("endpoints of other objects are missing: %s", addrs(share))
		}
		w.del(&s, &v)
		for _, e := range w.read("web", 80).Slices[0].Endpoints {
			if e.Opaque || e.Kind == federation.Workload {
				t.Errorf("after all objects were deleted: %s", describe(e))
			}
		}
		w.del(p, aPod("q"), aService("web"), aSlice("s", "web", "http=8080"))
		if n := w.cache.size(); n != 0 {
			t.Errorf("%d objects are still cached", n)
		}
	})
}
