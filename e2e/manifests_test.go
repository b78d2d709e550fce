package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"isthmus/e2e/cluster"
	"isthmus/e2e/gateway"
	"isthmus/e2e/shop"
)

// TestManifests applies what users apply and runs the gateway with exactly these rights: in its own cluster those of
// rbac.yaml, in a linked one those of remote-access.yaml, linked by link.yaml with its placeholders filled in.
func TestManifests(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var configs []cluster.Config
	for _, name := range []string{"west", "east"} {
		configs = append(configs, cluster.Config{Name: name, Dir: filepath.Join(t.TempDir(), name),
			Controllers: []string{"namespace", "serviceaccount", "token"}})
	}
	servers, err := cluster.StartAll(ctx, configs...)
	if err != nil {
		t.Fatal(err)
	}
	west, east := servers[0], servers[1]
	t.Cleanup(func() {
		for _, c := range servers {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})

	for c, name := range map[*cluster.Cluster]string{west: "linkerd", east: "linkerd-multicluster"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client(t, c).CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	applyManifest(t, west, "rbac.yaml")
	applyManifest(t, east, "remote-access.yaml")
	applyManifest(t, west, "link.yaml",
		"https://east.example.com:6443", east.REST().Host,
		"<the cluster's CA certificate, base64>", base64.StdEncoding.EncodeToString(east.REST().CAData),
		"<data.token of Secret isthmus-remote-access-token in east>", secretToken(t, east, "linkerd-multicluster", "isthmus-remote-access-token"))

	g, err := gateway.Start(ctx, gateway.Config{Kubeconfig: gatewayKubeconfig(t, west)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	var page clustersPage
	poll(t, "both clusters are ready, with all their resources", func() error {
		if page, err = debugClusters(ctx, g.MetricsAddr()); err != nil {
			return err
		}
		return page.ready("east")
	})
	applyText(t, west, `{apiVersion: v1, kind: Service, metadata: {name: vms, namespace: linkerd}, spec: {selector: {app: vm}, ports: [{port: 80, targetPort: 8080}]}}
---
apiVersion: workload.linkerd.io/v1beta1
kind: ExternalWorkload
metadata: {name: vm-1, namespace: linkerd, labels: {app: vm}}
spec: {meshTLS: {identity: spiffe://root/vm-1, serverName: vm-1}, ports: [{port: 8080}], workloadIPs: [{ip: 10.90.1.1}]}
`)
	poll(t, "an EndpointSlice is written", func() error {
		if page, err = debugClusters(ctx, g.MetricsAddr()); err == nil && page.Writer.Slices != 1 {
			err = fmt.Errorf("the writer's status is %+v", page.Writer)
		}
		return err
	})
}

// applyManifest writes a file of manifests, with texts replaced by others.
func applyManifest(t *testing.T, c *cluster.Cluster, name string, replace ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "manifests", name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !bytes.Contains(text, []byte(replace[i])) {
			t.Fatalf("%s does not say %q", name, replace[i])
		}
	}
	applyText(t, c, strings.NewReplacer(replace...).Replace(string(text)))
}

// applyText writes objects.
func applyText(t *testing.T, c *cluster.Cluster, text string) {
	t.Helper()
	s, err := shop.New(c.Name(), 1, c.REST())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Apply(t.Context(), strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, c *cluster.Cluster) *kubernetes.Clientset {
	t.Helper()
	k, err := kubernetes.NewForConfig(c.REST())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// secretToken waits for the token that a controller fills in.
func secretToken(t *testing.T, c *cluster.Cluster, namespace, name string) (token string) {
	t.Helper()
	poll(t, "Secret "+name+" has a token", func() error {
		s, err := client(t, c).CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && len(s.Data["token"]) == 0 {
			err = fmt.Errorf("its data is %d keys", len(s.Data))
		}
		if err == nil {
			token = string(s.Data["token"])
		}
		return err
	})
	return token
}

// gatewayKubeconfig writes a kubeconfig with the rights of rbac.yaml's ServiceAccount.
func gatewayKubeconfig(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	answer, err := client(t, c).CoreV1().ServiceAccounts("linkerd").CreateToken(t.Context(), "isthmus", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.REST()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": cfg.Host, "certificate-authority-data": cfg.CAData}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": answer.Status.Token}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// poll waits up to 20 s until check has nothing to object.
func poll(t *testing.T, what string, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("not so in time: %s: %v", what, last)
	}
}

// clustersPage is what the tests read of /debug/clusters.
type clustersPage struct {
	Local    clusterStatus   `json:"local"`
	Clusters []clusterStatus `json:"clusters"`
	Writer   writerStatus    `json:"endpointSliceWriter"`
}

type writerStatus struct {
	Leading, Synced   bool
	Holder            string
	LeaseError, Error string
	Slices            int
	Unread            map[string]string
}

type clusterStatus struct {
	Cluster, Secret, State, Reason string
	Warnings                       []string
	Resources                      []struct {
		Resource string
		Synced   bool
		Err      string
	}
}

func debugClusters(ctx context.Context, admin string) (page clustersPage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/debug/clusters", nil)
	if err != nil {
		return page, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return page, err
	}
	defer res.Body.Close()
	return page, json.NewDecoder(res.Body).Decode(&page)
}

// ready says what keeps the local cluster or a linked one from being ready with every resource.
func (p clustersPage) ready(name string) error {
	all := append([]clusterStatus{p.Local}, p.Clusters...)
	found := false
	for _, c := range all {
		found = found || c.Cluster == name
		if c.State != "ready" {
			return fmt.Errorf("%q is %s: %s", c.Cluster, c.State, c.Reason)
		}
		for _, r := range c.Resources {
			if !r.Synced || r.Err != "" {
				return fmt.Errorf("%q: %s: %s", c.Cluster, r.Resource, r.Err)
			}
		}
	}
	if !found {
		return fmt.Errorf("cluster %s is not there: %+v", name, all)
	}
	return nil
}
