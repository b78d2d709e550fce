package decode

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Object is what is decoded: a struct of Kubernetes, of the MCS-API or of package crd, in which only the
// fields that are used are set.
type Object interface{ metav1.Object }

// Source lists and watches one kind of an API server. It is safe for concurrent use.
type Source[O Object] interface {
	// List requests a list, or one page of it, and calls each for every object as it comes.
	// The object, and all that it refers to, texts included, is valid until each returns:
	// keep copies. A refused object comes without O, and the list goes on. An error of each
	// ends the list and is returned. The ListMeta is complete once List has returned.
	List(ctx context.Context, o metav1.ListOptions, each func(O, *Refused) error) (metav1.ListMeta, error)
	// Watch begins a watch, which ends with ctx.
	Watch(ctx context.Context, o metav1.ListOptions) (Events[O], error)
}

// Events are those of one watch. Its methods are called by one goroutine at a time.
type Events[O Object] interface {
	// Next waits for the next event and calls each for it, whose error it returns. The
	// object is valid until each returns, as that of [Source].List. An ERROR event is not
	// for each: it is returned as an [apierrors.APIStatus]. io.EOF: the server has ended
	// the watch. A Next that waits ends with the watch's context.
	Next(each func(Event[O]) error) error
	// Close frees what the watch has. Call it also if its context has ended.
	Close() error
}

// Event is one of a watch: ADDED, MODIFIED, DELETED or BOOKMARK. The objects of the last two
// are never refused. They may have no more than their names and version.
type Event[O Object] struct {
	Type    watch.EventType
	Object  O
	Refused *Refused // not nil: there is no Object
}

// Refused is an object that is not decoded: it is too large, or beyond a bound.
type Refused struct {
	Namespace, Name string // which it has, as any other
	ResourceVersion string
	Err             error
}

// Sources are those of one API server, for all namespaces. Their lists and watches have the
// limits of this package.
type Sources struct {
	Pods           Source[*corev1.Pod]
	Services       Source[*corev1.Service]
	EndpointSlices Source[*discoveryv1.EndpointSlice]
	//lint:ignore SA1019 they are read with --enable-endpoint-slices=false
	Endpoints Source[*corev1.Endpoints]
	// Secrets is for those of a namespace.
	Secrets func(namespace string) Source[*corev1.Secret]

	// Nodes are Nodes with their addresses and Pod CIDRs. An API server sends some ten kilobytes for each.
	Nodes Source[*corev1.Node]
	// Of these only the metadata is read.
	ReplicaSets, Jobs, NodeMetadata, Namespaces Source[*metav1.PartialObjectMetadata]

	// Serves asks API discovery whether the API server has a resource in one of these versions. An error means that
	// it is not known: discovery fails, is forbidden, contradicts itself, or answers what no API server would. It
	// takes one request, and one for each version of the group that the server has.
	Serves func(ctx context.Context, resource string, in ...schema.GroupVersion) (bool, error)

	// Document asks for a path and decodes what is answered, which is JSON of 1 MiB at most, as encoding/json does.
	// An answer other than 200 is an error as those of sources are. Fakes have none.
	Document func(ctx context.Context, path string, into any) error

	Servers   Source[*Server]
	Workloads Source[*ExternalWorkload]
	Profiles  Source[*ServiceProfile]
	// Links is for those of a namespace, in the newest version that the API server has.
	Links func(namespace string) Source[*Link]
	// ServiceExports and ServiceImports are read in the newest of MCSVersions that the API server has.
	ServiceExports Source[*mcs.ServiceExport]
	ServiceImports Source[*mcs.ServiceImport]
	// MCSVersion returns the version in which ServiceImports were read last; empty: they never were. It does not block.
	MCSVersion func() string
}

// MCSVersions are those of the MCS-API, the newest first. They do not differ in what is decoded.
var MCSVersions = []schema.GroupVersion{
	{Group: mcs.GroupName, Version: "v1beta1"},
	{Group: mcs.GroupName, Version: "v1alpha1"},
}
