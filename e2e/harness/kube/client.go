// Package kube builds Kubernetes objects and writes them to real API servers.
//
// Functions such as [Pod] and [Slice] return a new object with what nearly everybody needs. Callers set the rest on the
// object itself:
//
//	pod := kube.Mesh(kube.Pod("shop", "web-1", "web"))
//	pod.Annotations = map[string]string{"config.linkerd.io/opaque-ports": "8080"}
//	slice := kube.Slice("shop", "web", "1", kube.PodEndpoint("10.1.0.1", "shop", pod.Name))
//
// The objects are valid for a real API server. Labels, annotations, the proxy's container and link Secrets have the names
// that Linkerd gives them. Services have port 80, called http, and their EndpointSlices port 8080 of that name. Kinds that
// client-go has no types for are unstructured. Nothing is shared between two objects.
//
// A [Client] is the administrator of one cluster. Objects of any kind, typed, unstructured or YAML, are written by
// server-side apply, so that writing them again changes them into what is written now. Besides, it issues credentials for
// others. Its methods may be called from several goroutines.
package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Client is an administrator of a cluster. Close it when done.
type Client struct {
	kubernetes.Interface
	Name    string // the cluster's
	Dynamic dynamic.Interface

	config *rest.Config
	http   *http.Client
	mapper meta.RESTMapper
}

// NewClient returns a client. It sends nothing yet.
func NewClient(cluster string, config *rest.Config) (*Client, error) {
	fail := func(err error) (*Client, error) { return nil, fmt.Errorf("cluster %s: %w", cluster, err) }
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext, config.WarningHandler = nil, rest.NoWarnings{} // that core Endpoints are deprecated
	if err := rest.LoadTLSFiles(config); err != nil {
		return fail(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fail(err)
	}
	c := &Client{Name: cluster, config: config, http: client}
	if c.Interface, err = kubernetes.NewForConfigAndClient(config, client); err != nil {
		return fail(err)
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return fail(err)
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Discovery()))
	return c, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// Token returns a token of a ServiceAccount that is good for an hour.
func (c *Client) Token(ctx context.Context, namespace, account string) (string, error) {
	answer, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("cluster %s: token of %s/%s: %w", c.Name, namespace, account, err)
	}
	return answer.Status.Token, nil
}

// Admin returns the client's own credentials.
func (c *Client) Admin() clientcmdapi.AuthInfo {
	return clientcmdapi.AuthInfo{ClientCertificateData: c.config.CertData, ClientKeyData: c.config.KeyData, Token: c.config.BearerToken}
}

// Server returns the address of the API server: https://HOST:PORT.
func (c *Client) Server() string { return c.config.Host }

// Kubeconfig returns a kubeconfig for a user of the cluster, by the cluster's certificate authority. The server is the API
// server or what stands in front of it.
func (c *Client) Kubeconfig(server string, user clientcmdapi.AuthInfo) ([]byte, error) {
	text, err := Kubeconfig(c.Name, clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.config.CAData}, user)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: kubeconfig: %w", c.Name, err)
	}
	return text, nil
}

// Refuses returns an error unless the API server refuses a token. It goes on accepting a token that has been deleted or has
// expired for about ten seconds: it remembers those that it has found good.
func (c *Client) Refuses(ctx context.Context, token string) error {
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	other, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return err
	}
	_, err = other.CoreV1().Services("default").List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsUnauthorized(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("cluster %s: the token is not refused", c.Name), err)
}
