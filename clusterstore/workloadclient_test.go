package clusterstore

import (
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestLocalWorkloadClient: it reads in all namespaces, what its writers got wrong included.
func TestLocalWorkloadClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/workload.linkerd.io/v1beta1/externalworkloads" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"apiVersion":"workload.linkerd.io/v1beta1","kind":"ExternalWorkloadList","items":[
			{"metadata":{"name":"vm-1"},"spec":{"workloadIPs":[{"ip":"10.0.0.1"}]}},{"metadata":{"name":"vm-2"},"spec":7}]}`))
	}))
	defer server.Close()
	client, err := NewLocalWorkloadClient(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2 || list.Items[0].Spec.WorkloadIPs[0].IP != "10.0.0.1" || list.Items[1].Invalid == "" {
		t.Errorf("read %+v", list.Items)
	}
}
