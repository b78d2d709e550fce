package cluster

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
)

// A copy of a cluster consists of Kubernetes lists in the form in which the cluster's API server
// would send them. Each kind has an expand function in addition to its compact function. The expand
// function of a kind returns the smallest object that compacts to the given cached value. If
// Config.Copied is set, the Cluster reads the lists of a copy instead of an API server's lists. The
// decoder and the cache are the same in both cases.

// CopiedList is the list of one kind of object in a copy of a cluster.
type CopiedList struct {
	Resource string // as in URLs, such as "pods"
	write    func(io.Writer) error
}

// Copy returns the cached objects of a linked cluster, with one list for each kind that has been
// listed. Exports are not copied. Copy omits invalid Servers and ExternalWorkloads, because the
// cache only contains the reason why they are invalid.
//
// EndpointSlices come before Pods. Even if the cluster changes during Copy, the copy therefore
// contains all Pods to which its slices refer, in the same or a newer version. Equal caches have
// equal copies.
func (c *Cluster) Copy() []CopiedList {
	rules := c.cfg.Rules
	expandPod := func(key string, p compactedPod) *corev1.Pod { return expandPod(key, p, rules) }
	expandWorkload := func(key string, p compactedPod) *decode.ExternalWorkload { return expandWorkload(key, p, rules) }
	partial := schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "PartialObjectMetadata"}
	all := []CopiedList{listOf(serviceKind(c), corev1.SchemeGroupVersion.WithKind("Service"), expandService)}
	if rules.EndpointSlices {
		kind := discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
		all = append(all, listOf(endpointSliceKind(c), kind, expandSlice))
	} else {
		all = append(all, listOf(endpointsKind(c), corev1.SchemeGroupVersion.WithKind("Endpoints"), expandEndpoints))
	}
	all = append(all,
		listOf(podKind(c), corev1.SchemeGroupVersion.WithKind("Pod"), expandPod),
		listOf(replicaSetKind(c), partial, expandOwner),
		listOf(jobKind(c), partial, expandOwner),
		listOf(serverKind(c), decode.PolicyVersion.WithKind("Server"), expandServer),
		listOf(workloadKind(c), decode.WorkloadVersion.WithKind("ExternalWorkload"), expandWorkload),
		listOf(linkedNodeKind(c), partial, expandNode),
	)
	return slices.DeleteFunc(all, func(l CopiedList) bool {
		listed, _ := c.group.Reads(l.Resource)
		return !listed
	})
}

// Encode compresses the list with gzip and writes it to w. Encode expands only one object at a
// time.
func (l *CopiedList) Encode(w io.Writer) error {
	zipped := gzip.NewWriter(w)
	return cmp.Or(l.write(zipped), zipped.Close())
}

// listOf returns the list of the cached objects of one kind. The expand function returns nil for
// objects to leave out.
func listOf[O interface {
	comparable
	decode.Object
}, T any](k follow.Kind[O, T], of schema.GroupVersionKind, expand func(key string, value T) O) CopiedList {
	type cached struct {
		key   string
		value T // immutable, so it is expanded without a lock
	}
	var values []cached
	for _, key := range slices.Sorted(k.Into.Keys) {
		if value, ok := k.Into.Get(key); ok {
			values = append(values, cached{key, value})
		}
	}
	objects := func(yield func(O) bool) {
		var none O
		for _, v := range values {
			if o := expand(v.key, v.value); o != none && !yield(o) {
				return
			}
		}
	}
	write := writeJSON[O]
	if _, ok := any(*new(O)).(protobufObject); ok {
		write = writeProtobuf[O]
	}
	of.Kind += "List"
	return CopiedList{Resource: k.Name, write: func(w io.Writer) error { return write(w, of, objects) }}
}

// protobufObject is an object of a built-in Kubernetes kind.
type protobufObject interface {
	Size() int
	Marshal() ([]byte, error)
}

// writeProtobuf writes a list as a prefix and a runtime.Unknown. writeProtobuf expands each object
// twice, because the size of the list precedes the objects.
func writeProtobuf[O any](w io.Writer, of schema.GroupVersionKind, objects iter.Seq[O]) error {
	size := 0
	for o := range objects {
		size += protowire.SizeTag(itemsNumber) + protowire.SizeBytes(any(o).(protobufObject).Size())
	}
	version, kind := of.ToAPIVersionAndKind()
	listType, err := (&runtime.TypeMeta{APIVersion: version, Kind: kind}).Marshal()
	if err != nil {
		return err
	}
	head := protowire.AppendTag([]byte("k8s\x00"), 1, protowire.BytesType)
	head = protowire.AppendBytes(head, listType)
	head = protowire.AppendVarint(protowire.AppendTag(head, 2, protowire.BytesType), uint64(size))
	if _, err := w.Write(head); err != nil {
		return err
	}
	for o := range objects {
		data, err := any(o).(protobufObject).Marshal()
		if err != nil {
			return err
		}
		data = protowire.AppendBytes(protowire.AppendTag(nil, itemsNumber, protowire.BytesType), data)
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// itemsNumber is the protobuf field number of the items in every kind of list.
const itemsNumber = 2

// writeJSON writes a list of custom resources.
func writeJSON[O any](w io.Writer, of schema.GroupVersionKind, objects iter.Seq[O]) error {
	version, kind := of.ToAPIVersionAndKind()
	if _, err := fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{},"items":[`, version, kind); err != nil {
		return err
	}
	separator := ""
	for o := range objects {
		data, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s%s", separator, data); err != nil {
			return err
		}
		separator = ","
	}
	_, err := io.WriteString(w, "]}")
	return err
}

// Copied is a copy of a linked cluster, which a Cluster reads instead of an API server. A Copied must
// not be shared between Clusters.
type Copied struct {
	Lost  time.Time         // since when the cluster has been stale
	Lists map[string][]byte // output of CopiedList.Encode, by resource

	mu   sync.Mutex
	read bool // guarded by mu; the first sync is complete, so the lists are no longer needed
}

// client returns a client that reads the copy. If the copy has no list of a kind, the client
// reports that the server does not serve the kind. Watches receive no event.
func (f *Copied) client() *kube.Client {
	client := &kube.Client{}
	client.Sources = decode.NewSources(&http.Client{Transport: f}, &url.URL{Scheme: "https", Host: "copy"})
	client.Sources.Serves = func(context.Context, string, ...schema.GroupVersion) (bool, error) { return false, nil }
	return client
}

// RoundTrip responds to list requests as an API server would. RoundTrip does not respond to a watch
// request until the request is canceled.
func (f *Copied) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Has("watch") {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	list, found := f.list(path.Base(request.URL.Path))
	if !found {
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(list))
	if err != nil {
		return nil, fmt.Errorf("the copy is damaged: %w", err)
	}
	contentType, _, _ := strings.Cut(request.Header.Get("Accept"), ";")
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {contentType}},
		Body:       io.NopCloser(unzipped),
	}, nil
}

// list returns the copied list of a resource, and reports whether the copy contains the list.
func (f *Copied) list(resource string) (list []byte, found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list, found = f.Lists[resource]
	return list, found
}

// release frees the lists after the first sync. The receiver may be nil.
func (f *Copied) release() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Lists = nil
	f.read = true
}

// errCopied is the Health.Err of a cluster that is read from a copy.
var errCopied = errors.New("the API server has not been reached since this replica started, " +
	"so a copy of the cluster is served")

// Once the copy has been read, adjust changes the health to that of a stale cluster. The receiver
// may be nil.
func (f *Copied) adjust(h *follow.Health) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read {
		h.Err = cmp.Or(h.Err, errCopied)
		h.StaleSince = f.Lost
		h.LastEvent = f.Lost
	}
}
