package shop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness/kube"
)

// account is a ServiceAccount together with the template that grants it its
// rights.
type account struct{ namespace, name, grants string }

var (
	gatewayAccount = account{"linkerd", "linkerd-destination", "gateway.yaml"}
	remoteAccount  = account{"linkerd-multicluster", "linkerd-service-mirror-remote-access-default", "remote-access.yaml"}
)

// GatewayAccess lets the gateway into its own cluster and returns its
// kubeconfig.
func (c *Cluster) GatewayAccess(ctx context.Context) ([]byte, error) {
	return c.access(ctx, gatewayAccount, gatewayAccount.name+"-token")
}

// RemoteAccess lets the gateway of another cluster in, to read what Linkerd
// grants, and returns a kubeconfig to link this cluster by. Its token lasts
// until Revoke with the same name.
func (c *Cluster) RemoteAccess(ctx context.Context, token string) ([]byte, error) {
	return c.access(ctx, remoteAccount, token)
}

func (c *Cluster) access(ctx context.Context, who account, token string) ([]byte, error) {
	if err := c.apply(ctx, who.grants, nil); err != nil {
		return nil, err
	}
	names := map[string]string{"Name": token, "Namespace": who.namespace, "Account": who.name}
	if err := c.apply(ctx, "token.yaml", names); err != nil {
		return nil, err
	}
	var secret *corev1.Secret
	err := wait(ctx, func() (err error) {
		secret, err = c.CoreV1().Secrets(who.namespace).Get(ctx, token, metav1.GetOptions{})
		if err == nil && len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
			err = errors.New("no token yet")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: Secret %s: %w", c.Name, token, err)
	}
	return c.Kubeconfig(c.Server(), clientcmdapi.AuthInfo{Token: string(secret.Data[corev1.ServiceAccountTokenKey])})
}

// Revoke takes a token away and returns when the API server refuses it, which
// takes about ten seconds: it remembers tokens that it has found good.
func (c *Cluster) Revoke(ctx context.Context, token string) error {
	secrets := c.CoreV1().Secrets(remoteAccount.namespace)
	secret, err := secrets.Get(ctx, token, metav1.GetOptions{})
	if err == nil {
		err = secrets.Delete(ctx, token, metav1.DeleteOptions{})
	}
	if err != nil {
		return fmt.Errorf("cluster %s: revoke: %w", c.Name, err)
	}
	if err := wait(ctx, func() error { return c.Refuses(ctx, string(secret.Data[corev1.ServiceAccountTokenKey])) }); err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	return nil
}

// Link links another cluster to this one by a kubeconfig, or changes the
// kubeconfig of one that is linked.
func (c *Cluster) Link(ctx context.Context, remote string, kubeconfig []byte) error {
	return c.Apply(ctx, kube.Link(remote, kubeconfig))
}

// AnnotateLink sets annotations of another cluster's link: the empty value removes one. It returns when it wrote them.
func (c *Cluster) AnnotateLink(ctx context.Context, remote string, annotations map[string]string) (time.Time, error) {
	patch, err := annotationPatch(annotations)
	if err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	_, err = c.CoreV1().Secrets(kube.LinkNamespace).Patch(ctx, kube.LinkName(remote), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("cluster %s: annotate the link of %s: %w", c.Name, remote, err)
	}
	return at, nil
}

// Unlink undoes Link.
func (c *Cluster) Unlink(ctx context.Context, remote string) error {
	err := c.CoreV1().Secrets(kube.LinkNamespace).Delete(ctx, kube.LinkName(remote), metav1.DeleteOptions{})
	if err != nil {
		return fmt.Errorf("cluster %s: unlink %s: %w", c.Name, remote, err)
	}
	return nil
}

// LinkerdGateway is one of the gateways by which others reach the cluster's Services.
type LinkerdGateway struct {
	Name  string         // of its Service
	Addr  netip.AddrPort // of its load balancer
	Probe uint16         // the port at that address where it answers probes
}

// Gateways writes gateways of the cluster. It has to be linked already.
func (c *Cluster) Gateways(ctx context.Context, list ...LinkerdGateway) error {
	return c.apply(ctx, "linkerd-gateway.yaml", list)
}
