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
	"maps"
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

// A copy of a cluster consists of Kubernetes lists in the form in which an API server would send
// them. Each kind of object has a compact function, which reduces an object to the value that is
// cached. Each kind in a copy also has an expand function, which converts a cached value back into
// an object that contains only the cached data. If Config.Copied is set, a Cluster decodes and
// caches the lists of a copy in the same way as lists from an API server.

// makeCopy implements [Cluster.Copy].
func makeCopy(c *Cluster, limit int) (map[string][]byte, error) {
	w := &copyWriter{cluster: c, limit: limit, lists: make(map[string][]byte), zipped: gzip.NewWriter(nil)}
	rules := c.cfg.Rules
	expandPod := func(p compactedPod) *corev1.Pod { return expandPod(p, rules) }
	expandWorkload := func(p compactedPod) *decode.ExternalWorkload { return expandWorkload(p, rules) }
	partial := schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "PartialObjectMetadata"}
	copyKind(w, serviceKind(c), corev1.SchemeGroupVersion.WithKind("Service"), expandService)
	if rules.EndpointSlices {
		copyKind(w, endpointSliceKind(c), discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), expandSlice)
	} else {
		copyKind(w, endpointsKind(c), corev1.SchemeGroupVersion.WithKind("Endpoints"), expandEndpoints)
	}
	copyKind(w, podKind(c), corev1.SchemeGroupVersion.WithKind("Pod"), expandPod)
	copyKind(w, replicaSetKind(c), partial, expandOwner)
	copyKind(w, jobKind(c), partial, expandOwner)
	copyKind(w, serverKind(c), decode.PolicyVersion.WithKind("Server"), expandServer)
	copyKind(w, workloadKind(c), decode.WorkloadVersion.WithKind("ExternalWorkload"), expandWorkload)
	copyKind(w, linkedNodeKind(c), partial, expandNode)
	return w.lists, w.err
}

type copyWriter struct {
	cluster *Cluster
	limit   int // of the lists, in bytes
	size    int // of the lists, in bytes
	lists   map[string][]byte
	zipped  *gzip.Writer // used for one member of a list at a time
	err     error        // of the first list that could not be written
}

// copyKind adds a list of the cached objects of one kind to the copy of a cluster. The expand
// function returns an object without its namespace and name, or nil for an object that cannot be
// copied.
func copyKind[O interface {
	comparable
	decode.Object
}, T any](w *copyWriter, k follow.Kind[O, T], of schema.GroupVersionKind, expand func(value T) O) {
	if listed, _ := w.cluster.group.Reads(k.Name); !listed || w.err != nil {
		return
	}
	var none O
	var items bytes.Buffer // writes to it never fail
	size := 0              // of the items before compression, in bytes
	w.zipped.Reset(&items)
	for _, key := range slices.Sorted(k.Into.Keys) {
		value, ok := k.Into.Get(key)
		if !ok {
			continue
		}
		o := expand(value)
		if o == none {
			continue
		}
		namespace, name := follow.SplitKey(key)
		o.SetNamespace(namespace)
		o.SetName(name)
		item, err := encodeItem(o, size == 0)
		if w.err = err; err != nil {
			return
		}
		_, _ = w.zipped.Write(item)
		size += len(item)
		w.err = w.check(items.Len(), size)
		if w.err != nil {
			return
		}
	}
	_ = w.zipped.Close()
	of.Kind += "List"
	_, protobuf := any(none).(protobufObject)
	head, tail := encloseItems(of, size, protobuf)
	list := slices.Concat(w.zip(head), items.Bytes(), w.zip(tail))
	w.lists[k.Name] = list
	w.size += len(list)
	w.err = w.check(0, size)
}

// check returns an error if the additional bytes would make the copy too large, or if the items of
// a list are too large before compression.
func (w *copyWriter) check(more, items int) error {
	switch {
	case w.size+more > w.limit:
		return fmt.Errorf("its copy would be larger than %d MiB", w.limit>>20)
	case items > maxItems:
		return fmt.Errorf("a list in the saved cache would exceed %d MiB before compression", maxItems>>20)
	}
	return nil
}

// The zip method compresses the data into a complete gzip member. Each list in a copy is a gzip
// file with three members: a head, the items and a tail. The head is compressed after the items,
// because the head of a protobuf list contains the total size of the items. The items are
// compressed one by one, so that a copy never needs more memory than its limit.
func (w *copyWriter) zip(data []byte) []byte {
	var member bytes.Buffer // writes to it never fail
	w.zipped.Reset(&member)
	_, _ = w.zipped.Write(data)
	_ = w.zipped.Close()
	return member.Bytes()
}

// nonEmpty removes all entries with an empty value from a map of labels or annotations.
func nonEmpty(all map[string]string) map[string]string {
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// protobufObject is an object of a built-in Kubernetes kind. Custom resources are encoded as JSON.
type protobufObject interface{ Marshal() ([]byte, error) }

// maxItems is the maximum size, in bytes, of a list's items before compression. The decoder does
// not read lists that are larger than 256 MiB.
const maxItems = 255 << 20

func encodeItem(o decode.Object, first bool) ([]byte, error) {
	if p, ok := o.(protobufObject); ok {
		data, err := p.Marshal()
		return protowire.AppendBytes(protowire.AppendTag(nil, itemsNumber, protowire.BytesType), data), err
	}
	data, err := json.Marshal(o)
	if !first {
		data = append([]byte{','}, data...)
	}
	return data, err
}

// itemsNumber is the protobuf field number of a list's items, and rawNumber is the field number of
// the list in a runtime.Unknown.
const itemsNumber, rawNumber = 2, 2

// encloseItems returns the bytes that precede the items of a list, and the bytes that follow them.
// The size argument is the total size of the items. A protobuf list consists of a prefix and a
// runtime.Unknown.
func encloseItems(of schema.GroupVersionKind, size int, protobuf bool) (head, tail []byte) {
	version, kind := of.ToAPIVersionAndKind()
	if !protobuf {
		return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"items":[`, version, kind), []byte("]}")
	}
	typed, _ := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}}).Marshal()
	head = protowire.AppendTag(append([]byte("k8s\x00"), typed...), rawNumber, protowire.BytesType)
	return protowire.AppendVarint(head, uint64(size)), nil
}

// Copied is a copy of a linked cluster, which a Cluster reads instead of an API server. Each
// Cluster requires its own Copied value.
type Copied struct {
	Lost  time.Time         // since when the cluster has been stale
	Lists map[string][]byte // result of Cluster.Copy; each list is removed when it is read

	mu sync.Mutex // guards Lists
}

// The client method returns a Kubernetes client that reads from the copy instead of an API server.
// If the copy has no list for a kind, the client reports that the kind is not served. Watches
// receive no events.
func (f *Copied) client() *kube.Client {
	client := &kube.Client{}
	client.Sources = decode.NewSources(&http.Client{Transport: f}, &url.URL{Scheme: "https", Host: "copy"})
	client.Sources.Serves = func(context.Context, string, ...schema.GroupVersion) (bool, error) { return false, nil }
	return client
}

// RoundTrip responds to the first list request for a resource as an API server would. A watch
// request blocks until it is canceled.
func (f *Copied) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Has("watch") {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	resource := path.Base(request.URL.Path)
	f.mu.Lock()
	list, found := f.Lists[resource]
	delete(f.Lists, resource) // the memory can be freed
	f.mu.Unlock()
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

// errCopied is the Health.Err of a cluster that is read from a copy.
var errCopied = errors.New("the API server has not been reached since this replica started, " +
	"so a copy of the cluster's cache is served")

// If the cluster has synced from the copy, the adjust method marks the cluster as stale in the
// given Health. The receiver may be nil.
func (f *Copied) adjust(h *follow.Health, synced <-chan struct{}) {
	if f == nil {
		return
	}
	select {
	case <-synced:
		h.Err = cmp.Or(h.Err, errCopied)
		h.StaleSince = f.Lost
		h.LastEvent = f.Lost
	default:
	}
}
