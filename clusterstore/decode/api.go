package decode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/internal/guard"
)

// All sizes are in bytes.
const (
	maxSmall = 64 << 10 // largest object that is read into a shared buffer
	// maxObject limits the size of a decoded object. By default, etcd accepts requests of up to
	// 1.5 MiB.
	maxObject = 4 << 20
	// If a protobuf object is larger than maxObject but no larger than maxFrame, only that object
	// is rejected. API servers never send objects larger than maxFrame, so a response with such an
	// object is rejected as a whole.
	maxFrame    = 16 << 20
	maxList     = 256 << 20 // of a list or page after decompression
	maxStatus   = 64 << 10  // of an error, and of a list's metadata
	listTimeout = 40 * time.Second
)

type api struct {
	http *http.Client
	base *url.URL
	// The reader of an object larger than maxSmall holds the only slot of this channel, so that
	// only one such object is in memory at a time. Without this limit, a server could make Isthmus
	// allocate memory for many large objects, by sending only the beginning of an object on each
	// watch.
	large chan struct{}
}

// The server method returns the API server's name for use in error messages. The name includes the
// path of the URL, because several clusters may share a host.
func (a *api) server() string { return a.base.Host + strings.TrimRight(a.base.EscapedPath(), "/") }

type endpoint struct {
	*api
	path string
	of   schema.GroupResource
}

// NewSources returns the Sources for the API server at the given URL. NewSources does not send a
// request. The HTTP client must not follow redirects. The HTTP client must limit the size of error
// responses, but must not limit other responses.
func NewSources(client *http.Client, base *url.URL) Sources {
	a := &api{client, base, make(chan struct{}, 1)}
	imports := newNewest(MCSVersions, func(v schema.GroupVersion) Source[*mcs.ServiceImport] {
		return newCustom[mcs.ServiceImport](a, v, "serviceimports", "", "ServiceImport")
	})
	return Sources{
		Serves:         a.serves,
		Document:       a.document,
		Pods:           newProtobuf(a, corev1.SchemeGroupVersion, "pods", "", pods),
		Services:       newProtobuf(a, corev1.SchemeGroupVersion, "services", "", services),
		EndpointSlices: newProtobuf(a, discoveryv1.SchemeGroupVersion, "endpointslices", "", endpointSlices),
		Endpoints:      newProtobuf(a, corev1.SchemeGroupVersion, "endpoints", "", endpoints),
		Secrets: func(namespace string) Source[*corev1.Secret] {
			return newProtobuf(a, corev1.SchemeGroupVersion, "secrets", namespace, secrets)
		},
		ConfigMaps: func(namespace string) Source[*metav1.PartialObjectMetadata] {
			return newProtobuf(a, corev1.SchemeGroupVersion, "configmaps", namespace, partials)
		},
		ReplicaSets:  newProtobuf(a, schema.GroupVersion{Group: "apps", Version: "v1"}, "replicasets", "", partials),
		Jobs:         newProtobuf(a, schema.GroupVersion{Group: "batch", Version: "v1"}, "jobs", "", partials),
		Nodes:        newProtobuf(a, corev1.SchemeGroupVersion, "nodes", "", nodes),
		NodeMetadata: newProtobuf(a, corev1.SchemeGroupVersion, "nodes", "", partials),
		Namespaces:   newProtobuf(a, corev1.SchemeGroupVersion, "namespaces", "", partials),
		Servers:      newCustom[Server](a, PolicyVersion, "servers", "", "Server"),
		Workloads: newCustom[ExternalWorkload](
			a, WorkloadVersion, "externalworkloads", "", "ExternalWorkload",
		),
		Profiles: newCustom[ServiceProfile](a, ProfileVersion, "serviceprofiles", "", "ServiceProfile"),
		Links: func(namespace string) Source[*Link] {
			return newNewest(LinkVersions, func(v schema.GroupVersion) Source[*Link] {
				return newCustom[Link](a, v, "links", namespace, "Link")
			})
		},
		ServiceExports: newNewest(MCSVersions, func(v schema.GroupVersion) Source[*mcs.ServiceExport] {
			return newCustom[mcs.ServiceExport](a, v, "serviceexports", "", "ServiceExport")
		}),
		ServiceImports: imports, MCSVersion: imports.version,
	}
}

func newEndpoint(a *api, v schema.GroupVersion, name, namespace string) endpoint {
	path := pathOf(v)
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return endpoint{a, path + "/" + name, v.WithResource(name).GroupResource()}
}

func pathOf(v schema.GroupVersion) string {
	if v.Group == "" {
		return "/api/" + v.Version
	}
	return "/apis/" + v.String()
}

// get sends a request and returns the body of the response. A status other than 200 results in an
// [apierrors.StatusError]. An unexpected content type is also an error.
func (r *endpoint) get(ctx context.Context, o metav1.ListOptions, accept string) (io.ReadCloser, error) {
	query, err := metav1.ParameterCodec.EncodeParameters(&o, schema.GroupVersion{Version: "v1"})
	if err != nil {
		return nil, err
	}
	at := r.base.JoinPath(r.path)
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := r.http.Do(request)
	if err != nil {
		return nil, err
	}
	contentType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	wanted, _, _ := strings.Cut(accept, ";")
	switch {
	case response.StatusCode != http.StatusOK:
		err = r.failure(response, contentType)
	case contentType != wanted && wanted == runtime.ContentTypeProtobuf && contentType == runtime.ContentTypeJSON:
		err = fmt.Errorf("API server %s responded with JSON instead of protobuf: "+
			"check the proxy or load balancer in front of the API server", r.server())
	case contentType != wanted:
		err = fmt.Errorf("API server %s responded with a content type other than %s: "+
			"check that the kubeconfig's server URL points to an API server, and check any proxy in front of it",
			r.server(), wanted)
	}
	if err != nil {
		response.Body.Close()
		return nil, err
	}
	return response.Body, nil
}

// The failure method returns the error that client-go would return for the response. The error
// includes the value of Retry-After.
func (r *endpoint) failure(response *http.Response, contentType string) error {
	err := r.statusError(response, contentType)
	seconds := retryAfter(response.Header.Get("Retry-After"), time.Now())
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || seconds == 0 {
		return err
	}
	if status.ErrStatus.Details == nil {
		status.ErrStatus.Details = &metav1.StatusDetails{}
	}
	status.ErrStatus.Details.RetryAfterSeconds = seconds
	return err
}

const maxRetryAfter = 3600 // longest accepted Retry-After, in seconds

// retryAfter returns the pause, in seconds, that a Retry-After header requests. A Retry-After
// header contains a number or a date. For an invalid header or a past date, retryAfter returns
// zero.
func retryAfter(text string, now time.Time) int32 {
	if digits := strings.TrimSpace(text); digits != "" && strings.Trim(digits, "0123456789") == "" {
		seconds, err := strconv.Atoi(digits)
		if err != nil { // the number is too large
			return maxRetryAfter
		}
		return int32(min(seconds, maxRetryAfter))
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return int32(max(0, min(at.Sub(now).Seconds()+1, maxRetryAfter)))
}

func (r *endpoint) statusError(response *http.Response, contentType string) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxStatus)) // a truncated text is good enough
	var err error
	switch contentType {
	case runtime.ContentTypeJSON:
		err = jsonStatus(text)
	case runtime.ContentTypeProtobuf:
		if of, raw := unwrap(text); of.Kind == statusKind {
			err = protobufStatus(raw)
		}
	}
	if err != nil {
		return err
	}
	message := "unknown"
	if strings.HasPrefix(contentType, "text/") {
		message = string(bytes.TrimSpace(text[:min(len(text), 2<<10)]))
	}
	return apierrors.NewGenericServerResponse(response.StatusCode, http.MethodGet, r.of, "", message, 0, true)
}

var statusKind = metav1.SchemeGroupVersion.WithKind("Status").Kind

// statusError converts a Status to an error, or returns nil if the Status does not describe a
// failure.
func statusError(s *metav1.Status) error {
	if s.Status != metav1.StatusFailure {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: *s}
}

var errEvent = errors.New("the API server ended the watch with an error whose Status is malformed or too large")

var errType = errors.New(
	"the API server sent an event of an unknown type: check that the URL points to an API server",
)

func errKind(what, wanted string) error {
	return fmt.Errorf(
		"the API server sent %s whose kind is not %s: check that the URL points to an API server", what, wanted,
	)
}

func errFrame(size uint64) error {
	return fmt.Errorf(
		"the API server sent an object of %d bytes or more, which is too large: "+
			"check that the URL points to an API server",
		size,
	)
}

func limited(from io.Reader, limit int64) io.Reader {
	return guard.Limited(from, limit, fmt.Errorf("the API server's response is larger than %d MiB", limit>>20))
}

const (
	documentTimeout = 10 * time.Second
	// maxDocument is the maximum size, in bytes, of a response that is decoded as a whole. An API
	// discovery document for one group is a few kilobytes long.
	maxDocument = 1 << 20
)

func (a *api) serves(ctx context.Context, resource string, in ...schema.GroupVersion) (bool, error) {
	var all metav1.APIGroupList
	if err := a.document(ctx, "/apis", &all); err != nil {
		return false, err
	}
	if len(all.Groups) == 0 {
		return false, errors.New("the API discovery response does not contain any groups")
	}
	for _, version := range in {
		if version.Group != "" && !slices.ContainsFunc(all.Groups, func(g metav1.APIGroup) bool {
			return slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool {
				return v.GroupVersion == version.String()
			})
		}) {
			continue
		}
		var list metav1.APIResourceList
		switch err := a.document(ctx, pathOf(version), &list); {
		case err != nil:
			return false, fmt.Errorf("API discovery of %s: %w", version, err)
		case list.GroupVersion != version.String():
			return false, fmt.Errorf("the API discovery response for %s does not list resources", version)
		case slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }):
			return true, nil
		}
	}
	return false, nil
}

func (a *api) document(ctx context.Context, path string, into any) error {
	ctx, stop := context.WithTimeout(ctx, documentTimeout)
	defer stop()
	at := endpoint{a, path, schema.GroupResource{}}
	body, err := at.get(ctx, metav1.ListOptions{}, runtime.ContentTypeJSON)
	if err != nil {
		return err
	}
	defer body.Close()
	data, err := io.ReadAll(limited(body, maxDocument))
	if err == nil {
		err = countable(data)
	}
	switch {
	case err != nil:
		return fmt.Errorf(
			"the API server's response is unreadable: %w: check that the URL points to an API server", cutOff(err),
		)
	case json.Unmarshal(data, into) != nil:
		return errNoJSON
	}
	return nil
}
