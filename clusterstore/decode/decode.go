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

// Object is a decoded object: a struct of Kubernetes, the MCS-API or this package. Only the used
// fields are set.
type Object interface{ metav1.Object }

// Source lists and watches one kind of object of an API server. A Source is safe for concurrent
// use.
type Source[O Object] interface {
	// List requests a list, or one page of it, and calls each for every object as it arrives. The
	// object and everything that it refers to, including strings, is only valid until each returns,
	// so each must copy what it keeps. For a refused object, the Object is nil, and the list
	// continues. If each returns an error, List stops and returns it. The ListMeta is complete once
	// List has returned.
	List(ctx context.Context, o metav1.ListOptions, each func(O, *Refused) error) (metav1.ListMeta, error)
	// Watch starts a watch, which ends with ctx.
	Watch(ctx context.Context, o metav1.ListOptions) (Events[O], error)
}

// Events are the events of one watch. They are not safe for concurrent use.
type Events[O Object] interface {
	// Next waits for the next event, calls each for it, and returns the error of each. The object
	// is only valid until each returns, as for [Source].List. For an ERROR event, Next returns an
	// [apierrors.APIStatus] without calling each. If the server has ended the watch, Next returns
	// io.EOF. When the watch's context ends, Next returns.
	Next(each func(Event[O]) error) error
	// Close frees the resources of the watch. Call Close even if the context has ended.
	Close() error
}

// Event is an event of type ADDED, MODIFIED, DELETED or BOOKMARK. The objects of the last two types
// are never refused, and may only have names and a version.
type Event[O Object] struct {
	Type    watch.EventType
	Object  O
	Refused *Refused // if not nil, there is no Object
}

// Refused is an object that is not decoded, because it is too large, exceeds another limit or is
// malformed.
type Refused struct {
	Namespace, Name string // valid names, as for any other object
	ResourceVersion string
	Err             error
}

// Sources are the sources of one API server, for all namespaces unless noted otherwise. Their lists
// and watches have the limits of this package.
type Sources struct {
	Pods           Source[*corev1.Pod]
	Services       Source[*corev1.Service]
	EndpointSlices Source[*discoveryv1.EndpointSlice]
	//lint:ignore SA1019 they are read with --enable-endpoint-slices=false
	Endpoints Source[*corev1.Endpoints]
	// Secrets returns the source for a namespace.
	Secrets func(namespace string) Source[*corev1.Secret]

	// Nodes has Nodes with their addresses and Pod CIDRs. An API server sends some ten kilobytes
	// for each Node.
	Nodes Source[*corev1.Node]
	// The following sources only have the metadata of objects.
	ReplicaSets, Jobs, NodeMetadata, Namespaces Source[*metav1.PartialObjectMetadata]

	// Serves asks API discovery whether the API server has a resource in one of these versions. An
	// error means that the answer is unknown, because discovery fails, is forbidden, contradicts
	// itself, or is not the response of an API server. Serves sends one request, and one more for
	// each of these versions that the server has.
	Serves func(ctx context.Context, resource string, in ...schema.GroupVersion) (bool, error)

	// Document requests a path and decodes the JSON response, as encoding/json does. The response
	// has 1 MiB at most. A status other than 200 is an error, as for sources. Fakes have no
	// Document.
	Document func(ctx context.Context, path string, into any) error

	Servers   Source[*Server]
	Workloads Source[*ExternalWorkload]
	Profiles  Source[*ServiceProfile]
	// Links returns the source for a namespace, in the newest version that the API server has.
	Links func(namespace string) Source[*Link]
	// ServiceExports and ServiceImports use the newest of MCSVersions that the API server has.
	ServiceExports Source[*mcs.ServiceExport]
	ServiceImports Source[*mcs.ServiceImport]
	// MCSVersion returns the version in which ServiceImports were last read, or "" if they never
	// were. MCSVersion does not block.
	MCSVersion func() string
}

// MCSVersions are the versions of the MCS-API, newest first. Their decoded fields are the same.
var MCSVersions = []schema.GroupVersion{
	{Group: mcs.GroupName, Version: "v1beta1"},
	{Group: mcs.GroupName, Version: "v1alpha1"},
}
