package typed_test

import (
	"net/http"
	"reflect"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/typed"
	"isthmus/clusterstore/typed/typedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClients: real clients and fakes have all that there is, but fakes no REST.
func TestClients(t *testing.T) {
	real, err := typed.New(&rest.Config{Host: "https://none"}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	fakes := typedtest.Clients(fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}))
	for c, without := range map[*typed.Clients]string{real: "", fakes: "REST"} {
		v := reflect.ValueOf(c).Elem()
		for i := range v.NumField() {
			name, f := v.Type().Field(i).Name, v.Field(i)
			if f.IsNil() != (name == without) {
				t.Errorf("%s of %T: %v", name, c.REST, f)
			}
		}
	}
	if pod, err := fakes.Pods("ns").Get(t.Context(), "x", metav1.GetOptions{}); err != nil || pod.Name != "x" {
		t.Errorf("%v, %v", pod, err)
	}
}

// TestUnusable: credentials of which no client can be made are an error.
func TestUnusable(t *testing.T) {
	if _, err := typed.New(&rest.Config{Host: "https://:::"}, http.DefaultClient); err == nil {
		t.Error("no error")
	}
}
