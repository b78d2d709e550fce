package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

const domain = "cluster.local"

// link contains the arguments of a link command.
type link struct {
	remote, name, secret       string
	trustDomain, clusterDomain string
	user                       string // NS/SA, nobody, or empty for the administrator
	exec                       bool
	server                     string // dead, silent, or empty for the API server
	path                       string // path of the server's URL
	tlsServerName              string
	otherCA                    bool
	broken                     bool
	rke                        bool // add a field that client-go does not know, as RKE does
	missing                    []string
	secretType                 string
	annotations                map[string]any // annotations for the Secret
	in                         string         // cluster that contains the Secret
}

// parseLink parses: link REMOTE as NAME [options], and relink.
func parseLink(_ *parser, args []string) (action, error) {
	if args[1] != "as" {
		return nil, fmt.Errorf("%q instead of as", args[1])
	}
	l, err := readLink(args[0], args[2], args[3:])
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *run) error {
		kubeconfig, err := linkKubeconfig(ctx, r, l)
		if err != nil {
			return fmt.Errorf("credentials for %s: %w", l.remote, err)
		}
		return r.apply(ctx, l.in, l.object(kubeconfig))
	}, errors.Join(knownCluster(args[0]), knownCluster(l.in))
}

func readLink(remote, name string, words []string) (link, error) {
	opt, err := readOptions(words,
		"user=", "exec", "server=", "path=", "tls-server-name=", "ca=", "kubeconfig=", "missing=...",
		"type=", "secret=", "trust-domain=", "cluster-domain=", "in=")
	if err != nil {
		return link{}, err
	}
	var errs []error
	for key, only := range map[string][]string{
		"server":     {"dead", "silent"},
		"ca":         {"other"},
		"kubeconfig": {"broken", "rke"},
		"missing":    {"label", "trust-domain", "cluster-domain", "kubeconfig"},
	} {
		for _, v := range opt.values[key] {
			if !slices.Contains(only, v) {
				errs = append(errs, fmt.Errorf("%s=%s: the value must be one of %q", key, v, only))
			}
		}
	}
	l := link{
		remote: remote, name: name,
		secret:        opt.one("secret", kube.LinkName(name)),
		trustDomain:   opt.one("trust-domain", domain),
		clusterDomain: opt.one("cluster-domain", domain),
		user:          opt.one("user", ""),
		exec:          opt.flags["exec"],
		server:        opt.one("server", ""),
		path:          opt.one("path", ""),
		tlsServerName: opt.one("tls-server-name", ""),
		otherCA:       opt.one("ca", "") != "",
		broken:        opt.one("kubeconfig", "") == "broken",
		rke:           opt.one("kubeconfig", "") == "rke",
		missing:       opt.values["missing"],
		secretType:    opt.one("type", kube.LinkType),
		annotations:   opt.annotations,
		in:            opt.one("in", clusterNames[0]),
	}
	if l.user != "" && l.user != "nobody" && !strings.Contains(l.user, "/") {
		errs = append(errs, fmt.Errorf("user=%s is neither NS/SA nor nobody", l.user))
	}
	if l.exec && l.user == "" {
		errs = append(errs, errors.New("exec needs user="))
	}
	return l, errors.Join(errs...)
}

func (l link) object(kubeconfig []byte) *corev1.Secret {
	o := kube.Link(l.name, kubeconfig)
	o.Name, o.Type = l.secret, corev1.SecretType(l.secretType)
	o.Annotations[kube.TrustDomain], o.Annotations[kube.ClusterDomain] = l.trustDomain, l.clusterDomain
	for key, value := range l.annotations {
		o.Annotations[key] = fmt.Sprint(value)
	}
	for _, m := range l.missing {
		delete(o.Annotations, "multicluster.linkerd.io/"+m)
		delete(o.Data, m)
		if m == "label" {
			clear(o.Labels)
		}
	}
	return o
}

func linkKubeconfig(ctx context.Context, r *run, l link) ([]byte, error) {
	if l.broken {
		return []byte("this is: [no kubeconfig"), nil
	}
	w, err := r.writer(l.remote)
	if err != nil {
		return nil, err
	}
	user, err := authInfo(ctx, r, w, l)
	if err != nil {
		return nil, err
	}
	server := w.Server()
	switch l.server {
	case "dead":
		server = "https://" + r.runner.dead.LocalAddr().String()
	case "silent":
		server = "https://" + r.runner.silent.Addr().String()
	}
	if l.otherCA {
		if w, err = r.writer(clusterNames[0]); err != nil {
			return nil, err
		}
	}
	kubeconfig, err := w.Kubeconfig(server+l.path, user)
	if l.rke {
		kubeconfig = withField(kubeconfig, "api-version", "v1")
	}
	if l.tlsServerName != "" {
		kubeconfig = withField(kubeconfig, "tls-server-name", l.tlsServerName)
	}
	return kubeconfig, err
}

func withField(kubeconfig []byte, name, value string) []byte {
	const before = "    server:"
	return bytes.Replace(kubeconfig, []byte(before), fmt.Appendf(nil, "    %s: %s\n%s", name, value, before), 1)
}

func authInfo(ctx context.Context, r *run, w *writer, l link) (user api.AuthInfo, err error) {
	switch {
	case l.user == "":
		return w.Admin(), nil
	case l.user == "nobody":
		user.Token = "nobody-issued-this-token"
	default:
		namespace, name, _ := strings.Cut(l.user, "/")
		if err := r.ensure(ctx, w, namespace); err != nil {
			return user, err
		}
		if user.Token, err = w.Token(ctx, namespace, name); err != nil {
			return user, err
		}
	}
	if !l.exec {
		return user, nil
	}
	const version = "client.authentication.k8s.io/v1"
	credential, err := json.Marshal(object{
		"apiVersion": version, "kind": "ExecCredential", "status": object{"token": user.Token},
	})
	return api.AuthInfo{Exec: &api.ExecConfig{
		APIVersion:      version,
		Command:         "echo",
		Args:            []string{string(credential)},
		InteractiveMode: api.NeverExecInteractiveMode,
	}}, err
}

// parseUnlink parses: unlink NAME [options].
func parseUnlink(_ *parser, args []string) (action, error) {
	l, err := readLink("", args[0], args[1:])
	return func(ctx context.Context, r *run) error {
		return r.delete(ctx, l.in, "secret", kube.LinkNamespace, l.secret, 0)
	}, errors.Join(err, knownCluster(l.in))
}

// parseAnother parses: another-gateway CLUSTER [FLAG...].
func parseAnother(p *parser, args []string) (action, error) {
	return func(ctx context.Context, r *run) error { return startAnother(ctx, r, args[0], args[1:]) }, nil
}

// startAnother starts a second replica with its own local cluster. The replica stops at the end of
// the case.
func startAnother(ctx context.Context, r *run, cluster string, flags []string) error {
	if r.another != nil {
		return errors.New("a second replica is already running")
	}
	w, err := r.writer(cluster)
	if err != nil {
		return err
	}
	if err := r.ensure(ctx, w, kube.LinkNamespace); err != nil {
		return err
	}
	tool := r.runner.env.Tool
	r.another, err = harness.StartReplica(ctx, harness.ReplicaConfig{
		Binary:     tool.Path,
		Kubeconfig: tool.kubeconfig(cluster),
		Hostname:   "isthmus-1",
		Args:       append([]string{"-shutdown-delay=0s", "-drain=0s"}, flags...),
	})
	return err
}

func stopAnother(r *run) error {
	if r.another == nil {
		return nil
	}
	return r.another.Stop()
}
