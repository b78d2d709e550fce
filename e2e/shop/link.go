package shop

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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
	err := poll(ctx, func() (err error) {
		secret, err = c.client.CoreV1().Secrets(who.namespace).Get(ctx, token, metav1.GetOptions{})
		if err == nil && len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
			err = errors.New("it has no token yet")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: Secret %s: %w", c.Name, token, err)
	}
	return c.kubeconfig(who.name, string(secret.Data[corev1.ServiceAccountTokenKey]))
}

func (c *Cluster) kubeconfig(user, token string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Name] = &clientcmdapi.Cluster{Server: c.rest.Host, CertificateAuthorityData: c.rest.CAData}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: user}
	config.CurrentContext = c.Name
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: kubeconfig: %w", c.Name, err)
	}
	return text, nil
}

// Revoke takes a token away and returns when the API server refuses it, which
// takes about ten seconds: it remembers tokens that it has found good.
func (c *Cluster) Revoke(ctx context.Context, token string) error {
	secrets := c.client.CoreV1().Secrets(remoteAccount.namespace)
	secret, err := secrets.Get(ctx, token, metav1.GetOptions{})
	if err == nil {
		err = secrets.Delete(ctx, token, metav1.DeleteOptions{})
	}
	if err != nil {
		return fmt.Errorf("cluster %s: revoke: %w", c.Name, err)
	}
	config := rest.AnonymousClientConfig(c.rest)
	config.BearerToken = string(secret.Data[corev1.ServiceAccountTokenKey])
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("cluster %s: revoke: %w", c.Name, err)
	}
	defer utilnet.CloseIdleConnectionsFor(transport.Transport)
	client, err := kubernetes.NewForConfigAndClient(config, transport)
	if err != nil {
		return fmt.Errorf("cluster %s: revoke: %w", c.Name, err)
	}
	err = poll(ctx, func() error {
		_, err := client.CoreV1().Services(Namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return errors.New("a revoked token is not refused")
		}
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return nil
}

// Link links another cluster to this one by a kubeconfig, or changes the
// kubeconfig of one that is linked.
func (c *Cluster) Link(ctx context.Context, remote string, kubeconfig []byte) error {
	return c.apply(ctx, "link.yaml", map[string]string{
		"Cluster": remote, "Kubeconfig": base64.StdEncoding.EncodeToString(kubeconfig),
	})
}

// Unlink undoes Link.
func (c *Cluster) Unlink(ctx context.Context, remote string) error {
	err := c.client.CoreV1().Secrets("linkerd").Delete(ctx, "cluster-credentials-"+remote, metav1.DeleteOptions{})
	if err != nil {
		return fmt.Errorf("cluster %s: unlink %s: %w", c.Name, remote, err)
	}
	return nil
}
