package kube

import (
	"bytes"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdlatest "k8s.io/client-go/tools/clientcmd/api/latest"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// maxKubeconfig is in bytes. A kubeconfig of one cluster has a few kilobytes, most of them certificates.
const maxKubeconfig = 64 << 10

// strictCodec is that of clientcmd, but refuses fields that are there twice.
var strictCodec = func() runtime.Codec {
	scheme := clientcmdlatest.Scheme
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{
		Yaml:   true,
		Strict: true,
	})
	return versioning.NewDefaultingCodecForScheme(
		scheme, s, s, schema.GroupVersion{Version: clientcmdlatest.Version}, runtime.InternalGroupVersioner,
	)
}()

var errUnparsable = errors.New("kubeconfig can't be parsed")

// ReadKubeconfig reads a link's kubeconfig and returns an error if it can't be used.
// A user who may write the Secret must not get the gateway to run a program, read its
// Pod's files, use a proxy or impersonate another user. So a kubeconfig may only have
// a server, its certificate authority, and a token or a client certificate, all
// inline. Its YAML is bounded in size and depth, and has neither anchors nor aliases nor
// merge keys. Its RSA keys are bounded too. Unknown fields are ignored, as client-go does.
//
// Neither errors nor warnings quote the kubeconfig, since that could show credentials. Only the
// names of unknown fields are shown, if these can hardly be a secret. Parsers' errors quote it, so
// they are not wrapped.
func ReadKubeconfig(data []byte) (*rest.Config, Warnings, error) {
	var cfg *rest.Config
	var insecure []string
	file, ignored, err := decodeKubeconfig(data)
	if err == nil {
		cfg, insecure, err = readConfig(file)
	}
	switch {
	case err == nil:
		return cfg, Warnings{Insecure: insecure, Ignored: ignored}, nil
	case len(ignored) > 0: // which may be why a field is missing
		err = fmt.Errorf("%w (it has %s)", err, ignored[0])
	}
	return nil, Warnings{}, err
}

// Warnings are about a kubeconfig that can be used.
type Warnings struct {
	Insecure []string // what is accepted but insecure: TLS verification switched off, and plain http
	Ignored  []string // unknown fields, without their values
}

// readConfig reads the current context of a kubeconfig. Warnings are about what is insecure.
func readConfig(file *clientcmdapi.Config) (cfg *rest.Config, warnings []string, err error) {
	cluster, user, err := currentContext(file)
	if err != nil {
		return nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if err := errors.Join(refuseCluster(cluster), refuseUser(user)); err != nil {
		return nil, nil, err
	}
	server, err := readServer(cluster.Server)
	if err != nil {
		return nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	cfg = &rest.Config{
		Host:               strings.TrimRight(server.String(), "/"),
		BearerToken:        user.Token,
		DisableCompression: cluster.DisableCompression,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: cluster.TLSServerName,
			Insecure:   cluster.InsecureSkipTLSVerify,
			CAData:     cluster.CertificateAuthorityData,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
	}
	if err := checkCredentials(cfg); err != nil {
		return nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if server.Scheme == "http" {
		warnings = append(
			warnings,
			"the server is plain http: anybody on the network path can read the credentials and change the answers",
		)
	}
	if cfg.Insecure {
		warnings = append(
			warnings, "insecure-skip-tls-verify: anybody on the network path can impersonate this cluster",
		)
	}
	return cfg, warnings, nil
}

// decodeKubeconfig decodes YAML within limits. It returns a text for each unknown field, also with
// an error. No data is an empty kubeconfig. Errors do not quote it.
func decodeKubeconfig(data []byte) (*clientcmdapi.Config, []string, error) {
	if len(data) > maxKubeconfig {
		return nil, nil, fmt.Errorf("kubeconfig is too large: %d bytes, more than %d: "+
			"keep only the cluster, the user and the context that the link needs", len(data), maxKubeconfig)
	}
	plain, ignored, err := plainYAML(data)
	if err != nil {
		return nil, ignored, err
	}
	decoded, _, err := strictCodec.Decode(
		plain, &schema.GroupVersionKind{Version: clientcmdlatest.Version, Kind: "Config"}, clientcmdapi.NewConfig(),
	)
	config, ok := decoded.(*clientcmdapi.Config)
	switch {
	case runtime.IsStrictDecodingError(err):
		return nil, ignored, errTwice
	case err != nil || !ok:
		return nil, ignored, errUnparsable
	}
	return config, ignored, nil
}

// currentContext returns the cluster and the user of the current context or, if
// current-context is not set, of the only one.
func currentContext(file *clientcmdapi.Config) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo, error) {
	context := file.Contexts[file.CurrentContext]
	if file.CurrentContext == "" {
		if len(file.Contexts) != 1 {
			return nil, nil, fmt.Errorf("current-context is not set, and there are %d contexts", len(file.Contexts))
		}
		for _, context = range file.Contexts {
		}
	}
	if context == nil {
		return nil, nil, errors.New("current-context names a context that is missing")
	}
	cluster, user := file.Clusters[context.Cluster], file.AuthInfos[context.AuthInfo]
	switch {
	case cluster == nil:
		return nil, nil, errors.New("the context's cluster is missing")
	case user == nil:
		return nil, nil, errors.New("the context's user is missing")
	}
	return cluster, user, nil
}

type refusal struct {
	present bool
	what    string
}

func refuseCluster(c *clientcmdapi.Cluster) error {
	return refuse([]refusal{
		{c.CertificateAuthority != "", "a file reference (certificate-authority)"},
		{c.ProxyURL != "", "a proxy (proxy-url)"},
	})
}

func refuseUser(u *clientcmdapi.AuthInfo) error {
	return refuse([]refusal{
		{u.Exec != nil, "an exec plugin (exec)"},
		{u.AuthProvider != nil, "an auth provider (auth-provider)"},
		{u.ClientCertificate != "", "a file reference (client-certificate)"},
		{u.ClientKey != "", "a file reference (client-key)"},
		{u.TokenFile != "", "a file reference (tokenFile)"},
		{
			u.Impersonate != "" || u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 ||
				len(u.ImpersonateUserExtra) > 0,
			"impersonation (as, as-groups, …)",
		},
		// API servers have not accepted these since Kubernetes 1.19.
		{u.Username != "" || u.Password != "", "a password (username, password)"},
	})
}

func refuse(list []refusal) error {
	for _, r := range list {
		if r.present {
			return fmt.Errorf(
				"kubeconfig has %s, which is not allowed in a link: use an inline token or client certificate", r.what,
			)
		}
	}
	return nil
}

// readServer reads the API server's URL. One with a user name and password is refused,
// since it would show in logs.
func readServer(server string) (*url.URL, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, errors.New("server is not a URL like https://host[:port]")
	case u.User != nil:
		return nil, errors.New("server is a URL with a user name")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("server is a URL with a query or a fragment")
	}
	return u, nil
}

// ServerName returns the host and port of an API server's URL, for logs and pages. If the URL has a
// path, ServerName appends the path, since several clusters may share a host.
func ServerName(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	return u.Host + strings.TrimRight(u.EscapedPath(), "/")
}

// checkCredentials refuses what would make every request fail, so that there is one
// clear error.
func checkCredentials(cfg *rest.Config) error {
	t := cfg.TLSClientConfig
	if err := checkKeyLengths(t.CAData); err != nil {
		return fmt.Errorf("certificate-authority-data %w", err)
	}
	if err := errors.Join(checkKeyLengths(t.CertData), checkKeyLengths(t.KeyData)); err != nil {
		return fmt.Errorf("the client certificate %w", errLongKey)
	}
	switch {
	case len(t.CAData) > 0 && t.Insecure:
		return errors.New("certificate-authority-data and insecure-skip-tls-verify exclude each other")
	case len(t.CAData) > 0 && !x509.NewCertPool().AppendCertsFromPEM(t.CAData):
		return errors.New("certificate-authority-data has no PEM certificate")
	case (len(t.CertData) == 0) != (len(t.KeyData) == 0):
		return errors.New("client-certificate-data and client-key-data must both be set")
	case cfg.BearerToken == "" && len(t.CertData) == 0:
		return errors.New("the user has neither a token nor a client certificate")
	case strings.ContainsFunc(cfg.BearerToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the token has blanks, line breaks or other characters that are not allowed in one")
	}
	if len(t.CertData) > 0 {
		if _, err := tls.X509KeyPair(t.CertData, t.KeyData); err != nil {
			return errors.New("client-certificate-data and client-key-data are not a PEM key pair")
		}
	}
	return nil
}

// maxIgnored is how many unknown fields are named.
const maxIgnored = 8

// harmless matches names of fields that are shown. Other names may be a secret in a broken file.
var harmless = regexp.MustCompile(`^[A-Za-z-]{1,40}$`)

var errTwice = errors.New("kubeconfig has a field that is there twice: remove one of the two")

// dropUnknown removes the fields of a kubeconfig that client-go does not know, as client-go ignores
// them. It returns a text for each of the first maxIgnored fields, and an error if a field occurs
// twice.
func dropUnknown(document *yaml.Node) (ignored []string, err error) {
	u := &unknownFields{}
	for _, root := range document.Content {
		u.visit(root, reflect.TypeFor[clientcmdv1.Config]())
	}
	if more := u.count - len(u.texts); more > 0 {
		u.texts = append(u.texts, fmt.Sprintf("%d more unknown fields", more))
	}
	return u.texts, u.err
}

// unknownFields collects the fields that are dropped.
type unknownFields struct {
	texts []string
	count int
	err   error
}

// visit drops the unknown fields of a value that is decoded as a type. A value of another form is left to the decoder.
func (u *unknownFields) visit(n *yaml.Node, as reflect.Type) {
	switch as.Kind() {
	case reflect.Pointer:
		u.visit(n, as.Elem())
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return
		}
		for _, element := range n.Content {
			u.visit(element, as.Elem())
		}
	case reflect.Struct:
		if n.Kind == yaml.MappingNode && as != reflect.TypeFor[runtime.RawExtension]() {
			u.visitFields(n, as)
		}
	}
}

// visitFields does visit for a mapping.
func (u *unknownFields) visitFields(n *yaml.Node, as reflect.Type) {
	known := make(map[string]reflect.Type)
	for field := range as.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = field.Type
	}
	seen := make(map[string]bool)
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && seen[key.Value] {
			u.err = errTwice
		}
		seen[key.Value] = true
		field, ok := known[key.Value]
		if !ok || key.Kind != yaml.ScalarNode {
			u.note(key)
			continue
		}
		u.visit(value, field)
		kept = append(kept, key, value)
	}
	n.Content = kept
}

// note records a field that is dropped.
func (u *unknownFields) note(key *yaml.Node) {
	u.count++
	if u.count > maxIgnored {
		return
	}
	text := fmt.Sprintf("an unknown field in line %d", key.Line)
	if key.Kind == yaml.ScalarNode && harmless.MatchString(key.Value) {
		text += ": " + key.Value
	}
	u.texts = append(u.texts, text)
}

const (
	// maxDepth is how deep maps and lists of a kubeconfig may be nested. One without
	// extensions needs 8 levels.
	maxDepth = 20
	// maxRSA is the longest number of an RSA key, in bits: what crypto/tls accepts of a
	// peer. What a key costs grows with the cube of its length, and no time-out ends it: to
	// read one that fills a kubeconfig would take hours.
	maxRSA = 8192
)

var errLongKey = errors.New("has an RSA key that is longer than 8192 bits: use a shorter one, or ECDSA")

// plainYAML returns the only document of a YAML text. What decodes it copies the content of each alias, so
// that some hundred kilobytes could become gigabytes: so one with an anchor, of which there could be aliases, is
// refused. The document is written anew: the decoder, which has another parser, must not find an alias where this
// one found none.
//
// It leaves out fields that are unknown in a kubeconfig, and returns a text for each.
func plainYAML(data []byte) (plain []byte, ignored []string, err error) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	if err := documents.Decode(&document); err != nil && err != io.EOF {
		return nil, nil, errUnparsable
	}
	if err := documents.Decode(&next); err != io.EOF {
		return nil, nil, errors.New("kubeconfig has more than one YAML document: keep one")
	}
	if err := checkNode(&document, 0); err != nil {
		return nil, nil, err
	}
	if ignored, err = dropUnknown(&document); err != nil {
		return nil, ignored, err
	}
	plain, err = yaml.Marshal(&document)
	return plain, ignored, err
}

// checkNode refuses anchors, merge keys and deep nesting, and drops comments.
func checkNode(n *yaml.Node, depth int) error {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	switch {
	case n.Anchor != "" || n.ShortTag() == "!!merge":
		return fmt.Errorf(
			"kubeconfig has a YAML anchor or merge key (& or <<) in line %d, which is not allowed in a link: write "+
				"values out",
			n.Line,
		)
	case depth > maxDepth && len(n.Content) > 0:
		return fmt.Errorf(
			"kubeconfig is nested deeper than %d levels in line %d: keep only what the link needs", maxDepth, n.Line,
		)
	}
	for _, child := range n.Content {
		if err := checkNode(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkKeyLengths returns an error if a text in PEM has a certificate or a private key
// whose RSA key is too long, without reading the private key: crypto/x509 calculates with all its numbers before
// it finds that they do not belong together.
func checkKeyLengths(text []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		long := false
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil { // which calculates nothing
			key, isRSA := cert.PublicKey.(*rsa.PublicKey)
			long = isRSA && key.N.BitLen() > maxRSA
		} else {
			long = hasLongNumber(block.Bytes)
		}
		if long {
			return errLongKey
		}
	}
	return nil
}

// hasLongNumber returns whether a number in DER is longer than maxRSA, within whatever holds it.
func hasLongNumber(der []byte) bool {
	for len(der) > 0 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		switch isNumber := v.Class == asn1.ClassUniversal && v.Tag == asn1.TagInteger; {
		case err != nil:
			return false
		case isNumber && new(big.Int).SetBytes(v.Bytes).BitLen() > maxRSA:
			return true
		case !isNumber && hasLongNumber(v.Bytes):
			return true
		}
		der = rest
	}
	return false
}
