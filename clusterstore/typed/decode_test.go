package typed_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"
	goruntime "runtime"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/typed"
)

// sends answers every request with an object in protobuf, without a network.
type sends string

func (s sends) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeProtobuf}},
		Body: io.NopCloser(strings.NewReader(string(s))), Request: r,
	}, nil
}

func (s sends) clients(t testing.TB) *typed.Clients {
	clients, err := typed.New(&rest.Config{Host: "http://api", QPS: -1}, &http.Client{Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	return clients
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

// TestSizedLists: a list in protobuf has room for what is in it and no more, and nothing of
// it is of the list that is decoded next.
func TestSizedLists(t *testing.T) {
	for _, n := range []int{300, 0, 1, 7} {
		list, err := sends(encoded(t, page(n))).clients(t).Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != n || cap(list.Items) != n {
			t.Fatalf("%d Pods, with room for %d, instead of %d: %v", len(list.Items), cap(list.Items), n, err)
		}
		_, _ = sends(encoded(t, page(400))).clients(t).Services("").List(t.Context(), metav1.ListOptions{})
		for i, pod := range list.Items {
			if want := fmt.Sprintf("web-%d", i); pod.Name != want || pod.Spec.Containers[1].Name != "linkerd-proxy" {
				t.Fatalf("Pod %d is %+v", i, pod)
			}
		}
	}
}

// TestSizedListsMakeNoRoomForGroups: what is no object of a list makes no room for one. Two bytes are a group.
func TestSizedListsMakeNoRoomForGroups(t *testing.T) {
	const groups = 100_000
	list := &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Raw: bytes.Repeat([]byte("\x13\x14"), groups)}
	body, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	pods := sends("k8s\x00" + string(body)).clients(t).Pods("")
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	if _, err := pods.List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a list of groups is one of Pods")
	}
	goruntime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > groups*uint64(unsafe.Sizeof(corev1.Pod{}))/2 {
		t.Errorf("%d bytes were allocated for %d", made, len(body))
	}
}

// FuzzSizedLists: what becomes of a list is what client-go's clientset makes of it, whatever is sent.
func FuzzSizedLists(f *testing.F) {
	for _, seed := range []string{
		encoded(f, page(3)), encoded(f, page(3))[:200], encoded(f, page(0)), encoded(f, &corev1.SecretList{Items: make([]corev1.Secret, 2)}),
		strings.ReplaceAll(encoded(f, page(3)), "\x0a\x05web-1", "\x0a\x7fweb-1"), "k8s\x00", "{}", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 1<<10 {
			return // two bytes may be a Pod
		}
		client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "http://api", QPS: -1}, &http.Client{Transport: sends(body)})
		if err != nil {
			t.Fatal(err)
		}
		ours, failed := sends(body).clients(t).Pods("").List(t.Context(), metav1.ListOptions{})
		theirs, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if fmt.Sprint(failed) != fmt.Sprint(err) || !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%v, %v\nclient-go makes of it\n%v, %v", ours, failed, theirs, err)
		}
	})
}

// BenchmarkDecodeList is what it takes to read and decode a page of meshed Pods.
func BenchmarkDecodeList(b *testing.B) {
	pods := sends(encoded(b, page(500))).clients(b).Pods("")
	b.ReportAllocs()
	for b.Loop() {
		if list, err := pods.List(b.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 500 {
			b.Fatal(err)
		}
	}
}
