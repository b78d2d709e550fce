package externalworkload

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/decode/decodetest"
	"isthmus/clusterstore/kube"
	"isthmus/clusterstore/typed/typedtest"
)

// fakeWorkloads is an API of ExternalWorkloads in memory.
type fakeWorkloads struct {
	*clienttesting.Fake
	tracker clienttesting.ObjectTracker
}

var workloadsResource = crd.WorkloadVersion.WithResource("externalworkloads")

func newFakeWorkloads() *fakeWorkloads {
	scheme := crd.NewScheme()
	return fakeWorkloadsOn(clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder()), nil)
}

// fakeWorkloadsOn is what a client sees of an API whose requests first go to react.
func fakeWorkloadsOn(tracker clienttesting.ObjectTracker, react clienttesting.ReactionFunc) *fakeWorkloads {
	f := &fakeWorkloads{&clienttesting.Fake{}, tracker}
	if react != nil {
		f.AddReactor("*", "externalworkloads", react)
	}
	f.AddReactor("*", "externalworkloads", clienttesting.ObjectReaction(tracker))
	f.AddWatchReactor("externalworkloads", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if react != nil {
			if handled, _, err := react(a); handled {
				return true, nil, err
			}
		}
		w, err := tracker.Watch(a.GetResource(), a.GetNamespace())
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

// newKubeClient is a client of the fakes. All other kinds are absent.
func newKubeClient(api *fake.Clientset, workloads *fakeWorkloads) *kube.Client {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		panic(err)
	}
	c := &kube.Client{Clients: typedtest.Clients(api)}
	c.Sources = decodetest.Sources(c.Clients, metadatafake.NewSimpleMetadataClient(scheme))
	c.Sources.Workloads = decodetest.New[*crd.ExternalWorkload](workloads.in(""))
	c.Sources.Servers = decodetest.New[*crd.Server](absent[*crd.ServerList]{})
	c.Sources.Profiles = decodetest.New[*crd.ServiceProfile](absent[*crd.ServiceProfileList]{})
	return c
}

// absent is a kind that an API server does not have.
type absent[L runtime.Object] struct{}

var errAbsent = apierrors.NewNotFound(schema.GroupResource{}, "")

func (absent[L]) List(context.Context, metav1.ListOptions) (list L, err error) {
	return list, errAbsent
}

func (absent[L]) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errAbsent
}
