package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/kube"
	"isthmus/e2e/object"
)

const (
	accountName = "gateway"
	issuer      = "https://kubernetes.default.svc.cluster.local"
)

// credentials is what a link gives away.
type credentials struct {
	server string // https://HOST:PORT
	site   *site  // whose authority signs the server's certificate
	token  string // empty: an administrator's certificate
}

// kubeconfig returns the credentials as a link carries them.
func (c credentials) kubeconfig() ([]byte, error) {
	client, user := c.site.client(), clientcmdapi.AuthInfo{Token: c.token}
	if c.token == "" {
		user = client.Admin()
	}
	return client.Kubeconfig(c.server, user)
}

// link writes the link Secret of a cluster name.
func (w *world) link(ctx context.Context, name string, c credentials) error {
	return w.linkBy(ctx, object.LinkName(name), name, c)
}

// linkBy writes a Secret that links a cluster name.
func (w *world) linkBy(ctx context.Context, secret, name string, c credentials) error {
	kubeconfig, err := c.kubeconfig()
	if err != nil {
		return err
	}
	o := object.Link(name, kubeconfig)
	o.Name = secret
	return w.writeLink(ctx, o)
}

func (w *world) writeLink(ctx context.Context, o *corev1.Secret) error {
	_, err := kube.Put(ctx, w.west.client().CoreV1().Secrets(object.LinkNamespace), o)
	return err
}

// unlink deletes the link Secret of a cluster name.
func (w *world) unlink(ctx context.Context, name string) error {
	return w.unlinkBy(ctx, object.LinkName(name))
}

func (w *world) unlinkBy(ctx context.Context, secret string) error {
	return w.west.client().CoreV1().Secrets(object.LinkNamespace).Delete(ctx, secret, metav1.DeleteOptions{})
}

// leeway is for how long after its end an API server still takes a token.
const leeway = time.Minute

// shortToken returns a token of the namespace's ServiceAccount with a shorter life than API servers would issue one for,
// which is ten minutes. It is signed with the cluster's own key.
func (s *site) shortToken(ctx context.Context, namespace string, life time.Duration) (string, error) {
	account, err := s.client().CoreV1().ServiceAccounts(namespace).Get(ctx, accountName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	end := time.Now().Add(life - leeway)
	claims, err := json.Marshal(map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:" + namespace + ":" + accountName,
		"iat": end.Add(-time.Hour).Unix(), "nbf": end.Add(-time.Hour).Unix(), "exp": end.Unix(),
		"kubernetes.io": map[string]any{"namespace": namespace, "serviceaccount": map[string]any{"name": account.Name, "uid": account.UID}},
	})
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(s.cluster().Dir(), "pki", "serviceaccount.key"))
	if err != nil {
		return "", err
	}
	return sign(text, claims)
}

// sign returns a JSON Web Token with an ES256 signature.
func sign(keyPEM, claims []byte) (string, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return "", errors.New("the key is no PEM")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("the key: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		return "", err
	}
	return text + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)), nil
}
