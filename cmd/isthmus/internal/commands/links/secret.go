package links

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/clusterstore"
	"isthmus/clusterstore/kube"
	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/guard"
	"isthmus/internal/pace"
)

// The commands in this package store information about the linked cluster in the following
// annotations of a link Secret.
const (
	clusterAnnotation = clusterstore.LinkedClusterAnnotation // identity of the linked cluster
	accountAnnotation = "isthmus.io/linked-account"          // NAMESPACE/NAME of the ServiceAccount in that cluster
	tokenAnnotation   = "isthmus.io/linked-token"            // name of the token's Secret
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func secretName(link string) string { return "cluster-credentials-" + link }

// linkContent is the part of a link Secret that "isthmus link" sets.
type linkContent struct {
	link          string
	cluster       types.UID
	account       types.NamespacedName
	token         token
	server        server
	trustDomain   string
	clusterDomain string
	ranges        string // empty to keep the existing ranges
	network       string // empty to keep the existing network
}

// toSecret returns a link Secret with the content of c. If the Secret already exists, the result
// keeps all existing labels, annotations and keys that toSecret does not set.
func (c *linkContent) toSecret(existing *corev1.Secret, namespace string) (*corev1.Secret, error) {
	s := existing.DeepCopy()
	if s == nil {
		s = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretName(c.link)},
			Type:       clusterstore.SecretType,
		}
	}
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	kubeconfig, err := c.server.kubeconfig(c.link, c.account.Name, c.token.text)
	if err != nil {
		return nil, err
	}
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	s.Data[clusterstore.KubeconfigKey] = kubeconfig
	metav1.SetMetaDataLabel(&s.ObjectMeta, clusterstore.ClusterNameLabel, c.link)
	for name, value := range map[string]string{
		clusterstore.TrustDomainAnnotation:   c.trustDomain,
		clusterstore.ClusterDomainAnnotation: c.clusterDomain,
		clusterstore.RangesAnnotation:        c.ranges,
		clusterstore.NetworkAnnotation:       c.network,
		clusterAnnotation:                    string(c.cluster),
		accountAnnotation:                    c.account.String(),
		tokenAnnotation:                      c.token.secret,
	} {
		if value != "" {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, name, value)
		}
	}
	return s, nil
}

// errChanged reports that the credentials of a link Secret have changed since they were read.
var errChanged = errors.New("another user has changed the credentials in the meantime: run the command again")

// write creates or updates the link Secret and returns the written Secret. Concurrent changes by
// other clients are preserved. If another client has changed the credentials, the error is
// [errChanged].
func (c *linkContent) write(
	ctx context.Context, local *cluster, namespace string, existing *corev1.Secret,
) (written *corev1.Secret, err error) {
	secrets := local.API.Secrets(namespace)
	now := existing
	for {
		s, err := c.toSecret(now, namespace)
		if err != nil {
			return nil, err
		}
		if existing == nil {
			return secrets.Create(ctx, s, metav1.CreateOptions{})
		}
		if written, err = secrets.Update(ctx, s, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return written, err
		}
		if now, err = secrets.Get(ctx, existing.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		if !sameCredentials(now, existing) {
			return nil, errChanged
		}
	}
}

// tryTimeout limits how long a link's credentials are tested.
const tryTimeout = 10 * time.Second

// linkContent.try asks a link's API server for the user name that belongs to the link's
// credentials. If the server's response shows that replicas cannot use the credentials, the result
// is an error. If the server is unreachable from this machine, the method only prints a warning.
func (c *linkContent) try(ctx context.Context, w *work, s *corev1.Secret) error {
	config, _, err := kube.ReadKubeconfig(s.Data[clusterstore.KubeconfigKey])
	if err != nil {
		return err
	}
	reach.Guard(config)
	api, done, err := reach.Clients(config)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	who, err := c.whoami(ctx, api)
	invalid, _ := guard.Certificate(err)
	switch want := fmt.Sprintf("system:serviceaccount:%s:%s", c.account.Namespace, c.account.Name); {
	case invalid != "":
		return fmt.Errorf("the certificate of %s is not valid for this link: %s: correct --server or --ca-file",
			c.server, invalid)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s rejects the new token: check that --server is the URL of the linked cluster's API server",
			c.server)
	case err != nil:
		w.warn("cannot test the link from this machine: %s; replicas must be able to reach %s",
			commands.Printable(err.Error()), c.server)
	case who != want:
		return fmt.Errorf("%s accepts the new token, but identifies it as user %s instead of %s: "+
			"check that --server is the URL of the linked cluster's API server",
			c.server, commands.Printable(who), want)
	}
	return nil
}

// whoami returns the user name that belongs to the credentials. whoami retries a rejected token,
// because one of several API servers may not yet know the token.
func (c *linkContent) whoami(ctx context.Context, api *kube.Clients) (string, error) {
	for {
		review, err := api.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
			metav1.CreateOptions{})
		if err == nil {
			return review.Status.UserInfo.Username, nil
		}
		if !apierrors.IsUnauthorized(err) || !pace.Sleep(ctx, time.Second) {
			return "", err
		}
	}
}

func sameCredentials(a, b *corev1.Secret) bool {
	return a.UID == b.UID && string(a.Data[clusterstore.KubeconfigKey]) == string(b.Data[clusterstore.KubeconfigKey])
}

// printed returns a link Secret as users store it in files: without the fields that the API server
// sets, and with the kubeconfig as text.
func printed(s *corev1.Secret) *corev1.Secret {
	s = s.DeepCopy()
	s.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels, Annotations: s.Annotations}
	delete(s.Annotations, lastApplied)
	s.StringData = map[string]string{clusterstore.KubeconfigKey: string(s.Data[clusterstore.KubeconfigKey])}
	delete(s.Data, clusterstore.KubeconfigKey)
	return s
}

// server is the API server of a link, with the address that replicas use.
type server clientcmdapi.Cluster

// isServerName reports whether a server certificate may contain the name.
func isServerName(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil || len(validation.IsDNS1123Subdomain(strings.ToLower(name))) == 0
}

// linkConfig returns the client configuration of a link Secret's kubeconfig, or nil if the
// kubeconfig is unusable.
func linkConfig(s *corev1.Secret) *rest.Config {
	if s == nil {
		return nil
	}
	config, _, err := kube.ReadKubeconfig(s.Data[clusterstore.KubeconfigKey])
	if err != nil {
		return nil
	}
	return config
}

func (s server) kubeconfig(link, user, token string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[link] = (*clientcmdapi.Cluster)(&s)
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[link] = &clientcmdapi.Context{Cluster: link, AuthInfo: user}
	config.CurrentContext = link
	return clientcmd.Write(*config)
}

// String returns the server's URL, for messages.
func (s server) String() string { return commands.Printable(s.Server) }

// loopback reports whether the server's address is a loopback or unspecified address.
func (s server) loopback() bool {
	u, err := url.Parse(s.Server)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// sameServer reports whether two URLs refer to the same API server. Several clusters may share a
// host and port. For example, Rancher distinguishes clusters with the same host and port by the
// path.
func sameServer(a, b string) bool { return normalized(a) == normalized(b) }

// normalized returns the host, port and path of a URL in a form that can be compared.
func normalized(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	port := "443"
	if u.Scheme == "http" {
		port = "80"
	}
	host := net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), port))
	return host + strings.TrimRight(u.EscapedPath(), "/")
}
