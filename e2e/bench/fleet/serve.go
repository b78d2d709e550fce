package fleet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

const protobufType = "application/vnd.kubernetes.protobuf"

// event is a change, framed as a watch sends it.
type event list

// newEvent encodes that an object has changed.
func newEvent(o runtime.Object) (event, error) {
	object, err := encode(o)
	if err != nil {
		return event{}, err
	}
	change := metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: object.protobuf}}
	framed, err := change.Marshal()
	if err != nil {
		return event{}, err
	}
	return event{
		json:     fmt.Appendf(nil, `{"type":"MODIFIED","object":%s}`, object.json),
		protobuf: append(binary.BigEndian.AppendUint32(nil, uint32(len(framed))), framed...),
	}, nil
}

func encode(o runtime.Object) (*list, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b); err != nil {
		return nil, err
	}
	return &list{json: text, protobuf: b.Bytes()}, nil
}

// ServeHTTP lists and watches.
func (c *member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, query := path.Base(r.URL.Path), r.URL.Query()
	l := c.lists[resource]
	binary := strings.Contains(r.Header.Get("Accept"), protobufType)
	switch {
	case l == nil:
		w.WriteHeader(http.StatusNotFound)
	case query.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity) // then there is a list instead
	case query.Get("watch") != "":
		c.watch(w, r, resource, binary)
	case binary:
		w.Header().Set("Content-Type", protobufType)
		_, _ = w.Write(l.protobuf) // or the other side has gone, here and below
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(l.json)
	}
}

// watch sends the changes of slices; nothing else changes.
func (c *member) watch(w http.ResponseWriter, r *http.Request, resource string, binary bool) {
	kind := "application/json"
	if binary {
		kind = protobufType + ";stream=watch"
	}
	w.Header().Set("Content-Type", kind)
	flush := http.NewResponseController(w).Flush
	_ = flush()
	if resource != "endpointslices" {
		<-r.Context().Done()
		return
	}
	events := make(chan event, 16)
	c.mu.Lock()
	c.watchers[events] = r.Context().Done()
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, events)
	}()
	for {
		select {
		case e := <-events:
			text := e.json
			if binary {
				text = e.protobuf
			}
			_, _ = w.Write(text)
			_ = flush()
		case <-r.Context().Done():
			return
		}
	}
}
