package kube

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/decode"
)

// bomb is a server that answers by a beginning and then by the same bytes again and again, compressed to a thousandth.
type bomb struct {
	contentType   string
	begin, repeat string
}

// bombBytes is more than any answer may have; bombMemory is less than any of them become.
const bombBytes, bombMemory = 600 << 20, 48 << 20

func (b bomb) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", b.contentType)
	w.Header().Set("Content-Encoding", "gzip")
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	defer z.Close()
	_, err := io.WriteString(z, b.begin)
	many := strings.Repeat(b.repeat, 1+(64<<10)/len(b.repeat))
	for sent := 0; err == nil && sent < bombBytes && r.Context().Err() == nil; sent += len(many) {
		_, err = io.WriteString(z, many)
	}
}

// TestGzipBombs: an answer that is small while it is compressed ends by an error, and never takes more memory than some objects
// of it do, whatever it is of: one object, many that are read, blanks, or a document.
func TestGzipBombs(t *testing.T) {
	const json, protobuf = "application/json", "application/vnd.kubernetes.protobuf"
	const servers = `{"kind":"ServerList","apiVersion":"policy.linkerd.io/v1beta3","metadata":{},"items":[`
	const event = `{"type":"ADDED","object":{"kind":"Server","apiVersion":"policy.linkerd.io/v1beta3","metadata":{"name":"a"}`
	filler := strings.Repeat("x", 60<<10)
	pod, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.PodSpec{SchedulerName: filler}}).Marshal()
	must(t, err)
	item := string(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), pod))
	podList, err := (&apiruntime.TypeMeta{APIVersion: "v1", Kind: "PodList"}).Marshal()
	must(t, err)
	head := string(protowire.AppendBytes(protowire.AppendTag([]byte("k8s\x00"), 1, protowire.BytesType), podList))
	pods := func(size uint64) string {
		return head + string(protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.BytesType), size))
	}
	listServers := func(ctx context.Context, c *Client) error {
		_, err := c.Sources.Servers.List(ctx, metav1.ListOptions{}, func(*crd.Server, *decode.Refused) error { return nil })
		return err
	}
	watchServers := func(ctx context.Context, c *Client) error { return watchAll(ctx, c.Sources.Servers) }
	for name, x := range map[string]struct {
		bomb
		ask  func(context.Context, *Client) error
		want string
	}{
		"a list of one object": {bomb{json, servers + `{"x":"`, "x"}, listServers, "an object of 16"},
		"a list of many": {bomb{json, servers, `{"metadata":{"name":"a"},"spec":{"x":"` + filler + `"}},`}, func(ctx context.Context, c *Client) error {
			n := 0
			_, err := c.Sources.Servers.List(ctx, metav1.ListOptions{}, func(*crd.Server, *decode.Refused) error {
				if n++; n > 1_000 {
					return errors.New("enough")
				}
				return nil
			})
			return err
		}, "enough"},
		"a list of blanks":             {bomb{json, servers, "\n"}, listServers, "blanks"},
		"a list in protobuf":           {bomb{protobuf, pods(255 << 20), item}, verbs["list"], "no list in protobuf"},
		"a list in protobuf, too long": {bomb{protobuf, pods(1 << 30), item}, verbs["list"], "no list in protobuf"},
		"a list of one, in protobuf":   {bomb{protobuf, pods(250<<20) + "\x12" + string(protowire.AppendVarint(nil, 200<<20)), "x"}, verbs["list"], "an object of 209715200"},
		"a watch of one event":         {bomb{json, event + `,"x":"`, "x"}, watchServers, "an object of 16"},
		"a watch of elements":          {bomb{json, event + `,"x":[`, "{},"}, watchServers, "an object of 16"},
		"a watch of blanks":            {bomb{json, event + `}}`, "\n"}, watchServers, "blanks"},
		"a watch in protobuf":          {bomb{protobuf, "", "\x00\xff\xff\xff"}, func(ctx context.Context, c *Client) error { return watchAll(ctx, c.Sources.Pods) }, "of a type that does not exist"},
		"API discovery": {bomb{json, `{"kind":"APIGroupList","groups":[`, `{"name":"x"},`}, func(ctx context.Context, c *Client) error {
			_, err := c.Sources.Serves(ctx, "servers", schema.GroupVersion{Group: "policy.linkerd.io", Version: "v1beta3"})
			return err
		}, "larger than 1 MiB"},
		"an object": {bomb{protobuf, "", item}, verbs["get"], "more than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			client := hostileClient(t, x.bomb, true)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			took := peakOf(func() { err = x.ask(ctx, client) })
			if err == nil || !strings.Contains(err.Error(), x.want) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%.200v", err)
			}
			if took > bombMemory {
				t.Errorf("it takes %d MiB", took>>20)
			}
		})
	}
}

// watchAll reads a watch to its end.
func watchAll[O decode.Object](ctx context.Context, from decode.Source[O]) error {
	w, err := from.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		if err := w.Next(func(decode.Event[O]) error { return nil }); err != nil {
			return fmt.Errorf("the end: %w", err)
		}
	}
}

// peakOf returns by how much the heap grows while f runs.
func peakOf(f func()) (peak int64) {
	heap := func() int64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	runtime.GC()
	before, done := heap(), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			peak = max(peak, heap()-before)
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	<-ended
	return peak
}
