package kube

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/budget"
)

// ends returns where events end, by a frame that gets the text in parts.
func ends(f frame, text []byte, part int) (list []int) {
	for at := 0; at < len(text); {
		n, _, ended := f.next(text[at:min(len(text), at+part)])
		if n <= 0 {
			panic("no progress")
		}
		if at += n; ended {
			list = append(list, at)
		}
	}
	return list
}

// TestEventsShareABuffer: an event that comes in parts, as client-go reads every one of protobuf, leaves no garbage.
func TestEventsShareABuffer(t *testing.T) {
	for _, mediaType := range []string{apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeJSON} {
		event := []byte(`{"object":"` + strings.Repeat("x", 500) + `"}`)
		if mediaType == apiruntime.ContentTypeProtobuf {
			event = append(binary.BigEndian.AppendUint32(nil, 500), make([]byte, 500)...)
		}
		body := newEventBody(t.Context(), nil, nil, mediaType)
		if garbage := testing.AllocsPerRun(100, func() {
			for _, part := range [][]byte{event[:frameHeader], event[frameHeader:]} {
				if err := body.count(part); err != nil {
					t.Fatal(err)
				}
			}
		}); garbage != 0 {
			t.Errorf("%s: %v allocations for each event", mediaType, garbage)
		}
	}
}

// FuzzJSONFrame: events end where the decoder of JSON finds their ends, so that no event is
// longer for client-go than it was counted.
func FuzzJSONFrame(f *testing.F) {
	for _, seed := range []string{`{}{}`, "{\"a\":[1,{\"b\":\"\\\"}\"}]}\n{}", `{"type":"ADDED","object":{"x":"\\"}} {"y":"]"}`, `[[]]`, `{"a":`, `}{`, `"x"{}`} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, part int) {
		got := ends(&jsonFrame{}, text, max(1, part%64))
		events, d := 0, json.NewDecoder(bytes.NewReader(text))
		for {
			var event json.RawMessage
			if d.Decode(&event) != nil {
				return
			}
			if event[0] != '{' && event[0] != '[' {
				continue // counts with the next event
			}
			if events == len(got) || got[events] != int(d.InputOffset()) {
				t.Fatalf("%q: event %d ends at %d, not %v", text, events, d.InputOffset(), got)
			}
			events++
		}
	})
}

func TestProtobufFrame(t *testing.T) {
	var text []byte
	var want []int
	for _, size := range []int{5, 0, 1, 300} {
		text = append(binary.BigEndian.AppendUint32(text, uint32(size)), make([]byte, size)...)
		want = append(want, len(text))
	}
	for part := 1; part < 400; part++ {
		if got := ends(&protobufFrame{}, text, part); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("in parts of %d, events end at %v, not %v", part, got, want)
		}
	}
}

// TestLargeEvents: the body of a watch fails in an event that is too large, however that is
// sent, and not before.
func TestLargeEvents(t *testing.T) {
	jsonOf := func(size int) []byte { return []byte(`{"a":"` + strings.Repeat("x", size-8) + `"}`) }
	protobufOf := func(size int) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(size-4)), make([]byte, size-4)...)
	}
	for mediaType, of := range map[string]func(int) []byte{"application/json": jsonOf, "application/vnd.kubernetes.protobuf": protobufOf} {
		for _, whole := range []bool{false, true} {
			fits, large := of(maxEvent), of(maxEvent+5)
			var text io.Reader = io.MultiReader(bytes.NewReader(fits), bytes.NewReader(fits), bytes.NewReader(large))
			if !whole {
				text = iotest.HalfReader(text)
			}
			body := newEventBody(t.Context(), func(error) {}, io.NopCloser(text), mediaType)
			got, err := io.ReadAll(body)
			if !errors.Is(err, budget.ErrOver) || len(got) < 2*maxEvent || len(got) >= 3*maxEvent {
				t.Errorf("%s: after %d bytes: %v", mediaType, len(got), err)
			}
		}
	}
	body := newEventBody(t.Context(), func(error) {}, io.NopCloser(bytes.NewReader(binary.BigEndian.AppendUint32(nil, 1<<31))), "application/vnd.kubernetes.protobuf")
	if _, err := body.Read(make([]byte, 4)); !errors.Is(err, budget.ErrOver) {
		t.Errorf("an event that announces 2 GiB: %v", err)
	}
}

// TestEndlessEvent: an event that never ends ends its watch, its budget is given back, and
// the caller has the reason.
func TestEndlessEvent(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		var sent atomic.Int64
		client := hostileClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"`)
			for err := error(nil); err == nil && sent.Load() < hostileBytes; {
				var n int
				n, err = io.WriteString(w, strings.Repeat("x", 32<<10))
				sent.Add(int64(n))
			}
		}), http2)
		b := budget.NewPool(budget.Limits{Cluster: 64 << 20, All: 128 << 20}).Add()
		why := make(chan error, 2)
		ctx, _ := b.Begin(t.Context(), "pods", func(err error) { why <- err })
		w, err := client.Pods("").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e := <-w.ResultChan()
		if err := <-why; e.Type != watch.Error || !strings.Contains(err.Error(), "an event of pods is larger than 4 MiB") {
			t.Errorf("%+v, %v", e, err)
		}
		if _, ok := <-w.ResultChan(); ok {
			t.Error("the watch goes on")
		}
		if used := b.Usage().Used; used != 0 {
			t.Errorf("%d bytes are charged after the end", used)
		}
		if n := sent.Load(); n > 32<<20 { // sockets' buffers included
			t.Errorf("%d MiB could be sent", n>>20)
		}
	}
}

// TestListBudget: a list that is larger than the budget fails as its bytes come,
// decompressed, and one that fits counts until its request ends.
func TestListBudget(t *testing.T) {
	h := &hostile{status: http.StatusOK, contentType: "application/json", gzipped: true}
	client := hostileClient(t, h, true)
	pool := budget.NewPool(budget.Limits{Cluster: 16 << 20, All: 64 << 20})
	b := pool.Add()
	ctx, r := b.Begin(t.Context(), "a list of pods", nil)
	_, err := client.Pods("").List(ctx, metav1.ListOptions{})
	if !errors.Is(err, budget.ErrOver) || !errors.Is(r.Err(), budget.ErrOver) {
		t.Errorf("an endless list: %v, %v", err, r.Err())
	}
	if sent := h.sent.Load(); sent > 32<<20 {
		t.Errorf("%d MiB of a list were read", sent>>20)
	}
	r.End()

	text, err := json.Marshal(corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: make([]corev1.Pod, 100)})
	if err != nil {
		t.Fatal(err)
	}
	client = hostileClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(text)
	}), true)
	ctx, r = b.Begin(t.Context(), "a list of pods", nil)
	list, err := client.Pods("").List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 100 {
		t.Fatal(err)
	}
	objects, err := measureAnswer(text, "")
	if used := b.Usage().Used; err != nil || used != budget.Factor*int64(len(text))+budget.Beyond(int64(len(text)), objects) {
		t.Errorf("%d bytes are charged for a list of %d (%v)", used, len(text), err)
	}
	if min := int64(len(list.Items)) * int64(unsafe.Sizeof(corev1.Pod{})); objects < min {
		t.Errorf("Pods of %d bytes are measured as %d", min, objects)
	}
	defer takeTurn(t, pool).End()
	waits, late := b.Begin(t.Context(), "another list", nil)
	brief, stop := context.WithTimeout(waits, 10*time.Millisecond)
	defer stop()
	if err := late.AwaitTurn(brief); err == nil {
		t.Error("the list has no turn")
	}
	r.End()
	if used := b.Usage().Used; used != 0 || late.AwaitTurn(t.Context()) != nil {
		t.Errorf("%d bytes, or its turn, are kept", used)
	}
}

// TestCrowdedAnswers: lists and events of many elements that are almost empty are refused
// before they are decoded: all by the budget, and single objects without one too.
func TestCrowdedAnswers(t *testing.T) {
	for name, text := range crowded(100_000) {
		protobuf := bytes.HasPrefix(text, protobufPrefix)
		client := hostileClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			contentType, body := "application/json", text
			if protobuf {
				contentType = "application/vnd.kubernetes.protobuf"
			}
			if r.URL.Query().Has("watch") {
				event := metav1.WatchEvent{Type: "ADDED", Object: apiruntime.RawExtension{Raw: text}}
				if body = fmt.Appendf(nil, `{"type":"ADDED","object":%s}`, text); protobuf {
					raw, _ := event.Marshal()
					body = append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
				}
			}
			w.Header().Set("Content-Type", contentType)
			w.Write(body)
		}), true)
		single := strings.Contains(name, "containers")
		for _, limited := range []bool{true, false} {
			if !limited && !single {
				continue // a list of small objects
			}
			begin := func() context.Context {
				if !limited {
					return t.Context()
				}
				ctx, r := budget.NewPool(budget.Limits{Cluster: 64 << 20, All: 128 << 20}).Add().Begin(t.Context(), "pods", nil)
				t.Cleanup(r.End)
				return ctx
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := client.Pods("").List(begin(), metav1.ListOptions{})
			if !errors.Is(err, budget.ErrOver) {
				t.Errorf("a list of %s: %v", name, err)
			}
			w, err := client.Pods("").Watch(begin(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if e := <-w.ResultChan(); e.Type != watch.Error || !strings.Contains(fmt.Sprint(e.Object), "over budget") {
				t.Errorf("an event of %s: %v", name, e.Type)
			}
			w.Stop()
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
				t.Errorf("%s: %d MiB are allocated for %d kB", name, took>>20, len(text)>>10)
			}
		}
	}
}

// takeTurn takes one of the two turns to decode a list.
func takeTurn(t *testing.T, pool *budget.Pool) *budget.Request {
	ctx, r := pool.Add().Begin(t.Context(), "a list that is being decoded", nil)
	if err := r.AwaitTurn(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}
