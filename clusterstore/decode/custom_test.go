package decode

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/internal/clustertest"
)

// heldCustom has a comparison for each kind in JSON. It compares lists and events with the decoding
// of the kind's own type.
var heldCustom = []func(t testing.TB, data string){
	compareCustom[Server](func(s Sources) Source[*Server] { return s.Servers }, "policy.linkerd.io/v1beta3", "Server"),
	compareCustom[ExternalWorkload](
		func(s Sources) Source[*ExternalWorkload] { return s.Workloads },
		"workload.linkerd.io/v1beta1",
		"ExternalWorkload",
	),
	compareCustom[ServiceProfile](
		func(s Sources) Source[*ServiceProfile] { return s.Profiles }, "linkerd.io/v1alpha2", "ServiceProfile",
	),
	compareCustom[Link](
		func(s Sources) Source[*Link] { return s.Links("ns").(*newest[*Link]).of[0] },
		"multicluster.linkerd.io/v1alpha3",
		"Link",
	),
	compareCustom[mcs.ServiceExport](func(s Sources) Source[*mcs.ServiceExport] {
		return s.ServiceExports.(*newest[*mcs.ServiceExport]).of[0]
	}, "multicluster.x-k8s.io/v1beta1", "ServiceExport"),
	compareCustom[mcs.ServiceImport](func(s Sources) Source[*mcs.ServiceImport] {
		return s.ServiceImports.(*newest[*mcs.ServiceImport]).of[1]
	}, "multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
}

// compareCustom decodes one object of valid JSON twice in a list and once in an event.
func compareCustom[T any, O interface {
	*T
	Object
}](from func(Sources) Source[O], version, kind string) func(t testing.TB, data string) {
	return func(t testing.TB, data string) {
		var want T
		whole := utiljson.Unmarshal([]byte(data), O(&want))
		if u, ok := any(&want).(json.Unmarshaler); ok {
			whole = u.UnmarshalJSON([]byte(data))
		}
		n := 0
		check := func(got O, refused *Refused) error {
			n++
			switch {
			case (refused != nil) != (whole != nil):
				t.Errorf("%s: refused: %+v, the type's error: %v", data, refused, whole)
			case refused == nil && !equality.Semantic.DeepEqual(got, O(&want)):
				t.Errorf("%s: got\n%+v\nwant\n%+v", data, got, want)
			}
			return nil
		}
		list := fmt.Sprintf(`{"apiVersion":%q,"items":[%s,%[2]s],"kind":"%sList"}`, version, data, kind)
		_, err := from(textSource(list)).List(t.Context(), metav1.ListOptions{}, check)
		if err == errNoKey && (whole != nil || !isKey(O(&want))) {
			return
		}
		if err != nil || n != 2 {
			t.Errorf("%s: %d objects, %v", list, n, err)
		}
		if any(&want).(schema.ObjectKind).GroupVersionKind() != from(textSource("")).(*source[O]).kind {
			return
		}
		w, err := from(textSource(`{"type":"MODIFIED","object":`+data+`}`)).Watch(t.Context(), metav1.ListOptions{})
		must(t, err)
		defer w.Close()
		must(t, w.Next(func(e Event[O]) error { return check(e.Object, e.Refused) }))
		if n != 3 {
			t.Errorf("%s: no event", data)
		}
	}
}

// TestCustom checks that each object in JSON is decoded as by its own type, in lists and events.
func TestCustom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMaker(rapid.Uint64().Draw(rt, "seed"), 3)
		i := m.IntN(len(heldCustom))
		heldCustom[i](t, customObject(m, rt, i))
	})
	for _, data := range []string{
		`{}`, `null`, `7`, `"a"`, `[]`, `{"metadata":null,"spec":null,"status":null}`,
		`{"metadata":{"name":"a"},"spec":1,"status":[]}`, `{"metadata":{"name":"a","labels":{"b":1}}}`,
		`{"metadata":{"name":"a","labels":{"\u0061":"\n\u00e9"}},"spec":{"port":"http"}}`,
		`{"metadata":{"name":"\"]}"},"spec":{"x":"\\"}}`,
		` { "metadata" : { "name" : "a" , "labels" : { } , "managedFields" : [ ] } , "spec" : { "meshTLS" : { ` +
			`"identity" : "x" } } } `,
	} {
		for _, compare := range heldCustom {
			compare(t, data)
		}
	}
}

var customKinds = []schema.GroupVersionKind{
	PolicyVersion.WithKind("Server"), WorkloadVersion.WithKind("ExternalWorkload"),
	ProfileVersion.WithKind("ServiceProfile"), LinkVersions[0].WithKind("Link"),
	MCSVersions[0].WithKind("ServiceExport"), MCSVersions[1].WithKind("ServiceImport"),
}

// customObject returns a random object of a kind as JSON.
func customObject(m clustertest.Maker, t interface{ Fatal(...any) }, kind int) string {
	o := []Object{
		&Server{}, &ExternalWorkload{}, &ServiceProfile{}, &Link{}, &mcs.ServiceExport{},
		&mcs.ServiceImport{},
	}[kind]
	m.Make(o)
	o.(schema.ObjectKind).SetGroupVersionKind(customKinds[kind])
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// FuzzCustom is TestCustom with any JSON.
func FuzzCustom(f *testing.F) {
	for i := range heldCustom {
		for seed := range uint64(4) {
			f.Add(uint8(i), customObject(newMaker(seed, 4), f, i))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, data string) {
		if json.Valid([]byte(data)) && len(data) < maxSmall &&
			strings.Count(data, ",")+strings.Count(data, "{")+strings.Count(data, "[") < maxValues {
			heldCustom[int(kind)%len(heldCustom)](t, data)
		}
	})
}

// TestNewest checks that the newest version of a kind that the API server has is used. An error
// other than "not found" ends the search.
func TestNewest(t *testing.T) {
	var asked []string
	codes := map[string]int{}
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		version := strings.Split(r.URL.Path, "/")[3]
		asked = append(asked, version)
		body := fmt.Sprintf(
			`{"kind":"LinkList","apiVersion":"multicluster.linkerd.io/%s","items":[{"metadata":{"name":"a"}}]}`,
			version,
		)
		if r.URL.Query().Get("watch") != "" {
			body = fmt.Sprintf(
				`{"type":"ADDED","object":{"kind":"Link","apiVersion":"multicluster.linkerd.io/%s",`+
					`"metadata":{"name":"a"}}}`,
				version,
			)
		}
		return &http.Response{
			StatusCode: cmp.Or(codes[version], 200),
			Header:     http.Header{"Content-Type": {"application/json"}},
			Body:       io.NopCloser(strings.NewReader(body)),
		}, nil
	})}
	links := NewSources(client, &url.URL{Scheme: "http", Host: "a"}).Links("ns")
	for _, c := range []struct {
		codes map[string]int
		asked string
		fails int32
	}{
		{nil, "[v1alpha3]", 0},
		{map[string]int{"v1alpha3": 404}, "[v1alpha3 v1alpha2]", 0},
		{map[string]int{"v1alpha3": 404, "v1alpha2": 404}, "[v1alpha3 v1alpha2 v1alpha1]", 0},
		{map[string]int{"v1alpha3": 404, "v1alpha2": 404, "v1alpha1": 404}, "[v1alpha3 v1alpha2 v1alpha1]", 404},
		{map[string]int{"v1alpha3": 403}, "[v1alpha3]", 403},
	} {
		codes = c.codes
		check := func(what string, n int, err error) {
			var status apierrors.APIStatus
			if errors.As(err, &status); c.fails == 0 && (err != nil || n != 1) ||
				c.fails != 0 && (status == nil || status.Status().Code != c.fails) || fmt.Sprint(asked) != c.asked {
				t.Errorf("%s, %v: %d objects, %v; requested %v", what, c.codes, n, err, asked)
			}
			asked = nil
		}
		n := 0
		_, err := links.List(t.Context(), metav1.ListOptions{}, func(*Link, *Refused) error { n++; return nil })
		check("list", n, err)
		n = 0
		w, err := links.Watch(t.Context(), metav1.ListOptions{})
		if err == nil {
			err = w.Next(func(Event[*Link]) error { n++; return nil })
			must(t, w.Close())
		}
		check("watch", n, err)
		if v := links.(*newest[*Link]).version(); c.fails == 0 &&
			"v"+strings.Trim(c.asked[strings.LastIndex(c.asked, "v")+1:], "]") != v {
			t.Errorf("%v: version %q", c.codes, v)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
