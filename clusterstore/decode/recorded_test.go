package decode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/decode/corpus"
)

// recordedKinds compare an answer of a real API server, by resource. They return the paths of fields that it has.
var recordedKinds = map[string]func(t *testing.T, a corpus.Answer) (seen []string){
	"pods":           compareRecorded(func(s Sources) Source[*corev1.Pod] { return s.Pods }, corpus.UsedPod, (*corev1.Pod).Unmarshal),
	"services":       compareRecorded(func(s Sources) Source[*corev1.Service] { return s.Services }, corpus.UsedService, (*corev1.Service).Unmarshal),
	"endpointslices": compareRecorded(func(s Sources) Source[*discoveryv1.EndpointSlice] { return s.EndpointSlices }, corpus.UsedSlice, (*discoveryv1.EndpointSlice).Unmarshal),
	"endpoints":      compareRecorded(func(s Sources) Source[*coreEndpoints] { return s.Endpoints }, corpus.UsedEndpoints, (*coreEndpoints).Unmarshal),
	"secrets":        compareRecorded(func(s Sources) Source[*corev1.Secret] { return s.Secrets("play") }, corpus.UsedSecret, (*corev1.Secret).Unmarshal),
	"nodes":          compareRecorded(func(s Sources) Source[*corev1.Node] { return s.NodeRanges }, corpus.UsedNode, (*corev1.Node).Unmarshal),
	"replicasets":    compareRecorded(func(s Sources) Source[*metav1.PartialObjectMetadata] { return s.ReplicaSets }, corpus.UsedMeta, (*metav1.PartialObjectMetadata).Unmarshal),
	"jobs":           compareRecorded(func(s Sources) Source[*metav1.PartialObjectMetadata] { return s.Jobs }, corpus.UsedMeta, (*metav1.PartialObjectMetadata).Unmarshal),

	"servers":           compareRecorded(func(s Sources) Source[*crd.Server] { return s.Servers }, "", (*crd.Server).UnmarshalJSON),
	"externalworkloads": compareRecorded(func(s Sources) Source[*crd.ExternalWorkload] { return s.Workloads }, "", (*crd.ExternalWorkload).UnmarshalJSON),
	"serviceprofiles":   compareRecorded(func(s Sources) Source[*crd.ServiceProfile] { return s.Profiles }, "", (*crd.ServiceProfile).UnmarshalJSON),
}

// TestRecorded: of what a real API server answers is decoded what client-go's types have of it.
func TestRecorded(t *testing.T) {
	all, err := corpus.Recorded()
	must(t, err)
	seen, count := make(map[string]bool), make(map[string]int)
	for _, a := range all {
		for _, path := range recordedKinds[a.Resource()](t, a) {
			if !strings.HasPrefix(path, "ObjectMeta.") {
				path = a.Resource() + " " + path
			}
			seen[path] = true
		}
		count[a.Resource()]++
	}
	for resource := range recordedKinds {
		if count[resource] != 2 {
			t.Errorf("%d answers of %s are recorded", count[resource], resource)
		}
	}
	for resource, used := range map[string]string{
		"pods": corpus.UsedPod, "services": corpus.UsedService, "endpointslices": corpus.UsedSlice, "endpoints": corpus.UsedEndpoints, "secrets": corpus.UsedSecret, "nodes": corpus.UsedNode,
	} {
		for _, path := range strings.Fields(used) {
			if !seen[path] && !seen[resource+" "+path] {
				t.Errorf("%s: no recorded object has %s", resource, path)
			}
		}
	}
}

func compareRecorded[T any, O interface {
	*T
	Object
}](from func(Sources) Source[O], used string, unmarshal func(O, []byte) error) func(*testing.T, corpus.Answer) []string {
	return func(t *testing.T, a corpus.Answer) (seen []string) {
		source := from(sends{0, a.ContentType, bytes.NewReader(a.Body)}.sources())
		want := recordedEvents(t, a)
		compare := func(as watch.EventType, got O, refused *Refused) error {
			if len(want) == 0 || refused != nil {
				t.Fatalf("%s: %+v, %+v", a.Path, got, refused)
			}
			o := O(new(T))
			must(t, unmarshal(o, bytes.Clone(want[0].Object.Raw)))
			if used != "" {
				prune(o, used)
			}
			if string(as) != want[0].Type || !equality.Semantic.DeepEqual(got, o) {
				t.Errorf("%s: got %s\n%+v\nwant %s\n%+v", a.Path, as, got, want[0].Type, o)
			}
			for _, path := range strings.Fields(used) {
				if corpus.IsSet(reflect.ValueOf(got), path) {
					seen = append(seen, path)
				}
			}
			want = want[1:]
			return nil
		}
		if !a.Watch() {
			list, err := source.List(t.Context(), metav1.ListOptions{}, func(got O, refused *Refused) error { return compare("", got, refused) })
			if err != nil || list.ResourceVersion == "" {
				t.Errorf("%s: %+v, %v", a.Path, list, err)
			}
		} else {
			w, err := source.Watch(t.Context(), metav1.ListOptions{})
			must(t, err)
			defer w.Close()
			for len(want) > 0 {
				must(t, w.Next(func(e Event[O]) error { return compare(e.Type, e.Object, e.Refused) }))
			}
		}
		if len(want) > 0 {
			t.Errorf("%s: %d objects more", a.Path, len(want))
		}
		return seen
	}
}

// recordedEvents returns those of a watch, or objects of a list as events without a type.
func recordedEvents(t *testing.T, a corpus.Answer) (all []metav1.WatchEvent) {
	if !a.Watch() {
		objects, err := a.Objects()
		must(t, err)
		for _, o := range objects {
			all = append(all, metav1.WatchEvent{Object: runtime.RawExtension{Raw: o}})
		}
		return all
	}
	if a.ContentType == runtime.ContentTypeJSON {
		for d := json.NewDecoder(bytes.NewReader(a.Body)); d.More(); {
			var e metav1.WatchEvent
			must(t, d.Decode(&e))
			all = append(all, e)
		}
		return all
	}
	for rest := a.Body; len(rest) > 0; {
		size := 4 + binary.BigEndian.Uint32(rest)
		var e metav1.WatchEvent
		must(t, e.Unmarshal(rest[4:size]))
		var o runtime.Unknown
		must(t, o.Unmarshal(e.Object.Raw[len(protobufPrefix):]))
		e.Object.Raw = o.Raw
		all, rest = append(all, e), rest[size:]
	}
	return all
}
