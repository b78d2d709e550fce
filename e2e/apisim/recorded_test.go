package apisim_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"io"
	"os"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// recorded has what a real API server has answered. Tests of clusterstore/decode and clusterstore/cluster read that.
const recorded = "../../clusterstore/decode/corpus/recorded.json"

var record = flag.Bool("record", false, "write what a real API server answers to "+recorded)

// recording is an answer of a real API server.
type recording struct {
	Path, Accept, ContentType string
	Body                      []byte
}

// followed are the kinds that the gateway follows, and in which encoding.
var followed = []struct{ path, list, watch string }{
	{"/api/v1/namespaces/play/pods", protobuf, protobuf},
	{"/api/v1/namespaces/play/services", protobuf, protobuf},
	{"/apis/discovery.k8s.io/v1/namespaces/play/endpointslices", protobuf, protobuf},
	{"/api/v1/namespaces/play/endpoints", protobuf, protobuf},
	{"/api/v1/namespaces/play/secrets", protobuf, protobuf},
	{"/api/v1/nodes", protobuf, protobuf},
	{"/apis/apps/v1/namespaces/play/replicasets", protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", protobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
	{"/apis/batch/v1/namespaces/play/jobs", protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", protobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
	{"/apis/policy.linkerd.io/v1beta3/namespaces/play/servers", "application/json", "application/json"},
	{"/apis/workload.linkerd.io/v1beta1/namespaces/play/externalworkloads", "application/json", "application/json"},
	{"/apis/linkerd.io/v1alpha2/namespaces/play/serviceprofiles", "application/json", "application/json"},
}

// TestRecorded: a real API server answers lists and watches of all followed kinds, with all fields that matter, as is recorded.
func TestRecorded(t *testing.T) {
	a, k := startReal(t)
	objects, err := os.ReadFile("testdata/followed.yaml")
	a.must(err)
	a.must(k.ApplyYAML(t.Context(), string(objects)))
	_, err = k.CoreV1().Pods(namespace).Patch(t.Context(), "web-1-a", types.MergePatchType, []byte(`{"metadata":{"labels":{"version":"1"}}}`), metav1.PatchOptions{})
	a.must(err)                                                                               // to apply is no update
	a.must(k.CoreV1().Pods(namespace).Delete(t.Context(), "leaving", metav1.DeleteOptions{})) // it has a finalizer

	var now []recording
	ask := func(path, accept string) {
		resp := a.get(t.Context(), path, accept, "")
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		a.must(err)
		now = append(now, recording{path, accept, resp.Header.Get("Content-Type"), body})
	}
	for _, f := range followed {
		ask(f.path, f.list)
		ask(f.path+"?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1", f.watch)
	}
	if *record {
		text, err := json.MarshalIndent(now, "", "\t")
		a.must(err)
		a.must(os.WriteFile(recorded, append(text, '\n'), 0o644))
		return
	}
	var before []recording
	text, err := os.ReadFile(recorded)
	a.must(err)
	a.must(json.Unmarshal(text, &before))
	if len(before) != len(now) {
		t.Fatalf("%d answers are recorded of %d", len(before), len(now))
	}
	for i, is := range now {
		was := before[i]
		got, want := a.same(is), a.same(was)
		if is.Path != was.Path || is.Accept != was.Accept || is.ContentType != was.ContentType || !reflect.DeepEqual(got, want) {
			t.Errorf("%s as %s is answered as %s\n%v\nand was recorded as %s\n%v\nRun it with -record, then the tests of clusterstore/decode and clusterstore/cluster",
				is.Path, is.Accept, is.ContentType, got, was.ContentType, want)
		}
	}
}

// same returns what an answer has, without what differs each time.
func (a *api) same(r recording) (all []any) {
	a.t.Helper()
	for rest := r.Body; len(rest) > 0; {
		var one []byte
		switch {
		case r.Accept == "application/json":
			d := json.NewDecoder(bytes.NewReader(rest))
			var raw json.RawMessage
			a.must(d.Decode(&raw))
			one, rest = raw, bytes.TrimSpace(rest[d.InputOffset():])
		case bytes.HasPrefix(rest, []byte("k8s\x00")):
			one, rest = a.text(rest), nil
		default:
			size := 4 + binary.BigEndian.Uint32(rest)
			var e metav1.WatchEvent
			a.must(e.Unmarshal(rest[4:size]))
			text, err := json.Marshal(map[string]any{"type": e.Type, "object": json.RawMessage(a.text(e.Object.Raw))})
			a.must(err)
			one, rest = text, rest[size:]
		}
		var value any
		a.must(json.Unmarshal(one, &value))
		all = append(all, unchanging(value))
	}
	return all
}

// text returns an object in protobuf as JSON.
func (a *api) text(body []byte) []byte {
	a.t.Helper()
	var unknown runtime.Unknown
	a.must(unknown.Unmarshal(body[4:]))
	var o runtime.Object
	switch unknown.Kind {
	case "PartialObjectMetadata":
		o = &metav1.PartialObjectMetadata{}
	case "PartialObjectMetadataList":
		o = &metav1.PartialObjectMetadataList{}
	default:
		var err error
		o, err = scheme.Scheme.New(unknown.GroupVersionKind())
		a.must(err)
	}
	a.must(o.(interface{ Unmarshal([]byte) error }).Unmarshal(unknown.Raw))
	o.GetObjectKind().SetGroupVersionKind(unknown.GroupVersionKind())
	text, err := json.Marshal(o)
	a.must(err)
	return text
}

// unchanging empties what differs each time, and leaves out how far a watch has come.
func unchanging(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			switch key {
			case "uid", "controller-uid", "batch.kubernetes.io/controller-uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort":
				if inner != "None" && inner != "" {
					inner = "set"
				}
			}
			if text, ok := inner.(string); ok && len(text) > 16 && text[:16] == "kube-api-access-" {
				inner = "kube-api-access"
			}
			v[key] = unchanging(inner)
		}
	case []any:
		for i := range v {
			v[i] = unchanging(v[i])
		}
	}
	return value
}
