package faults

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness/kube"
)

const accountName = "gateway"

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
	kubeconfig, err := c.kubeconfig()
	if err != nil {
		return err
	}
	return w.writeLink(ctx, kube.Link(name, kubeconfig))
}

func (w *world) writeLink(ctx context.Context, o *corev1.Secret) error {
	_, err := kube.Put(ctx, w.west.client().CoreV1().Secrets(kube.LinkNamespace), o)
	return err
}

// unlink deletes the link Secret of a cluster name.
func (w *world) unlink(ctx context.Context, name string) error {
	return w.west.client().CoreV1().Secrets(kube.LinkNamespace).Delete(ctx, kube.LinkName(name), metav1.DeleteOptions{})
}
