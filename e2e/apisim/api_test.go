package apisim_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// api is an API server, real or not, and a note of what it has answered.
type api struct {
	t      *testing.T
	rest   *rest.Config
	client *http.Client
	put    func(metav1.Object)
	delete func(metav1.Object)
	notes  []string
}

func (a *api) note(format string, args ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// get asks for a path.
func (a *api) get(ctx context.Context, path, accept, authorization string) *http.Response {
	a.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.rest.Host+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	client := a.client
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
		anonymous, err := rest.HTTPClientFor(rest.AnonymousClientConfig(a.rest))
		if err != nil {
			a.t.Fatal(err)
		}
		a.t.Cleanup(anonymous.CloseIdleConnections)
		client = anonymous
	}
	resp, err := client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp
}

// answer is a list, or a Status.
type answer struct {
	Kind, APIVersion, Reason string
	Metadata                 metav1.ListMeta
	Items                    []metav1.PartialObjectMetadata
}

func (a *api) list(what, path, accept, authorization string) answer {
	a.t.Helper()
	resp := a.get(a.t.Context(), path, accept, authorization)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	if accept == protobuf {
		body = a.asJSON(body)
	}
	var got answer
	if err := json.Unmarshal(body, &got); err != nil && resp.StatusCode != http.StatusNotFound {
		a.t.Fatalf("%s: %v: %s", what, err, body)
	}
	a.note("%s: %d %s %s %s %s more=%v", what, resp.StatusCode, got.Kind, got.APIVersion, got.Reason, names(got.Items), got.Metadata.Continue != "")
	return got
}

const protobuf = "application/vnd.kubernetes.protobuf"

// asJSON returns an object in protobuf as JSON.
func (a *api) asJSON(body []byte) []byte {
	a.t.Helper()
	o, of, err := serializer.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(body, nil, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	o.GetObjectKind().SetGroupVersionKind(*of)
	text, err := json.Marshal(o)
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// names leaves out what only real servers have.
func names(items []metav1.PartialObjectMetadata) (list []string) {
	for _, o := range items {
		if o.Namespace == namespace {
			list = append(list, fmt.Sprintf("%s/%s whole=%v", o.Namespace, o.Name, o.ResourceVersion != "" && o.UID != "" && !o.CreationTimestamp.IsZero()))
		}
	}
	return list
}

// pages lists in parts, while something happens.
func (a *api) pages(path string) {
	first := a.list("first page", path+"?limit=2", "", "")
	a.put(service("aa", ""))
	a.note("left: %d", *first.Metadata.RemainingItemCount)
	second := a.list("second page", path+"?limit=2&continue="+url.QueryEscape(first.Metadata.Continue), "", "")
	a.note("of one version: %v", first.Metadata.ResourceVersion == second.Metadata.ResourceVersion)
	a.delete(service("aa", ""))
}

func (a *api) version(path string) string {
	resp := a.get(a.t.Context(), path, "", "")
	defer resp.Body.Close()
	var got answer
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		a.t.Fatal(err)
	}
	return got.Metadata.ResourceVersion
}

// watch is one under way.
type watch struct {
	api   *api
	what  string
	lines *bufio.Reader
	as    string // the encoding that is asked for
	last  uint64 // version
}

func (a *api) watch(what, path, accept string) *watch {
	a.t.Helper()
	ctx, stop := context.WithCancel(a.t.Context())
	resp := a.get(ctx, path, accept, "")
	a.t.Cleanup(func() { stop(); resp.Body.Close() })
	a.note("watch %s: %d", what, resp.StatusCode)
	return &watch{api: a, what: what, as: accept, lines: bufio.NewReader(resp.Body)}
}

// next notes so many events, without bookmarks that only have a version: a server sends those when it likes.
func (w *watch) next(n int) {
	w.api.t.Helper()
	for n > 0 {
		text, err := w.read()
		if err != nil {
			w.api.t.Fatalf("watch %s: %v", w.what, err)
		}
		var e struct {
			Type   string
			Object struct {
				Kind, APIVersion, Reason string
				Code                     int
				Metadata                 metav1.ObjectMeta
			}
		}
		if err := json.Unmarshal(text, &e); err != nil {
			w.api.t.Fatalf("watch %s: %v: %s", w.what, err, text)
		}
		if e.Type == "BOOKMARK" && len(e.Object.Metadata.Annotations) == 0 {
			continue
		}
		n--
		version, _ := strconv.ParseUint(e.Object.Metadata.ResourceVersion, 10, 64)
		ascending := version > w.last || e.Type == "ADDED" && version > 0
		w.last = version
		w.api.note("watch %s: %s %s %s %s %q %s %d ascending=%v", w.what, e.Type, e.Object.APIVersion, e.Object.Kind,
			e.Object.Metadata.Name, e.Object.Metadata.Annotations, e.Object.Reason, e.Object.Code, ascending)
	}
}

// read returns the next event in JSON.
func (w *watch) read() ([]byte, error) {
	if w.as != protobuf {
		return w.lines.ReadBytes('\n')
	}
	var length uint32
	if err := binary.Read(w.lines, binary.BigEndian, &length); err != nil {
		return nil, err
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(w.lines, text); err != nil {
		return nil, err
	}
	var e metav1.WatchEvent
	if err := e.Unmarshal(text); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"type":%q,"object":%s}`, e.Type, w.api.asJSON(e.Object.Raw)), nil
}

// end notes that the server has ended the watch.
func (w *watch) end() {
	_, err := w.lines.ReadBytes('\n')
	w.api.note("watch %s: ended: %v", w.what, err)
}
