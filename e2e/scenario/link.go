package scenario

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	authv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const (
	linkNamespace = "linkerd"
	linkType      = "mirror.linkerd.io/remote-kubeconfig"
	domain        = "cluster.local"
)

// link is what one link command asks for.
type link struct {
	remote, name, secret       string
	trustDomain, clusterDomain string
	user                       string // NS/SA, nobody, or empty: the administrator
	exec                       bool
	server                     string // dead, silent, or empty: the right one
	otherCA                    bool
	broken                     bool
	missing                    []string
	secretType                 string
}

// parseLink is for: link REMOTE as NAME [options], and relink.
func parseLink(_ *parser, args []string) (action, error) {
	if args[1] != "as" {
		return nil, fmt.Errorf("%q where there should be: as", args[1])
	}
	l, err := readLink(args[0], args[2], args[3:])
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *run) error {
		kubeconfig, err := r.kubeconfig(ctx, l)
		if err != nil {
			return fmt.Errorf("credentials for %s: %w", l.remote, err)
		}
		return r.apply(ctx, ClusterNames[0], l.object(kubeconfig))
	}, knownCluster(args[0])
}

func readLink(remote, name string, words []string) (link, error) {
	opt, err := readOptions(words, "user=", "exec", "server=", "ca=", "kubeconfig=", "missing=", "type=", "secret=",
		"trust-domain=", "cluster-domain=")
	if err != nil {
		return link{}, err
	}
	var errs []error
	one := func(key, otherwise string, only ...string) string {
		v, err := opt.one(key, otherwise)
		if err == nil && len(only) > 0 && v != otherwise && !slices.Contains(only, v) {
			err = fmt.Errorf("%s=%s: the value must be one of %q", key, v, only)
		}
		errs = append(errs, err)
		return v
	}
	l := link{
		remote: remote, name: name,
		secret:        one("secret", "cluster-credentials-"+name),
		trustDomain:   one("trust-domain", domain),
		clusterDomain: one("cluster-domain", domain),
		user:          one("user", ""),
		exec:          opt.flags["exec"],
		server:        one("server", "", "dead", "silent"),
		otherCA:       one("ca", "", "other") != "",
		broken:        one("kubeconfig", "", "broken") != "",
		missing:       opt.values["missing"],
		secretType:    one("type", linkType),
	}
	for _, m := range l.missing {
		if !slices.Contains([]string{"label", "trust-domain", "cluster-domain", "kubeconfig"}, m) {
			errs = append(errs, fmt.Errorf("missing=%s: there is no such part", m))
		}
	}
	if l.user != "" && l.user != "nobody" && !strings.Contains(l.user, "/") {
		errs = append(errs, fmt.Errorf("user=%s is neither NS/SA nor nobody", l.user))
	}
	if l.exec && l.user == "" {
		errs = append(errs, errors.New("exec goes with user="))
	}
	return l, errors.Join(errs...)
}

// object returns the link's Secret.
func (l link) object(kubeconfig []byte) *unstructured.Unstructured {
	labels := object{"multicluster.linkerd.io/cluster-name": l.name}
	annotations := object{
		"multicluster.linkerd.io/trust-domain":   l.trustDomain,
		"multicluster.linkerd.io/cluster-domain": l.clusterDomain,
	}
	data := object{"kubeconfig": base64.StdEncoding.EncodeToString(kubeconfig)}
	for _, m := range l.missing {
		delete(annotations, "multicluster.linkerd.io/"+m)
		delete(data, m)
		if m == "label" {
			clear(labels)
		}
	}
	return &unstructured.Unstructured{Object: object{
		"apiVersion": "v1", "kind": "Secret", "type": l.secretType,
		"metadata": object{"name": l.secret, "namespace": linkNamespace, "labels": labels, "annotations": annotations},
		"data":     data,
	}}
}

// kubeconfig returns the credentials that the link gives away.
func (r *run) kubeconfig(ctx context.Context, l link) ([]byte, error) {
	if l.broken {
		return []byte("this is: [no kubeconfig"), nil
	}
	w, err := r.writer(l.remote)
	if err != nil {
		return nil, err
	}
	admin := rest.CopyConfig(w.rest)
	if err := rest.LoadTLSFiles(admin); err != nil {
		return nil, err
	}
	cluster := &api.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	switch l.server {
	case "dead":
		cluster.Server = "https://" + r.runner.dead.addr
	case "silent":
		cluster.Server = "https://" + r.runner.silent.addr
	}
	if l.otherCA {
		west, err := r.writer(ClusterNames[0])
		if err != nil {
			return nil, err
		}
		other := rest.CopyConfig(west.rest)
		if err := rest.LoadTLSFiles(other); err != nil {
			return nil, err
		}
		cluster.CertificateAuthorityData = other.CAData
	}
	user, err := l.authInfo(ctx, w, admin)
	if err != nil {
		return nil, err
	}
	return clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{l.remote: cluster},
		AuthInfos:      map[string]*api.AuthInfo{"user": user},
		Contexts:       map[string]*api.Context{l.remote: {Cluster: l.remote, AuthInfo: "user"}},
		CurrentContext: l.remote,
	})
}

func (l link) authInfo(ctx context.Context, w *writer, admin *rest.Config) (*api.AuthInfo, error) {
	token := ""
	switch {
	case l.user == "":
		return &api.AuthInfo{
			ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData, Token: admin.BearerToken,
		}, nil
	case l.user == "nobody":
		token = "nobody-issued-this-token"
	default:
		namespace, name, _ := strings.Cut(l.user, "/")
		resp, err := w.typed.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("token of %s: %w", l.user, err)
		}
		token = resp.Status.Token
	}
	if !l.exec {
		return &api.AuthInfo{Token: token}, nil
	}
	const version = "client.authentication.k8s.io/v1"
	credential, err := json.Marshal(object{
		"apiVersion": version, "kind": "ExecCredential", "status": object{"token": token},
	})
	if err != nil {
		return nil, err
	}
	return &api.AuthInfo{Exec: &api.ExecConfig{
		APIVersion: version, Command: "echo", Args: []string{string(credential)}, InteractiveMode: api.NeverExecInteractiveMode,
	}}, nil
}

// parseUnlink is for: unlink NAME [secret=SECRET].
func parseUnlink(_ *parser, args []string) (action, error) {
	opt, err := readOptions(args[1:], "secret=")
	if err != nil {
		return nil, err
	}
	secret, err := opt.one("secret", "cluster-credentials-"+args[0])
	return func(ctx context.Context, r *run) error {
		return r.delete(ctx, ClusterNames[0], "secret", linkNamespace, secret, 0)
	}, err
}
