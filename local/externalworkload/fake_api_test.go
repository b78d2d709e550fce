package externalworkload

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	clienttesting "k8s.io/client-go/testing"

	"isthmus/clusterstore/crd"
)

// fakeWorkloads is an API of ExternalWorkloads in memory.
type fakeWorkloads struct {
	*clienttesting.Fake
	tracker clienttesting.ObjectTracker
}

var workloadsResource = crd.WorkloadVersion.WithResource("externalworkloads")

func newFakeWorkloads() *fakeWorkloads {
	scheme := crd.NewScheme()
	f := &fakeWorkloads{&clienttesting.Fake{}, clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())}
	f.AddReactor("*", "externalworkloads", clienttesting.ObjectReaction(f.tracker))
	f.AddWatchReactor("externalworkloads", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := f.tracker.Watch(a.GetResource(), a.GetNamespace())
		return true, w, err
	})
	return f
}

func (f *fakeWorkloads) in(namespace string) *gentype.FakeClientWithList[*crd.ExternalWorkload, *crd.ExternalWorkloadList] {
	return gentype.NewFakeClientWithList(f.Fake, namespace, workloadsResource, crd.WorkloadVersion.WithKind("ExternalWorkload"),
		func() *crd.ExternalWorkload { return &crd.ExternalWorkload{} }, func() *crd.ExternalWorkloadList { return &crd.ExternalWorkloadList{} },
		func(dst, src *crd.ExternalWorkloadList) { dst.ListMeta = src.ListMeta },
		func(l *crd.ExternalWorkloadList) []*crd.ExternalWorkload { return gentype.ToPointerSlice(l.Items) },
		func(l *crd.ExternalWorkloadList, items []*crd.ExternalWorkload) {
			l.Items = gentype.FromPointerSlice(items)
		})
}

func (f *fakeWorkloads) List(ctx context.Context, o metav1.ListOptions) (*crd.ExternalWorkloadList, error) {
	return f.in("").List(ctx, o)
}

func (f *fakeWorkloads) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return f.in("").Watch(ctx, o)
}

// IsWatchListSemanticsUnSupported is what informers ask, by this name.
func (f *fakeWorkloads) IsWatchListSemanticsUnSupported() bool { return true }
