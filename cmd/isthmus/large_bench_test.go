package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path"
	"slices"
	"sync"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/local"
)

// BenchmarkOneSlice is the whole way of a change, in sets of very different
// sizes: an API server reports that one of a slice's 100 endpoints is not ready, or
// is again, and a client gets the message. Reading the slice's 100 endpoints from
// JSON is in it, which is most of it, and so are two sockets.
func BenchmarkOneSlice(b *testing.B) {
	for _, n := range []int{500, 5000, 50_000} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) { benchmarkOneSlice(b, n/100) })
	}
}

func benchmarkOneSlice(b *testing.B, count int) {
	api := newCrowdAPI(count)
	stream := api.serve(b)
	for seen := 0; seen < count*100; {
		u, err := stream.Recv()
		if err != nil {
			b.Fatal(err)
		}
		seen += len(u.GetAdd().GetAddrs())
	}
	var events [2][]byte
	for i, ready := range []bool{true, false} {
		slice := api.slices[count/2]
		slice.Endpoints = slices.Clone(slice.Endpoints)
		slice.Endpoints[42].Conditions.Ready = &ready
		events[i] = eventInProtobuf("MODIFIED", "discovery.k8s.io/v1", "EndpointSlice", &slice)
	}
	turn := 0
	b.ReportAllocs()
	for b.Loop() {
		turn = 1 - turn
		api.events <- events[turn]
		u, err := stream.Recv()
		if err != nil || len(u.GetAdd().GetAddrs())+len(u.GetRemove().GetAddrs()) != 1 {
			b.Fatal(u, err)
		}
	}
}

// crowdAPI is as much of an API server as a cluster needs that has one Service
// with many meshed pods: lists, and a watch of its slices.
type crowdAPI struct {
	lists  map[string][]byte // by resource
	slices []discoveryv1.EndpointSlice
	events chan []byte // to the watch of slices
}

func newCrowdAPI(count int) *crowdAPI {
	api := &crowdAPI{events: make(chan []byte)}
	version := metav1.ListMeta{ResourceVersion: "1"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "1"}
	}
	web := corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	var pods []corev1.Pod
	for s := range count {
		slice := discoveryv1.EndpointSlice{
			TypeMeta:   metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta: meta(fmt.Sprintf("web-%03d", s)), AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
		}
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
		for i := range 100 {
			p := corev1.Pod{ObjectMeta: meta(fmt.Sprintf("web-5f79f964bc-%03d-%02d", s, i))}
			p.Labels = map[string]string{"linkerd.io/control-plane-ns": "linkerd"}
			p.Spec.Containers = []corev1.Container{{Name: "linkerd-proxy", Env: []corev1.EnvVar{
				{Name: "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", Value: "0.0.0.0:4143"},
				{Name: "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", Value: "0.0.0.0:4191"},
				{Name: "LINKERD2_PROXY_CONTROL_LISTEN_ADDR", Value: "0.0.0.0:4190"},
			}}}
			pods = append(pods, p)
			ip := netip.AddrFrom4([4]byte{10, byte(s >> 8), byte(s), byte(i)})
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{ip.String()}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: p.Name},
			})
		}
		api.slices = append(api.slices, slice)
	}
	api.lists = map[string][]byte{
		"services":       inProtobuf("v1", "ServiceList", &corev1.ServiceList{ListMeta: version, Items: []corev1.Service{web}}),
		"pods":           inProtobuf("v1", "PodList", &corev1.PodList{ListMeta: version, Items: pods}),
		"endpointslices": inProtobuf("discovery.k8s.io/v1", "EndpointSliceList", &discoveryv1.EndpointSliceList{ListMeta: version, Items: api.slices}),
	}
	return api
}

func (api *crowdAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, query := path.Base(r.URL.Path), r.URL.Query()
	list, ok := api.lists[resource]
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound) // it is optional
	case query.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity) // it is an old one
	case query.Get("watch") == "":
		_, _ = w.Write(list) // or the other side has gone
	default:
		_ = http.NewResponseController(w).Flush()
		events := api.events
		if resource != "endpointslices" {
			events = nil
		}
		for {
			select {
			case e := <-events:
				_, _ = w.Write(e)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

// serve runs the API server, and a gateway's parts on it, until the benchmark
// ends, and returns a stream of the Service.
func (api *crowdAPI) serve(b *testing.B) pb.Destination_GetClient {
	apiserver := httptest.NewServer(api)
	table := federation.NewTable(federation.Options{})
	here, err := local.New(local.Options{
		REST: &rest.Config{Host: apiserver.URL}, TrustDomain: "cluster.local", Table: table,
		Rules: cluster.Rules{ControllerNamespace: "linkerd", EndpointSlices: true},
	})
	if err != nil {
		b.Fatal(err)
	}
	server, err := grpcapi.New(table, here, grpcapi.Options{ClusterDomain: "cluster.local", H2Upgrade: true, Pace: -1, Log: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = here.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		apiserver.CloseClientConnections()
		apiserver.Close()
		running.Wait()
	})
	conn := connect(b, server)
	<-here.Synced()
	stream, err := pb.NewDestinationClient(conn).Get(ctx, &pb.GetDestination{Path: "web.ns.svc.cluster.local:80"})
	if err != nil {
		b.Fatal(err)
	}
	return stream
}
