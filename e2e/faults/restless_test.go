package faults

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/bench/proc"
	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

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

// restless are API servers that make a careless client ask again at once, wait for ever, or read without end, one for each kind. Unit tests of
// package follow have more ways. Each is asked for what the gateway shows of it, if that is something.
var restless = []struct {
	name, shown string
	does        misdeed
}{
	{"refuses-by-410", "too old", func(w http.ResponseWriter, r *http.Request, resource string) bool {
		return resource == "services" && answer(w, http.StatusGone, goneStatus)
	}},
	{"ends-watches", "ends watches", func(w http.ResponseWriter, r *http.Request, resource string) bool {
		return resource == "services" && isWatch(r) && answerIn(w, watchType, nil)
	}},
	{"silent", "", func(w http.ResponseWriter, r *http.Request, _ string) bool { // once it has sent a part of an event
		switch {
		case isStreamedList(r):
			return answer(w, http.StatusUnprocessableEntity, "{}") // an older server
		case !isWatch(r):
			return false
		}
		answerIn(w, watchType, eventOf("MODIFIED", make([]byte, 100))[:50])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}},
	{"vast", "", func(w http.ResponseWriter, r *http.Request, resource string) bool {
		switch {
		case slices.Contains(optional, resource):
			return answer(w, http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		case r.URL.Path != "/apis": // which is what API discovery is asked first
			return false
		}
		defer discovered.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"kind":"APIGroupList","groups":[`)
		item := `{"name":"` + strings.Repeat("x", 256) + `"},`
		for sent := 0; err == nil && sent < 200<<20; sent += len(item) { // less than an answer may have at all
			_, err = io.WriteString(w, item)
		}
		return true
	}},
}

// optional are the kinds that the vast one does not have, so that the gateway asks API discovery for all of them at once.
var optional = []string{"replicasets", "jobs", "servers", "externalworkloads"}

var discovered atomic.Int32 // answers of the vast one's discovery

// TestRestless links such clusters, and one that is well and followed. A request that is asked for again and again is made once a second at
// most, after the first few; requests are counted loosely here, since some may come late: the exact rate is follow.TestRequestRate's. What
// API discovery answers counts for its cluster's budget: the gateway takes no more memory than it has in an HA install of Linkerd. What a silent watch
// does not tell is noticed within two minutes, for which this waits beside other tests.
func TestRestless(t *testing.T) {
	t.Parallel()
	actors := map[string]*actor{"well": newActor(t, "well", nil)}
	for _, l := range restless {
		actors[l.name] = newActor(t, l.name, l.does, object.Service("ns", "far"), object.Slice("ns", "far", "one", object.Endpoint("10.1.0.1")))
	}
	began := time.Now()
	w, own := newActors(t, slices.Collect(maps.Values(actors))...)
	for _, name := range []string{"well", "silent", "vast"} {
		w.awaitState(t, name, "ready", recovery)
	}
	must(t, own.Put(object.Mirror("ns", "silent", "silent", "far")))
	stream := w.subscribeToNew(t, proxy.Get, "silent", "ns")
	must(t, actors["silent"].api.Put(object.Slice("ns", "far", "two", object.Endpoint("10.1.0.2"))))
	changed := time.Now()
	for _, l := range restless {
		if l.shown == "" {
			continue
		}
		await(t, recovery, func() error {
			c, err := w.cluster(t.Context(), l.name)
			if err == nil && !slices.ContainsFunc(c.Resources, func(r adminapi.Resource) bool { return strings.Contains(r.Trouble+r.Err, l.shown) }) {
				err = fmt.Errorf("no %q is shown: %+v", l.shown, c)
			}
			return err
		})
		const few = 5
		var n int
		var span time.Duration
		await(t, either(patience, 2*time.Minute), func() error {
			if n, span = actors[l.name].requested("services"), time.Since(began); n < few || span < either(5*time.Second, time.Minute) {
				return fmt.Errorf("%s: %d requests within %v: too few to tell", l.name, n, span)
			}
			return nil
		})
		if n > 2*few+int(span.Seconds()) {
			t.Errorf("%s: %d requests within %v", l.name, n, span)
		}
	}
	await(t, patience, func() error {
		if n := int(discovered.Load()); n < len(optional) {
			return fmt.Errorf("API discovery has been asked %d times", n)
		}
		return nil
	})
	if peak, err := proc.Peak(w.gateway.Pid()); err != nil || peak > endlessPeak {
		t.Errorf("the gateway took %d MiB: %v", peak>>20, err)
	}
	await(t, either(3*time.Minute, 2*time.Minute), func() error {
		if now := stream.Snapshot(); !now.Get.Has(netip.AddrPortFrom(netip.MustParseAddr("10.1.0.2"), object.Port)) {
			return fmt.Errorf("what a silent watch does not tell is missing: %v (%v)", now.Get.Addrs(), now.Err)
		}
		return nil
	})
	t.Logf("noticed after %v", time.Since(changed).Round(time.Second))
}
