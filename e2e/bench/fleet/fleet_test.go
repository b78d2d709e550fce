package fleet_test

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/bench/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clients of the same cluster, by the encodings of the API.
func clients(t *testing.T, cfg *rest.Config) map[string]kubernetes.Interface {
	t.Helper()
	all := map[string]kubernetes.Interface{}
	for _, kind := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		c := rest.CopyConfig(cfg)
		c.ContentType, c.AcceptContentTypes = kind, kind
		http, err := rest.HTTPClientFor(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(http.CloseIdleConnections)
		if all[kind], err = kubernetes.NewForConfigAndClient(c, http); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// started returns a fleet that ends with the test, and how to reach its local cluster.
func started(t *testing.T, c fleet.Config) (*fleet.Fleet, *rest.Config) {
	t.Helper()
	f, err := fleet.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := f.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	local, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	return f, local
}

// TestSpread: clusters of a group have Services that others have not, and federated Services join the clusters of one group. Many
// clusters have Pods at addresses of their own.
func TestSpread(t *testing.T) {
	f, cfg := started(t, fleet.Config{Linked: 100, Services: 2, Slices: 1, Endpoints: 1, Spread: 50})
	services, err := clients(t, cfg)["application/json"].CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(services.Items) != 2+4 {
		t.Fatalf("%v, %v", services, err)
	}
	members := strings.Split(services.Items[5].Annotations["multicluster.linkerd.io/remote-discovery"], ",")
	if len(members) != 50 || members[0] != "svc-00003@"+fleet.Name(51) || members[49] != "svc-00003@"+fleet.Name(100) {
		t.Errorf("%s joins %v", services.Items[5].Name, members)
	}
	had := map[string]bool{}
	for i := range 101 {
		kubeconfig, err := f.Server(i).Kubeconfig(f.Server(i).Addr(), "none")
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		slices, err := clients(t, cfg)["application/json"].DiscoveryV1().EndpointSlices("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(slices.Items) != 2 {
			t.Fatalf("%v, %v", slices, err)
		}
		for _, s := range slices.Items {
			address := s.Endpoints[0].Addresses[0]
			if had[address] || net.ParseIP(address) == nil {
				t.Errorf("cluster %d has %s", i, address)
			}
			had[address] = true
		}
	}
}

// TestTLS: if it is asked for, clusters are reached by TLS and HTTP/2.
func TestTLS(t *testing.T) {
	for secured, major := range map[bool]int{false: 1, true: 2} {
		_, cfg := started(t, fleet.Config{Linked: 1, Services: 2, Slices: 1, Endpoints: 3, TLS: secured})
		client, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(cfg.Host + "/api/v1/services")
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK || answer.ProtoMajor != major {
			t.Errorf("TLS %v: %s by HTTP/%d, %v", secured, answer.Status, answer.ProtoMajor, err)
		}
		client.CloseIdleConnections()
	}
}
