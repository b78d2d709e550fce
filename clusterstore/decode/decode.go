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

// Object is a decoded Kubernetes object. Only the fields that Isthmus uses are set.
type Object interface{ metav1.Object }

// Source lists and watches one kind of object on an API server. A Source is safe for concurrent
// use.
type Source[O Object] interface {
	// List fetches a list, or one page of a list, and calls a function for every object as it
	// arrives. The object and its strings are valid only until the function returns, so the
	// function must copy any data that it keeps. For a refused object, the function receives nil
	// and the reason, and List continues with the next object. If the function returns an error,
	// List stops and returns the error.
	List(ctx context.Context, o metav1.ListOptions, each func(O, *Refused) error) (metav1.ListMeta, error)
	// Watch starts a watch, which ends when ctx is done.
	Watch(ctx context.Context, o metav1.ListOptions) (Events[O], error)
}

// Events receives the events of one watch. Do not call the methods of one Events value
// concurrently.
type Events[O Object] interface {
	// Next waits for the next event, calls a function for the event, and returns the function's
	// error. The event's object is valid only until the function returns. For an ERROR event, Next
	// returns an [apierrors.APIStatus] without calling the function. If the server has closed the
	// watch, Next returns io.EOF. If the watch's context is done, Next returns an error.
	Next(each func(Event[O]) error) error
	// Close frees the resources of the watch. Callers must call Close even if the watch's context
	// is done.
	Close() error
}

// Event is an event of type ADDED, MODIFIED, DELETED or BOOKMARK. Objects in DELETED and BOOKMARK
// events are never refused. If the object of a DELETED or BOOKMARK event cannot be decoded, only
// its name, namespace and version are set.
type Event[O Object] struct {
	Type    watch.EventType
	Object  O
	Refused *Refused // if not nil, Object is not set
}

// Refused describes an object that was not decoded because it is malformed or exceeds a limit.
type Refused struct {
	Namespace, Name string // valid names, as for any other object
	ResourceVersion string
	Err             error
}

// Sources contains the sources for one API server. Each source covers all namespaces, unless noted
// otherwise. The limits of this package apply to all lists and watches.
type Sources struct {
	Pods           Source[*corev1.Pod]
	Services       Source[*corev1.Service]
	EndpointSlices Source[*discoveryv1.EndpointSlice]
	//lint:ignore SA1019 Endpoints are read with --enable-endpoint-slices=false
	Endpoints Source[*corev1.Endpoints]
	// Secrets returns the source for the Secrets in a namespace.
	Secrets func(namespace string) Source[*corev1.Secret]

	// Nodes lists and watches Node objects, including their addresses and Pod CIDRs. API servers
	// send about ten kilobytes per Node.
	Nodes Source[*corev1.Node]
	// The following sources return only the metadata of objects.
	ReplicaSets, Jobs, NodeMetadata, Namespaces Source[*metav1.PartialObjectMetadata]
	// ConfigMaps returns the source for the metadata of the ConfigMaps in a namespace.
	ConfigMaps func(namespace string) Source[*metav1.PartialObjectMetadata]

	// Serves uses API discovery to find out whether the API server serves a resource in one of the
	// given versions. Serves returns an error if API discovery fails, or if the responses
	// contradict each other or do not come from an API server. Serves sends one request, plus at
	// most one for each given version.
	Serves func(ctx context.Context, resource string, in ...schema.GroupVersion) (bool, error)

	// Document sends a request for a path, and decodes the JSON response with encoding/json. The
	// response may be up to 1 MiB in size. Any response status other than 200 is an error. Document
	// is nil in fakes.
	Document func(ctx context.Context, path string, into any) error

	Servers   Source[*Server]
	Workloads Source[*ExternalWorkload]
	Profiles  Source[*ServiceProfile]
	// Links returns the source for the Links in a namespace, in the newest version that the API
	// server serves.
	Links func(namespace string) Source[*Link]
	// The sources for ServiceExports and ServiceImports try the versions in MCSVersions in order,
	// and use the first version that the API server serves.
	ServiceExports Source[*mcs.ServiceExport]
	ServiceImports Source[*mcs.ServiceImport]
	// MCSVersion returns the version in which ServiceImports were last read, or "" if they were
	// never read. MCSVersion does not block.
	MCSVersion func() string
}

// MCSVersions lists the versions of the MCS-API, newest first. The decoded fields are the same in
// all versions.
var MCSVersions = []schema.GroupVersion{
	{Group: mcs.GroupName, Version: "v1beta1"},
	{Group: mcs.GroupName, Version: "v1alpha1"},
}
