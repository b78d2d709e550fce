package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/admin"
	"isthmus/e2e/gateway"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
)

// TestManifests applies what users apply and runs the gateway with exactly these rights: in its own cluster those of
// rbac.yaml, in a linked one those of remote-access.yaml, linked by link.yaml with its placeholders filled in.
func TestManifests(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	servers := startClusters(t, []string{"namespace", "serviceaccount", "token"}, "west", "east")
	west, east := client(t, servers[0]), client(t, servers[1])
	must(t, west.Apply(ctx, object.Namespace("linkerd")))
	must(t, east.Apply(ctx, object.Namespace("linkerd-multicluster")))
	applyManifest(t, west, "rbac.yaml")
	applyManifest(t, east, "remote-access.yaml")
	applyManifest(t, west, "link.yaml",
		"https://east.example.com:6443", servers[1].REST().Host,
		"<the cluster's CA certificate, base64>", base64.StdEncoding.EncodeToString(servers[1].REST().CAData),
		"<data.token of Secret isthmus-remote-access-token in east>", secretToken(t, east, "linkerd-multicluster", "isthmus-remote-access-token"))

	g := startGateway(t, gateway.Config{Kubeconfig: gatewayKubeconfig(t, west)})
	await(t, "both clusters are ready, with all their resources", func() error {
		page, err := admin.ReadClusters(ctx, g.MetricsAddr())
		if err != nil {
			return err
		}
		return ready(page, "east")
	})
	must(t, west.ApplyYAML(ctx, `{apiVersion: v1, kind: Service, metadata: {name: vms, namespace: linkerd}, spec: {selector: {app: vm}, ports: [{port: 80, targetPort: 8080}]}}
---
apiVersion: workload.linkerd.io/v1beta1
kind: ExternalWorkload
metadata: {name: vm-1, namespace: linkerd, labels: {app: vm}}
spec: {meshTLS: {identity: spiffe://root/vm-1, serverName: vm-1}, ports: [{port: 8080}], workloadIPs: [{ip: 10.90.1.1}]}
`))
	await(t, "an EndpointSlice is written", func() error {
		page, err := admin.ReadClusters(ctx, g.MetricsAddr())
		if err == nil && page.Writer.Slices != 1 {
			err = fmt.Errorf("the writer's status is %+v", page.Writer)
		}
		return err
	})
}

// applyManifest writes a file of manifests, with texts replaced by others.
func applyManifest(t *testing.T, c *kube.Client, name string, replace ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "manifests", name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !bytes.Contains(text, []byte(replace[i])) {
			t.Fatalf("%s does not contain %q", name, replace[i])
		}
	}
	must(t, c.ApplyYAML(t.Context(), strings.NewReplacer(replace...).Replace(string(text))))
}

// secretToken waits for the token that a controller fills in.
func secretToken(t *testing.T, c *kube.Client, namespace, name string) (token string) {
	t.Helper()
	await(t, "Secret "+name+" has a token", func() error {
		s, err := c.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
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
func gatewayKubeconfig(t *testing.T, c *kube.Client) string {
	t.Helper()
	token, err := c.Token(t.Context(), "linkerd", "isthmus")
	must(t, err)
	text, err := c.Kubeconfig(c.Server(), clientcmdapi.AuthInfo{Token: token})
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, text, 0o600))
	return path
}
