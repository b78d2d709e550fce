package decode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"

	"google.golang.org/protobuf/encoding/protowire"
)

// sends is an API server that has the same response for every request.
type sends struct {
	code        int
	contentType string
	body        io.Reader
}

func (s sends) RoundTrip(*http.Request) (*http.Response, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return &http.Response{
		StatusCode: s.code,
		Header:     http.Header{"Content-Type": {s.contentType}},
		Body:       io.NopCloser(s.body),
	}, nil
}

func (s sends) sources() Sources {
	return NewSources(&http.Client{Transport: s}, &url.URL{Scheme: "https", Host: "east"})
}

func binarySource(body []byte) Sources {
	return sends{0, protobufType, bytes.NewReader(body)}.sources()
}

func textSource(body string) Sources {
	return sends{0, "application/json; charset=utf-8", strings.NewReader(body)}.sources()
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// wrapped encodes an object as API servers send it outside of lists.
func wrapped(t testing.TB, kind schema.GroupVersionKind, raw []byte) []byte {
	version, name := kind.ToAPIVersionAndKind()
	data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: name}, Raw: raw}).Marshal()
	must(t, err)
	return append([]byte("k8s\x00"), data...)
}

// podList encodes a list of encoded Pods.
func podList(t testing.TB, pods ...[]byte) []byte {
	head, err := (&metav1.ListMeta{ResourceVersion: "7", Continue: "more"}).Marshal()
	must(t, err)
	list := appendField(nil, 1, head)
	for _, p := range pods {
		list = appendField(list, 2, p)
	}
	of := podKind
	of.Kind += "List"
	return wrapped(t, of, list)
}

func appendField(to []byte, number protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), data)
}

// frame encodes an event of a watch.
func frame(t testing.TB, as string, object []byte) []byte {
	event, err := (&metav1.WatchEvent{Type: as, Object: runtime.RawExtension{Raw: object}}).Marshal()
	must(t, err)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

// pod encodes a Pod. An unused field of its spec has size bytes.
func pod(t testing.TB, name string, size int, options ...func(*corev1.Pod)) []byte {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "v" + name},
		Spec:       corev1.PodSpec{SchedulerName: strings.Repeat("x", size)},
	}
	for _, f := range options {
		f(p)
	}
	data, err := p.Marshal()
	must(t, err)
	return data
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// describe renders the arguments of a callback.
func describe[O Object](o O, refused *Refused) string {
	if refused != nil {
		return fmt.Sprintf("%s/%s@%s: %v", refused.Namespace, refused.Name, refused.ResourceVersion, refused.Err)
	}
	return fmt.Sprintf("%s/%s@%s", o.GetNamespace(), o.GetName(), o.GetResourceVersion())
}

func listed[O Object](from Source[O]) (got []string, list metav1.ListMeta, err error) {
	list, err = from.List(context.Background(), metav1.ListOptions{}, func(o O, refused *Refused) error {
		got = append(got, describe(o, refused))
		return nil
	})
	return got, list, err
}

func watched[O Object](t testing.TB, from Source[O]) (got []string, err error) {
	w, err := from.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	for err == nil {
		err = w.Next(func(e Event[O]) error {
			got = append(got, fmt.Sprint(e.Type, " ", describe(e.Object, e.Refused)))
			return nil
		})
	}
	return got, err
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// TestList checks that objects of any size are decoded one by one. A list continues after a refused
// object.
func TestList(t *testing.T) {
	largeMeta := func(p *corev1.Pod) { p.Annotations = map[string]string{"a": strings.Repeat("x", 100<<10)} }
	large, largest := pod(t, "c", maxObject), pod(t, "f", maxObject, largeMeta)
	got, list, err := listed(binarySource(podList(t,
		pod(t, "a", 0), pod(t, "b", maxSmall), large, pod(t, "d", maxObject-200), pod(t, "e", 0, largeMeta), largest,
		append(pod(t, "g", 0), 0xff), pod(t, "h", 0),
	)).Pods)
	must(t, err)
	equal(t, got, "ns/a@va", "ns/b@vb", fmt.Sprintf(
		"ns/c@vc: it is larger than 4 MiB (%d bytes)", len(large),
	), "ns/d@vd", "ns/e@ve",
		fmt.Sprintf("ns/f@vf: it is larger than 4 MiB (%d bytes)", len(largest)), "ns/g@vg: it is not valid protobuf",
		"ns/h@vh")
	if list.ResourceVersion != "7" || list.Continue != "more" {
		t.Errorf("%+v", list)
	}
	failure := errors.New("enough")
	_, err = binarySource(podList(t, pod(t, "a", 0), pod(t, "b", 0))).Pods.List(
		t.Context(), metav1.ListOptions{}, func(*corev1.Pod, *Refused) error { return failure },
	)
	if err != failure {
		t.Error(err)
	}
}

const serverText = `{"apiVersion":"policy.linkerd.io/v1beta3","kind":"Server","metadata":{"namespace":"ns",` +
	`"name":%q,"resourceVersion":"1"},"spec":{"port":80}}`

// TestJSONList checks that the metadata and the kind of a list may follow its items.
func TestJSONList(t *testing.T) {
	item := func(name string) string { return fmt.Sprintf(serverText, name) }
	large := strings.Replace(item("b"), `"port":80`, `"x":"`+strings.Repeat("x", maxSmall)+`"`, 1)
	empty := strings.Replace(item("d"), `80`, "["+strings.Repeat("{},", maxValues)+"{}]", 1)
	wrong := strings.Replace(item("e"), `"name"`, `"labels":{"a":1},"name"`, 1)
	got, list, err := listed(textSource(` { "items" : [` + item("a") + " ,\n" + large + "," + empty + "," + wrong +
		"," + item("f") +
		`], "x":[{"y":"]}"}], ` +
		`"metadata":{"resourceVersion":"7","continue":"more"},"kind":"ServerList",` +
		`"apiVersion":"policy.linkerd.io/v1beta3"}`).Servers)
	must(t, err)
	equal(t, got, "ns/a@1", "ns/b@1", "ns/d@1: it has more than 50000 values",
		"ns/e@1: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
		"ns/f@1")
	if list.ResourceVersion != "7" || list.Continue != "more" {
		t.Errorf("%+v", list)
	}
	if got, _, err := listed(
		textSource(`{"kind":"ServerList","apiVersion":"policy.linkerd.io/v1beta3","metadata":{},"items":null}`).Servers,
	); err != nil || got != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// TestEndlessValues checks that an endless value is an error. Endless space between two values is
// an error too.
func TestEndlessValues(t *testing.T) {
	object := fmt.Sprintf(serverText, "a")
	event := "\n" + `{"type":"ADDED","object":` + object + `}` + "\r\n\t "
	got, err := watched(t, textSource(event+event).Servers)
	if equal(t, got, "ADDED ns/a@1", "ADDED ns/a@1"); err != io.EOF {
		t.Error(err)
	}
	refused := func(err error) bool {
		return err != nil && !utilnet.IsProbableEOF(err) &&
			(err == errBlanks || strings.Contains(err.Error(), "an object of 4194304 bytes or more"))
	}
	for before, list := range map[string]bool{
		"":                                   true,
		"{":                                  true,
		`{"items":[`:                         true,
		`{"items":[` + object:                true,
		`{"items":[` + object + ",":          true,
		`{"items":[],"metadata":{`:           true,
		`{"kind":`:                           true,
		`{"kind"`:                            true,
		`{"items"`:                           true,
		event:                                false,
		event + "{":                          false,
		`{"type":`:                           false,
		`{"type":"ADDED","object":`:          false,
		`{"type":"ADDED","object":` + object: false,
	} {
		for begun, endless := range map[string]string{"": " ", `"`: "x"} {
			body := io.MultiReader(strings.NewReader(before+begun), &repeated{
				data: bytes.Repeat([]byte(endless), 1<<12),
			})
			from := sends{0, "application/json", body}.sources().Servers
			if list {
				_, _, err = listed(from)
			} else {
				_, err = watched(t, from)
			}
			if !refused(err) && err != errNoJSON {
				t.Errorf("%q after %q: %v", endless, before+begun, err)
			}
		}
	}
}

// watching is a reader that calls look before each read.
type watching struct {
	io.Reader
	look func()
}

func (w watching) Read(p []byte) (int, error) { w.look(); return w.Reader.Read(p) }

// TestBlanksBounded checks that a decoder reads at most 64 KiB of space between two values.
func TestBlanksBounded(t *testing.T) {
	object := fmt.Sprintf(serverText, "a")
	for _, before := range []string{
		"", "{", `{"kind"`, `{"kind":`, `{"kind":"a"`, `{"kind":"a",`, `{"items":[`, `{"items":[` + object,
		`{"items":[` + object + ",", `{"items":[]`,
	} {
		blanks := &io.LimitedReader{R: &repeated{data: bytes.Repeat([]byte("\n \t\r"), 1<<12)}, N: maxObject}
		_, _, err := listed(
			sends{0, "application/json", io.MultiReader(strings.NewReader(before), blanks)}.sources().Servers,
		)
		if n := maxObject - blanks.N; err != errBlanks || n > maxBlanks+64<<10 {
			t.Errorf("after %q: %d bytes, %v", before, n, err)
		}
	}
}

// TestLargeGoesOn checks that a list delays large objects of other lists only while it holds a
// large object itself.
func TestLargeGoesOn(t *testing.T) {
	large := strings.Replace(fmt.Sprintf(serverText, "a"), `"port":80`, `"x":"`+strings.Repeat("x", 2*maxSmall)+`"`, 1)
	var a *api
	most, last := 0, 0
	body := watching{
		io.MultiReader(strings.NewReader(`{"items":[`+large+","), strings.NewReader(large+"]")),
		func() { last = len(a.large); most = max(most, last) },
	}
	from := sends{0, "application/json", body}.sources()
	a = from.Servers.(*source[*Server]).api
	got, _, _ := listed(from.Servers)
	if equal(t, got, "ns/a@1", "ns/a@1"); most != 1 || last != 0 {
		t.Errorf("%d large objects are held, and %d at the end", most, last)
	}
}

// TestCutOff checks that a response that is truncated anywhere is an error.
func TestCutOff(t *testing.T) {
	whole := podList(t, pod(t, "a", 0), pod(t, "b", 10))
	for n := range len(whole) - 4 { // two empty texts follow the list
		_, _, err := listed(binarySource(whole[:n]).Pods)
		if err == nil || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	text := `{"kind":"ServerList","apiVersion":"policy.linkerd.io/v1beta3","metadata":{},"items":[` +
		fmt.Sprintf(serverText, "a") + `,` + fmt.Sprintf(serverText, "b") + `]}`
	for n := range len(text) {
		_, _, err := listed(textSource(text[:n]).Servers)
		if err == nil || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("%q: %v", text[:n], err)
		}
	}
	event := frame(t, "ADDED", wrapped(t, podKind, pod(t, "a", 0)))
	for n := range len(event) {
		if _, err := watched(
			t, binarySource(append(bytes.Clone(event), event[:n]...)).Pods,
		); n > 0 && err != io.ErrUnexpectedEOF || n == 0 && err != io.EOF {
			t.Errorf("%d of %d bytes: %v", n, len(event), err)
		}
	}
	line := `{"type":"ADDED","object":` + fmt.Sprintf(serverText, "a") + `}`
	for n := range len(line) {
		if _, err := watched(
			t, textSource(line+"\n"+line[:n]).Servers,
		); n > 0 && err != io.ErrUnexpectedEOF || n == 0 && err != io.EOF {
			t.Errorf("%q: %v", line[:n], err)
		}
	}
}

// TestNoKey checks that an object whose key cannot be decoded ends the response with an error.
func TestNoKey(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	version := func(p *corev1.Pod) { p.ResourceVersion = long }
	slashed := func(p *corev1.Pod) { p.Namespace = "n/s" }
	for name, p := range map[string][]byte{
		"no name":                     pod(t, "", 0),
		"a long name":                 pod(t, long, 0),
		"nothing":                     nil,
		"too large, with no name":     pod(t, "", maxObject),
		"too large, with a long name": pod(t, long, maxObject),
		"a slash":                     pod(t, "//ns/n", 0),
		"a slash in the namespace":    pod(t, "a", 0, slashed),
		"too large, with a slash":     pod(t, "//ns/n", maxObject),
		"too large, with a slash in the namespace": pod(t, "a", maxObject, slashed),
	} {
		if got, _, err := listed(binarySource(podList(t, p)).Pods); err != errNoKey || got != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
		for _, as := range []string{"ADDED", "DELETED"} {
			if got, err := watched(
				t, binarySource(frame(t, as, wrapped(t, podKind, p))).Pods,
			); err != errNoKey || got != nil {
				t.Errorf("%s: %s, %v", name, got, err)
			}
		}
	}
	got, _, err := listed(binarySource(podList(t, pod(t, "a", 0, version))).Pods)
	must(t, err)
	equal(t, got, "ns/a@: the resourceVersion is longer than 253 bytes")
	for _, name := range []string{"", long, "//ns/n", `a","namespace":"n/s`} {
		for _, as := range []string{"ADDED", "DELETED"} {
			object := strings.Replace(serverText, "%q", `"`+name+`"`, 1)
			refused := strings.Replace(object, `"resourceVersion"`, `"labels":{"a":1},"resourceVersion"`, 1)
			for _, o := range []string{object, refused} {
				event := `{"type":"` + as + `","object":` + o + `}`
				if got, err := watched(t, textSource(event).Servers); err != errNoKey || got != nil {
					t.Errorf("%s: %s, %v", event, got, err)
				}
			}
		}
	}
}

// TestOther checks that a response that does not fit the request is an error.
func TestOther(t *testing.T) {
	other := schema.GroupVersionKind{Version: "v1", Kind: "ServiceList"}
	for want, err := range map[string]error{
		"a list whose kind is not PodList": listError(binarySource(wrapped(t, other, nil)).Pods),
		"responded with JSON instead":      listError(textSource("{}").Pods),
		"a content type other than": listError(
			sends{0, "text/html", strings.NewReader("<html>")}.sources().Pods,
		),
		"is not a protobuf list": listError(binarySource([]byte("<html>")).Pods),
		"an object of 16777":     listError(binarySource(podList(t, pod(t, "a", maxFrame))).Pods),
		"a list whose kind is not ServerList": listError(
			textSource(`{"items":[],"kind":"PodList","apiVersion":"v1"}`).Servers,
		),
		"is not valid Kubernetes API JSON": listError(textSource(`[]`).Servers),
		"an event whose kind is not Pod": watchError(
			t, binarySource(frame(t, "ADDED", wrapped(t, other, pod(t, "a", 0)))).Pods,
		),
		"an object of 2147483647 bytes": watchError(t, binarySource([]byte("\x7f\xff\xff\xff")).Pods),
		"an event whose kind is not Server": watchError(
			t, textSource(`{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}}`).Servers,
		),
		"valid Kubernetes API JSON": watchError(t, textSource(`{"type" "ADDED"}`).Servers),
		"is not valid Kube":         watchError(t, textSource(`{"type":"ADDED"}`).Servers),
		"instead of protobuf":       watchError(t, textSource(`{}`).Pods),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	const reset = "read: connection reset by peer"
	if !utilnet.IsProbableEOF(errors.New(reset)) {
		t.Error("client-go does not treat this error as the end of a watch")
	}
	for _, err := range []error{
		watchError(t, binarySource(frame(t, reset, wrapped(t, podKind, pod(t, "a", 0)))).Pods),
		watchError(t, textSource(`{"type":"`+reset+`","object":`+fmt.Sprintf(serverText, "a")+`}`).Servers),
	} {
		if err != errType || utilnet.IsProbableEOF(err) {
			t.Error(err)
		}
	}
}

func listError[O Object](from Source[O]) error { _, _, err := listed(from); return err }

func watchError[O Object](t *testing.T, from Source[O]) error { _, err := watched(t, from); return err }

// TestWatch checks events of all types and the errors that end a watch. Deletions and bookmarks are
// never refused.
func TestWatch(t *testing.T) {
	many := func(p *corev1.Pod) { p.Spec.Containers = make([]corev1.Container, 1_001) }
	owners := func(p *corev1.Pod) { p.OwnerReferences = make([]metav1.OwnerReference, 1_001) }
	bookmark := pod(t, "", 0, func(p *corev1.Pod) {
		p.Namespace, p.ResourceVersion, p.Annotations = "", "9", map[string]string{
			metav1.InitialEventsAnnotationKey: "true",
		}
	})
	expired, err := (&metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    410,
		Reason:  metav1.StatusReasonExpired,
		Message: "too old",
	}).Marshal()
	must(t, err)
	status := metav1.SchemeGroupVersion.WithKind("Status")
	status.Group = ""
	large := frame(t, "MODIFIED", wrapped(t, podKind, pod(t, "d", maxObject)))
	var body []byte
	for _, e := range [][]byte{
		frame(t, "ADDED", wrapped(t, podKind, pod(t, "a", 0))),
		frame(t, "MODIFIED", wrapped(t, podKind, pod(t, "b", maxSmall))),
		frame(t, "MODIFIED", wrapped(t, podKind, pod(t, "c", 0, many))), large,
		frame(t, "DELETED", wrapped(t, podKind, pod(t, "e", 0, many))),
		frame(t, "DELETED", wrapped(t, podKind, pod(t, "f", maxObject))),
		frame(t, "DELETED", wrapped(t, podKind, pod(t, "g", 0, owners))),
		frame(t, "BOOKMARK", wrapped(t, podKind, bookmark)),
		frame(t, "ERROR", wrapped(t, status, expired)),
	} {
		body = append(body, e...)
	}
	got, err := watched(t, binarySource(body).Pods)
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("the watch ended with %v", err)
	}
	equal(t, got, "ADDED ns/a@va", "MODIFIED ns/b@vb", "MODIFIED ns/c@vc: it has more than 1000 "+
		"spec.containers", fmt.Sprintf("MODIFIED ns/d@vd: it is larger than 4 MiB (%d bytes)", len(large)-4),
		"DELETED ns/e@ve", "DELETED ns/f@vf", "DELETED ns/g@vg", "BOOKMARK /@9")

	// Decoding all of this error would take much memory.
	causes := bytes.Repeat(appendField(nil, 4, nil), 1<<20)
	if err := watchError(
		t, binarySource(frame(t, "ERROR", wrapped(t, status, appendField(nil, 5, causes)))).Pods,
	); err != errEvent {
		t.Error(err)
	}
	if err := watchError(
		t,
		textSource(
			`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","details":{"causes":[`+
				strings.Repeat("{},", 1<<19)+`{}]}}}`,
		).Servers,
	); err != errEvent {
		t.Error(err)
	}
}

// TestJSONWatch is TestWatch for JSON.
func TestJSONWatch(t *testing.T) {
	event := func(as, name string, more string) string {
		return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", as, strings.Replace(
			fmt.Sprintf(serverText, name), `"port":80`, more, 1,
		))
	}
	many := `"port":[` + strings.Repeat("1,", maxValues) + "1]"
	got, err := watched(t, textSource(event("ADDED", "a", `"port":1`)+event("MODIFIED", "b", many)+
		event("DELETED", "d", many)+
		`{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},`+
		`"resourceVersion":"9"},"kind":"Server","apiVersion":"policy.linkerd.io/v1beta3"}}`+
		`{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired"}}`).Servers)
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("the watch ended with %v", err)
	}
	equal(t, got, "ADDED ns/a@1", "MODIFIED ns/b@1: it has more than 50000 values", "DELETED ns/d@1", "BOOKMARK /@9")
	if got, err := watched(
		t, textSource(`{"object":`+fmt.Sprintf(serverText, "a")+`,"type":"ADDED"}`).Servers,
	); err != io.EOF || len(got) != 1 {
		t.Errorf("an object before its type: %v", err)
	}
}

// TestFailures checks that error responses of an API server become the errors that client-go would
// return.
func TestFailures(t *testing.T) {
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no pods for ` +
		`you","reason":"Forbidden","code":403}`
	for _, x := range []struct {
		sends
		is func(error) bool
	}{
		{sends{403, "application/json", strings.NewReader(status)}, apierrors.IsForbidden},
		{sends{404, "text/plain; charset=utf-8", strings.NewReader("404 page not found")}, apierrors.IsNotFound},
		{
			sends{
				504, protobufType,
				bytes.NewReader(wrapped(t, schema.GroupVersionKind{Version: "v1", Kind: "Status"}, appendField(
					appendField(nil, 2, []byte("Failure")), 4, []byte("Timeout"),
				))),
			},
			apierrors.IsTimeout,
		},
		{sends{503, "text/html", strings.NewReader("<html>")}, apierrors.IsServiceUnavailable},
		{
			sends{302, "text/html", strings.NewReader("")},
			func(err error) bool { return errors.As(err, new(apierrors.APIStatus)) },
		},
		{sends{500, "application/json", strings.NewReader(strings.Repeat("[", 1<<20))}, apierrors.IsInternalError},
	} {
		if err := listError(x.sources().Pods); !x.is(err) {
			t.Errorf("%d: %v", x.code, err)
		}
		if err := watchError(t, x.sources().Servers); err == nil {
			t.Errorf("%d: no error", x.code)
		}
	}
}

// TestLargeWait checks that only one large object of an API server is in memory at a time.
func TestLargeWait(t *testing.T) {
	from := binarySource(podList(t, pod(t, "a", maxSmall)))
	a := from.Pods.(*source[*corev1.Pod]).api
	a.large <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := from.Pods.List(ctx, metav1.ListOptions{}, func(*corev1.Pod, *Refused) error { return nil })
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("the second list did not wait: %v", err)
	case a.large <- struct{}{}:
		t.Fatal("two large objects are in memory")
	default:
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// FuzzAnswers checks that each decoded or refused object has a name for any response.
func FuzzAnswers(f *testing.F) {
	f.Add(podList(f, pod(f, "a", 0), pod(f, "b", 5)), frame(f, "ADDED", wrapped(f, podKind, pod(f, "a", 3))))
	f.Add([]byte(
		`{"kind":"ServerList","apiVersion":"policy.linkerd.io/v1beta3","items":[`+fmt.Sprintf(serverText, "a")+
			`],"metadata":{}}`,
	),
		[]byte(
			`{"type":"ADDED","object":`+fmt.Sprintf(serverText, "a")+`}`+"\n"+`{"type":"DELETED","object":`+
				fmt.Sprintf(serverText, "a")+`}`,
		))
	f.Fuzz(func(t *testing.T, list, events []byte) {
		fuzzAnswers(t, binarySource(list).Pods, binarySource(events).Pods)
		fuzzAnswers(t, textSource(string(list)).Servers, textSource(string(events)).Servers)
	})
}

func fuzzAnswers[O Object](t *testing.T, lists, watches Source[O]) {
	look := func(o O, refused *Refused) {
		if got := describe(o, refused); len(got) > 2000 || refused == nil && o.GetName() == "" ||
			refused != nil && refused.Name == "" {
			t.Errorf("got %s", got)
		}
	}
	_, _ = lists.List(t.Context(), metav1.ListOptions{}, func(o O, refused *Refused) error {
		look(o, refused)
		return nil
	})
	w, err := watches.Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	defer w.Close()
	for err == nil {
		err = w.Next(func(e Event[O]) error {
			if e.Type != watch.Bookmark {
				look(e.Object, e.Refused)
			}
			return nil
		})
	}
}
