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

// maxKubeconfig is the maximum size of a kubeconfig, in bytes. A kubeconfig for one cluster usually
// consists of a few kilobytes of data, mainly certificates.
const maxKubeconfig = 64 << 10

// strictCodec is like the codec of package clientcmd, but returns an error for duplicate fields.
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

// ReadKubeconfig parses the kubeconfig of a link, and returns an error if the kubeconfig is
// unusable. To protect Isthmus from users who can write the Secret, ReadKubeconfig refuses a
// kubeconfig that would run a program, read a file, use a proxy or impersonate a user. A kubeconfig
// may contain only a server, its certificate authority, and a token or a client certificate, all of
// them inline. Unknown fields are ignored, as in client-go.
//
// Errors and warnings do not quote the kubeconfig, because the quoted text could contain
// credentials. The only exception is the name of an unknown field, which is quoted if the name
// itself is unlikely to be a secret. Errors from parsers are not wrapped, because such errors quote
// the input.
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
	case len(ignored) > 0: // an ignored field may explain why a required field is missing
		err = fmt.Errorf("%w (it has %s)", err, ignored[0])
	}
	return nil, Warnings{}, err
}

// Warnings describe problems with a kubeconfig that do not make it unusable.
type Warnings struct {
	Insecure []string // insecure but accepted settings: disabled TLS verification, and plain HTTP
	Ignored  []string // unknown fields, without their values
}

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
			"the server uses plain HTTP: anybody on the network path can read the credentials and change responses",
		)
	}
	if cfg.Insecure {
		warnings = append(
			warnings, "insecure-skip-tls-verify is set: anybody on the network path can impersonate this cluster",
		)
	}
	return cfg, warnings, nil
}

// decodeKubeconfig decodes the YAML of a kubeconfig, and returns a description of each unknown
// field, even if decoding fails. Empty data is decoded as an empty kubeconfig.
func decodeKubeconfig(data []byte) (*clientcmdapi.Config, []string, error) {
	if len(data) > maxKubeconfig {
		return nil, nil, fmt.Errorf("the kubeconfig is too large: it is %d bytes, but the maximum is %d: "+
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

// currentContext returns the cluster and the user of the current context. If current-context is not
// set, the kubeconfig must contain exactly one context.
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
		return nil, nil, errors.New("current-context names a context that does not exist")
	}
	cluster := file.Clusters[context.Cluster]
	user := file.AuthInfos[context.AuthInfo]
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
		// API servers have not accepted passwords since Kubernetes 1.19.
		{u.Username != "" || u.Password != "", "a password (username, password)"},
	})
}

func refuse(list []refusal) error {
	for _, r := range list {
		if r.present {
			return fmt.Errorf(
				"kubeconfig contains %s, which is not allowed in a link: use an inline token or client certificate",
				r.what,
			)
		}
	}
	return nil
}

// readServer parses the URL of an API server. A URL that contains a user name or password is
// rejected, because these would appear in logs.
func readServer(server string) (*url.URL, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, errors.New("server is not a URL of the form https://host[:port] or http://host[:port]")
	case u.User != nil:
		return nil, errors.New("server is a URL with a user name")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("server is a URL with a query or a fragment")
	}
	return u, nil
}

// ServerName returns the host, port and path of an API server's URL, for display to users. The path
// is included because several clusters may share a host.
func ServerName(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	return u.Host + strings.TrimRight(u.EscapedPath(), "/")
}

// If the credentials would make every request fail, checkCredentials returns a clear error.
func checkCredentials(cfg *rest.Config) error {
	t := cfg.TLSClientConfig
	if err := checkKeyLengths(t.CAData); err != nil {
		return fmt.Errorf("certificate-authority-data: %w", err)
	}
	if err := errors.Join(checkKeyLengths(t.CertData), checkKeyLengths(t.KeyData)); err != nil {
		return fmt.Errorf("the client certificate: %w", errLongKey)
	}
	switch {
	case len(t.CAData) > 0 && t.Insecure:
		return errors.New("certificate-authority-data and insecure-skip-tls-verify must not both be set")
	case len(t.CAData) > 0 && !x509.NewCertPool().AppendCertsFromPEM(t.CAData):
		return errors.New("certificate-authority-data does not contain a PEM certificate")
	case (len(t.CertData) == 0) != (len(t.KeyData) == 0):
		return errors.New("client-certificate-data and client-key-data must both be set")
	case cfg.BearerToken == "" && len(t.CertData) == 0:
		return errors.New("the user has neither a token nor a client certificate")
	case strings.ContainsFunc(cfg.BearerToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the token contains white space or other characters that are not allowed in a token")
	}
	if len(t.CertData) > 0 {
		if _, err := tls.X509KeyPair(t.CertData, t.KeyData); err != nil {
			return errors.New("client-certificate-data and client-key-data are not a PEM key pair")
		}
	}
	return nil
}

const maxIgnored = 8 // unknown fields that are listed by name

// Warnings show the name of an unknown field only if the name matches the following pattern. In a
// malformed kubeconfig, a secret could appear where a field name belongs.
var harmless = regexp.MustCompile(`^[A-Za-z-]{1,40}$`)

var errTwice = errors.New("kubeconfig contains the same field twice: remove one of the two")

// dropUnknown removes all fields that client-go does not know, and returns descriptions of the
// first maxIgnored removed fields. A duplicate field is an error.
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

type unknownFields struct {
	texts []string
	count int
	err   error
}

// The visit method removes unknown fields from a YAML node that will be decoded as the given Go
// type. If the node does not match the Go type, the method leaves the node unchanged, because the
// decoder will return an error.
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

func (u *unknownFields) note(key *yaml.Node) {
	u.count++
	if u.count > maxIgnored {
		return
	}
	text := fmt.Sprintf("an unknown field on line %d", key.Line)
	if key.Kind == yaml.ScalarNode && harmless.MatchString(key.Value) {
		text += ": " + key.Value
	}
	u.texts = append(u.texts, text)
}

const (
	// maxDepth limits the nesting of maps and lists. A kubeconfig without extensions has at most 8
	// levels of nesting.
	maxDepth = 20
	// maxRSA is the maximum length, in bits, of the integers in an RSA key. The crypto/tls package
	// has the same limit for a peer's key. The CPU time for processing an RSA key grows with the
	// cube of the key's length, and the processing cannot be canceled. Processing the largest key
	// that fits into a kubeconfig would take hours.
	maxRSA = 8192
)

var errLongKey = errors.New("an RSA key is longer than 8192 bits: use a shorter key, or ECDSA")

// plainYAML removes the unknown fields from a YAML file, and returns descriptions of the removed
// fields. A file with more than one YAML document is rejected. A YAML document with an anchor is
// also rejected, because aliases could expand a small file to gigabytes. The result is a new
// encoding of the checked document, not the original file. The kubeconfig decoder uses a different
// YAML parser, which could find an alias in the original file that plainYAML missed.
func plainYAML(data []byte) (plain []byte, ignored []string, err error) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	if err := documents.Decode(&document); err != nil && err != io.EOF {
		return nil, nil, errUnparsable
	}
	if err := documents.Decode(&next); err != io.EOF {
		return nil, nil, errors.New("kubeconfig has more than one YAML document: keep only one")
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

// checkNode removes comments from a YAML node. If the node contains an anchor or a merge key, or is
// nested too deeply, checkNode returns an error.
func checkNode(n *yaml.Node, depth int) error {
	n.HeadComment = ""
	n.LineComment = ""
	n.FootComment = ""
	switch {
	case n.Anchor != "" || n.ShortTag() == "!!merge":
		return fmt.Errorf(
			"kubeconfig has a YAML anchor or merge key (& or <<) on line %d: write out all values instead",
			n.Line,
		)
	case depth > maxDepth && len(n.Content) > 0:
		return fmt.Errorf(
			"kubeconfig is nested more than %d levels deep on line %d: keep only what the link needs", maxDepth, n.Line,
		)
	}
	for _, child := range n.Content {
		if err := checkNode(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkKeyLengths returns an error if PEM data contains an RSA key that is longer than maxRSA bits,
// either in a certificate or as a private key. Private keys are not parsed with crypto/x509,
// because that package performs expensive computations on the integers of a key before it validates
// the key.
func checkKeyLengths(text []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		long := false
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil { // parsing a certificate is cheap
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

// hasLongNumber reports whether DER data contains an integer longer than maxRSA, at any depth.
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
