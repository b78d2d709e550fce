package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	clienttesting "k8s.io/client-go/testing"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/crd"
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

func (f *fakeCRDs) servers() decodetest.Lister[*crd.ServerList] {
	return gentype.NewFakeClientWithList(f.Fake, "", serversResource, schema.GroupVersionKind(crd.PolicyVersion.WithKind("Server")),
		func() *crd.Server { return &crd.Server{} }, func() *crd.ServerList { return &crd.ServerList{} },
		func(dst, src *crd.ServerList) { dst.ListMeta = src.ListMeta },
		func(l *crd.ServerList) []*crd.Server { return gentype.ToPointerSlice(l.Items) },
		func(l *crd.ServerList, items []*crd.Server) { l.Items = gentype.FromPointerSlice(items) })
}

func (f *fakeCRDs) workloads() decodetest.Lister[*crd.ExternalWorkloadList] {
	return gentype.NewFakeClientWithList(f.Fake, "", workloadsResource, schema.GroupVersionKind(crd.WorkloadVersion.WithKind("ExternalWorkload")),
		func() *crd.ExternalWorkload { return &crd.ExternalWorkload{} }, func() *crd.ExternalWorkloadList { return &crd.ExternalWorkloadList{} },
		func(dst, src *crd.ExternalWorkloadList) { dst.ListMeta = src.ListMeta },
		func(l *crd.ExternalWorkloadList) []*crd.ExternalWorkload { return gentype.ToPointerSlice(l.Items) },
		func(l *crd.ExternalWorkloadList, items []*crd.ExternalWorkload) {
			l.Items = gentype.FromPointerSlice(items)
		})
}

func (f *fakeCRDs) profiles() decodetest.Lister[*crd.ServiceProfileList] {
	return gentype.NewFakeClientWithList(f.Fake, "", profilesResource, schema.GroupVersionKind(crd.ProfileVersion.WithKind("ServiceProfile")),
		func() *crd.ServiceProfile { return &crd.ServiceProfile{} }, func() *crd.ServiceProfileList { return &crd.ServiceProfileList{} },
		func(dst, src *crd.ServiceProfileList) { dst.ListMeta = src.ListMeta },
		func(l *crd.ServiceProfileList) []*crd.ServiceProfile { return gentype.ToPointerSlice(l.Items) },
		func(l *crd.ServiceProfileList, items []*crd.ServiceProfile) {
			l.Items = gentype.FromPointerSlice(items)
		})
}

func (f *fakeCRDs) serviceExports() decodetest.Lister[*mcs.ServiceExportList] {
	return gentype.NewFakeClientWithList(f.Fake, "", exportsResource, schema.GroupVersionKind(mcs.SchemeGroupVersion.WithKind("ServiceExport")),
		func() *mcs.ServiceExport { return &mcs.ServiceExport{} }, func() *mcs.ServiceExportList { return &mcs.ServiceExportList{} },
		func(dst, src *mcs.ServiceExportList) { dst.ListMeta = src.ListMeta },
		func(l *mcs.ServiceExportList) []*mcs.ServiceExport { return gentype.ToPointerSlice(l.Items) },
		func(l *mcs.ServiceExportList, items []*mcs.ServiceExport) { l.Items = gentype.FromPointerSlice(items) })
}

func (f *fakeCRDs) serviceImports() decodetest.Lister[*mcs.ServiceImportList] {
	return gentype.NewFakeClientWithList(f.Fake, "", importsResource, schema.GroupVersionKind(mcs.SchemeGroupVersion.WithKind("ServiceImport")),
		func() *mcs.ServiceImport { return &mcs.ServiceImport{} }, func() *mcs.ServiceImportList { return &mcs.ServiceImportList{} },
		func(dst, src *mcs.ServiceImportList) { dst.ListMeta = src.ListMeta },
		func(l *mcs.ServiceImportList) []*mcs.ServiceImport { return gentype.ToPointerSlice(l.Items) },
		func(l *mcs.ServiceImportList, items []*mcs.ServiceImport) { l.Items = gentype.FromPointerSlice(items) })
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
