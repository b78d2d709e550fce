package typed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/typed"
)

// answer is what an API server sends, whatever it is asked.
type answer struct {
	code              int
	kind, retry, body string
}

func (a answer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if a.kind != "" {
		w.Header().Set("Content-Type", a.kind)
	}
	if a.retry != "" {
		w.Header().Set("Retry-After", a.retry)
	}
	w.WriteHeader(a.code)
	_, _ = w.Write([]byte(a.body))
}

// encoded is an object in protobuf.
func encoded(t testing.TB, o runtime.Object) string {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("client-go has no protobuf")
	}
	var b bytes.Buffer
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(o, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// outcomes lists what comes of requests of all kinds.
func outcomes(ctx context.Context, c typed.Resource[*corev1.Pod, *corev1.PodList]) (all []string) {
	note := func(what string, got any, err error) {
		reason, wait := apierrors.ReasonForError(err), ""
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = fmt.Sprint(seconds)
		}
		if v := reflect.ValueOf(got); v.IsValid() && v.Kind() == reflect.Pointer && !v.IsNil() {
			got = v.Elem().Interface()
		}
		all = append(all, fmt.Sprintf("%s: %+v, error %v, reason %q, of type %T, wait %q", what, got, err, reason, errors.Unwrap(err), wait))
	}
	pod, err := c.Get(ctx, "x", metav1.GetOptions{})
	note("get", pod, err)
	list, err := c.List(ctx, metav1.ListOptions{})
	note("list", list, err)
	pod, err = c.Create(ctx, &corev1.Pod{}, metav1.CreateOptions{})
	note("create", pod, err)
	pod, err = c.Update(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.UpdateOptions{})
	note("update", pod, err)
	note("delete", nil, c.Delete(ctx, "x", metav1.DeleteOptions{}))
	w, err := c.Watch(ctx, metav1.ListOptions{})
	note("watch", nil, err)
	if err == nil {
		for e := range w.ResultChan() {
			note("event "+string(e.Type), e.Object, apierrors.FromObject(e.Object))
		}
		w.Stop()
	}
	return all
}

// TestAnswers: what becomes of an answer is what client-go's clientset makes of it.
func TestAnswers(t *testing.T) {
	const json = runtime.ContentTypeJSON
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "x", errors.New("changed")).Status()
	event := func(kind, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object) }
	seen := make(map[string]bool)
	for name, a := range map[string]answer{
		"a Pod":                    {200, json, "", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"spec":{"unknown":1,"nodeName":"n"}}`},
		"a Pod in protobuf":        {200, runtime.ContentTypeProtobuf, "", encoded(t, pod)},
		"a list":                   {200, json, "", `{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"c"},"items":[{},{"metadata":{"name":"y"}}]}`},
		"a list in protobuf":       {200, runtime.ContentTypeProtobuf, "", encoded(t, page(3))},
		"an empty one":             {200, runtime.ContentTypeProtobuf, "", encoded(t, page(0))},
		"of another kind":          {200, runtime.ContentTypeProtobuf, "", encoded(t, &corev1.SecretList{Items: make([]corev1.Secret, 2)})},
		"cut off":                  {200, runtime.ContentTypeProtobuf, "", encoded(t, page(3))[:200]},
		"damaged":                  {200, runtime.ContentTypeProtobuf, "", strings.ReplaceAll(encoded(t, page(3)), "\x0a\x05web-1", "\x0a\x7fweb-1")},
		"of no kind":               {200, runtime.ContentTypeProtobuf, "", strings.ReplaceAll(encoded(t, page(3)), "\x12\x07PodList", "\x1a\x07PodList")},
		"success in protobuf":      {200, runtime.ContentTypeProtobuf, "", encoded(t, &metav1.Status{Status: metav1.StatusSuccess})},
		"failure in protobuf":      {200, runtime.ContentTypeProtobuf, "", encoded(t, &conflict)},
		"no kind":                  {200, json, "", `{"metadata":{"name":"x"}}`},
		"no type of content":       {200, "", "", `{"metadata":{"name":"x"}}`},
		"another kind":             {200, json, "", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"}}`},
		"a kind of another group":  {200, json, "", `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"x"}}`},
		"success":                  {200, json, "", `{"kind":"Status","apiVersion":"v1","status":"Success"}`},
		"failure":                  {200, json, "", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Gone","code":410}`},
		"no JSON":                  {200, json, "", `<html>`},
		"nothing":                  {200, json, "", ""},
		"unknown type of content":  {200, "text/html", "", `<html>`},
		"forbidden":                {403, json, "", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`},
		"a conflict in protobuf":   {409, runtime.ContentTypeProtobuf, "", encoded(t, &conflict)},
		"expired":                  {410, json, "", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}`},
		"unauthorized, in text":    {401, "text/plain", "", "who are you?"},
		"not found, in text":       {404, "text/plain", "", "404 page not found"},
		"busy":                     {429, json, "", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","details":{"retryAfterSeconds":7},"code":429}`},
		"an error in HTML":         {500, "text/html", "", "<html>"},
		"the network asks to wait": {503, "text/plain", "0", "later"},
		"events": {200, json, "", event("ADDED", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}`) +
			event("BOOKMARK", `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}`) +
			event("ERROR", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)},
		"a bad event": {200, json, "", event("ADDED", `{"kind":"Pod","apiVersion":"v1","spec":7}`)},
	} {
		s := httptest.NewServer(a)
		config := &rest.Config{Host: s.URL, QPS: -1}
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + json
		ours, err := typed.New(config, s.Client())
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := kubernetes.NewForConfigAndClient(config, s.Client())
		if err != nil {
			t.Fatal(err)
		}
		got, want := strings.Join(outcomes(t.Context(), ours.Pods("ns")), "\n"), strings.Join(outcomes(t.Context(), theirs.CoreV1().Pods("ns")), "\n")
		s.Client().CloseIdleConnections()
		s.Close()
		got, want = strings.ReplaceAll(got, s.URL, "URL"), strings.ReplaceAll(want, s.URL, "URL")
		if got != want {
			t.Errorf("%s:\n%s\nclient-go's:\n%s", name, got, want)
		}
		seen[want] = true
	}
	if len(seen) < 20 {
		t.Errorf("only %d outcomes differ", len(seen))
	}
}

// page is a list of meshed Pods.
func page(n int) *corev1.PodList {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "next"}}
	for i := range n {
		list.Items = append(list.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), Namespace: "shop", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "web"}, {Name: "linkerd-proxy"}}},
			Status:     corev1.PodStatus{PodIP: "10.0.0.1", Phase: corev1.PodRunning},
		})
	}
	return list
}
