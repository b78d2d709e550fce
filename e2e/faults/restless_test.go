package faults

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/object"
	"isthmus/internal/adminapi"
)

// kinds of the resources that misdeeds are about.
var misdeedKinds = map[string]string{"services": "Service", "pods": "Pod", "endpointslices": "EndpointSlice"}

func apiVersion(resource string) string {
	if resource == "endpointslices" {
		return "discovery.k8s.io/v1"
	}
	return "v1"
}

const goneStatus = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}`

// answer answers in JSON, as API servers do if an answer is an error.
func answer(w http.ResponseWriter, status int, format string, args ...any) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, format+"\n", args...)
	return true
}

// inProtobuf encodes an object of Kubernetes' own as a kind.
func inProtobuf(version, kind string, o interface{ Marshal() ([]byte, error) }) []byte {
	raw, err := o.Marshal()
	if err != nil {
		panic(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}
	if raw, err = unknown.Marshal(); err != nil {
		panic(err)
	}
	return append([]byte("k8s\x00"), raw...)
}

// eventOf encodes an event of a watch with an object that is encoded.
func eventOf(what string, object []byte) []byte {
	event := metav1.WatchEvent{Type: what, Object: runtime.RawExtension{Raw: object}}
	data, err := event.Marshal()
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

// answerIn answers in protobuf.
func answerIn(w http.ResponseWriter, mediaType string, data []byte) bool {
	w.Header().Set("Content-Type", mediaType)
	_, _ = w.Write(data)
	return true
}

const watchType = runtime.ContentTypeProtobuf + ";stream=watch"

// hotLoops are answers that make a careless client ask again at once, and what the gateway shows of it.
var hotLoops = []struct {
	name, shown string
	does        misdeed
}{
	{"streamed-lists-refused-by-410", "too old", func(w http.ResponseWriter, r *http.Request, _ string) bool {
		return isStreamedList(r) && answer(w, http.StatusGone, goneStatus)
	}},
	{"everything-refused-by-410", "too old", func(w http.ResponseWriter, r *http.Request, _ string) bool {
		return answer(w, http.StatusGone, goneStatus)
	}},
	{"watches-of-one-error", "too old", func(w http.ResponseWriter, r *http.Request, _ string) bool {
		status := apierrors.NewResourceExpired("too old resource version").ErrStatus
		return isWatch(r) && answerIn(w, watchType, eventOf("ERROR", inProtobuf("v1", "Status", &status)))
	}},
	{"watches-of-one-bookmark", "ends watches", func(w http.ResponseWriter, r *http.Request, resource string) bool {
		bookmark := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}
		return isWatch(r) && answerIn(w, watchType, eventOf("BOOKMARK", inProtobuf(apiVersion(resource), misdeedKinds[resource], bookmark)))
	}},
	{"watches-that-end-at-once", "ends watches", func(w http.ResponseWriter, r *http.Request, _ string) bool {
		return isWatch(r) && answerIn(w, watchType, nil)
	}},
	{"pages-without-objects", "few objects", func(w http.ResponseWriter, r *http.Request, resource string) bool {
		if isStreamedList(r) {
			return answer(w, http.StatusUnprocessableEntity, "{}")
		}
		list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: "more"}}
		return answerIn(w, runtime.ContentTypeProtobuf, inProtobuf(apiVersion(resource), misdeedKinds[resource]+"List", list))
	}},
}

// TestHotLoops links clusters whose API servers ask for more and more requests by their answers. Each gets one request a
// second for a resource at most, after the first few, and is shown with the reason; one that is well is followed. Requests are counted
// loosely here, since some may come late: the exact rate is the unit test's.
func TestHotLoops(t *testing.T) {
	t.Parallel()
	well := newActor(t, "well", nil)
	actors := []*actor{well}
	for _, l := range hotLoops {
		actors = append(actors, newActor(t, l.name, func(w http.ResponseWriter, r *http.Request, resource string) bool {
			return misdeedKinds[resource] != "" && l.does(w, r, resource)
		}, object.Service("ns", "one"))) // or a streamed list would have no version
	}
	w, _ := newActors(t, actors...)
	w.awaitState(t, "well", "ready", recovery)
	for _, l := range hotLoops {
		err := within(t.Context(), recovery, func() error {
			c, err := w.cluster(t.Context(), l.name)
			if err == nil && !slices.ContainsFunc(c.Resources, func(r adminapi.Resource) bool { return strings.Contains(r.Trouble+r.Err, l.shown) }) {
				err = fmt.Errorf("no %q is shown: %+v", l.shown, c)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	const few = 5
	for _, a := range actors[1:] {
		for resource := range misdeedKinds {
			var n int
			var span time.Duration
			await(t, either(patience, 2*time.Minute), func() error {
				if n, span = a.requested(resource); n < few || span < either(5*time.Second, time.Minute) {
					return fmt.Errorf("%s: %d requests for %s within %v: too few to tell", a.name, n, resource, span)
				}
				return nil
			})
			t.Logf("%s: %d requests for %s within %v", a.name, n, resource, span.Round(time.Millisecond))
			if n > 2*few+int(span.Seconds()) { // some may come late, and so closer to others; the exact rate is TestRequestRate's of clusterstore/follow
				t.Errorf("%s: %d requests for %s within %v", a.name, n, resource, span)
			}
		}
	}
}
