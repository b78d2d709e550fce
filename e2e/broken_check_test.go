package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

// checkedWorld is a cluster of gateways and one that is linked, with all that isthmus check looks for, and nothing wrong.
type checkedWorld struct {
	*testing.T
	west, east *kube.Client
	eastServer *harness.Cluster
	more       []*kube.Client // besides
	kubeconfig string         // a gateway's
	isthmus    string
	anchor     string
}

// newCheckedWorld starts the two, and more that have the same, and are not linked.
func newCheckedWorld(t *testing.T, more ...string) *checkedWorld {
	servers := startClusters(t, []string{"namespace", "serviceaccount", "token", "endpointslice"}, append([]string{"west", "east"}, more...)...)
	w := &checkedWorld{T: t, west: client(t, servers[0]), east: client(t, servers[1]), eastServer: servers[1], anchor: anchorPEM(t, 365*24*time.Hour)}
	path, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	w.isthmus, err = filepath.Abs(path)
	must(t, err)
	ctx := t.Context()
	must(t, w.west.Apply(ctx, kube.Namespace("linkerd"), kube.Namespace("shop"), w.node("west-1", "10.244.0.0/24"), w.anchors(w.anchor)))
	applyManifest(t, w.west, "install/rbac.yaml")
	for i, server := range servers[1:] {
		linked, cidr := w.east, fmt.Sprintf("10.%d.0.0/24", 245+i)
		if i > 0 {
			linked = client(t, server)
			w.more = append(w.more, linked)
		}
		must(t, linked.Apply(ctx, kube.Namespace("linkerd"), kube.Namespace("linkerd-multicluster"), kube.Namespace("shop"), w.node(server.Name()+"-1", cidr), w.anchors(w.anchor)))
		applyManifest(t, linked, "link/remote-access.yaml")
	}
	w.kubeconfig = gatewayKubeconfig(t, w.west)
	must(t, w.west.Apply(ctx, kube.Link("east", w.link(w.east.Server(), w.eastServer.REST().CAData, 30*24*time.Hour))))
	return w
}

func (w *checkedWorld) node(name, cidr string) *corev1.Node {
	n := kube.Node(name, "zone-1")
	n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
	return n
}

func (w *checkedWorld) anchors(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: "linkerd-identity-trust-roots"},
		Data: map[string]string{"ca-bundle.crt": text},
	}
}

// link returns a kubeconfig for the linked cluster at some server, with a token that is good for so long.
func (w *checkedWorld) link(server string, authority []byte, good time.Duration) []byte {
	w.Helper()
	seconds := int64(good.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := w.east.CoreV1().ServiceAccounts("linkerd-multicluster").CreateToken(w.Context(), "isthmus-remote-access", request, metav1.CreateOptions{})
	must(w.T, err)
	text, err := kube.Kubeconfig("east", clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}, clientcmdapi.AuthInfo{Token: answer.Status.Token})
	must(w.T, err)
	return text
}

// check runs isthmus check, and returns its exit code and what is not fine.
func (w *checkedWorld) check(t *testing.T, args ...string) (code int, bad []string, out adminapi.CheckOutput) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), w.isthmus, append([]string{"check", "-o", "json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s%s", err, &stdout, &stderr)
	}
	for _, r := range out.Results {
		if r.Level == adminapi.CheckOK {
			continue
		}
		bad = append(bad, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Level, r.Check, r.Object))+": "+r.Text)
		if r.Hint == "" && r.Level != adminapi.CheckUnchecked {
			t.Errorf("no hint what to do: %+v", r)
		}
	}
	slices.Sort(bad)
	return cmd.ProcessState.ExitCode(), bad, out
}

// anchorPEM returns a trust anchor that is good for so long.
func anchorPEM(t *testing.T, good time.Duration) string {
	t.Helper()
	certificate, _ := selfSigned(t, good)
	return string(certificate)
}

// selfSigned returns a certificate that is good for so long from now on, and its key, as PEM.
func selfSigned(t *testing.T, good time.Duration) (certificate, key []byte) {
	t.Helper()
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(good), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, made.Public(), made)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(made)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}
