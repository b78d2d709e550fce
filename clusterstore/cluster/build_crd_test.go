package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/decode/decodetest"
)

// fakeCRDs is a fake API of custom resources.
type fakeCRDs struct {
	*clienttesting.Fake
	trackers map[string]clienttesting.ObjectTracker // by resource
}

func newFakeCRDs() *fakeCRDs {
	f := &fakeCRDs{Fake: &clienttesting.Fake{}, trackers: make(map[string]clienttesting.ObjectTracker)}
	scheme := crd.NewScheme()
	if err := mcs.Install(scheme); err != nil {
		panic(err)
	}
	for _, resource := range []string{"servers", "externalworkloads", "serviceprofiles", "serviceexports", "serviceimports"} {
		tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
		f.trackers[resource] = tracker
		f.AddReactor("*", resource, clienttesting.ObjectReaction(tracker))
		f.AddWatchReactor(resource, func(a clienttesting.Action) (bool, watch.Interface, error) {
			w, err := tracker.Watch(a.GetResource(), a.GetNamespace())
			return true, w, err
		})
	}
	return f
}

var (
	serversResource   = crd.PolicyVersion.WithResource("servers")
	workloadsResource = crd.WorkloadVersion.WithResource("externalworkloads")
	profilesResource  = crd.ProfileVersion.WithResource("serviceprofiles")
	exportsResource   = mcs.SchemeGroupVersion.WithResource("serviceexports")
	importsResource   = mcs.SchemeGroupVersion.WithResource("serviceimports")
)

// custom is a source of the custom resources of one kind.
func custom[O decode.Object, L runtime.Object](f *fakeCRDs, of schema.GroupVersionResource, kind string) decode.Source[O] {
	return decodetest.Fake[O](func(_ context.Context, o metav1.ListOptions) (L, error) {
		var none L
		list, err := f.Invokes(clienttesting.NewRootListActionWithOptions(of, of.GroupVersion().WithKind(kind), o), none)
		if err != nil {
			return none, err
		}
		return list.(L), nil
	}, func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return f.InvokesWatch(clienttesting.NewRootWatchActionWithOptions(of, o))
	})
}

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

// aWorkload has ports "name=number".
func aWorkload(name string, ports ...string) *crd.ExternalWorkload {
	o := &crd.ExternalWorkload{ObjectMeta: inNS(name)}
	o.Spec.MeshTLS = crd.MeshTLS{Identity: "spiffe://root/" + name, ServerName: name + ".example"}
	for _, p := range ports {
		name, number := splitPort(p)
		o.Spec.Ports = append(o.Spec.Ports, crd.PortSpec{Name: name, Port: *number})
	}
	return o
}
