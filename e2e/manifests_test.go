package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness/kube"
)

// applyManifest writes a file of manifests, with texts replaced by others.
func applyManifest(t *testing.T, c *kube.Client, name string, replace ...string) {
	t.Helper()
	text, err := os.ReadFile(manifest(t, name))
	must(t, err)
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

// gatewayKubeconfig writes a kubeconfig with the rights of install/rbac.yaml's ServiceAccount.
func gatewayKubeconfig(t *testing.T, c *kube.Client) string {
	t.Helper()
	return accountKubeconfig(t, c, "linkerd", "isthmus")
}

// accountKubeconfig writes a kubeconfig with the rights of a ServiceAccount.
func accountKubeconfig(t *testing.T, c *kube.Client, namespace, account string) string {
	t.Helper()
	token, err := c.Token(t.Context(), namespace, account)
	must(t, err)
	text, err := c.Kubeconfig(c.Server(), clientcmdapi.AuthInfo{Token: token})
	must(t, err)
	return writeKubeconfig(t, text)
}

// writeKubeconfig writes a kubeconfig into a file that is there until the test ends.
func writeKubeconfig(t *testing.T, text []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, text, 0o600))
	return path
}
