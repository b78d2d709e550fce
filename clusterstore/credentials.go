package clusterstore

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/guard"
)

// These constants are the type, label, annotations and data key of a link Secret.
const (
	SecretType              = "mirror.linkerd.io/remote-kubeconfig"
	ClusterNameLabel        = "multicluster.linkerd.io/cluster-name"
	TrustDomainAnnotation   = "multicluster.linkerd.io/trust-domain"
	ClusterDomainAnnotation = "multicluster.linkerd.io/cluster-domain"
	KubeconfigKey           = "kubeconfig"

	// LinkedClusterAnnotation identifies the linked cluster by the UID of its kube-system
	// namespace. The "isthmus link" command sets this annotation.
	LinkedClusterAnnotation = "isthmus.io/linked-cluster"
)

// These reasons explain why a Store does not use a link Secret. The reasons are also the values of
// the "reason" label of the isthmus_link_rejected metric.
const (
	reasonLabel      = "label"
	reasonAnnotation = "annotation"
	reasonKubeconfig = "kubeconfig"
	reasonDuplicate  = "duplicate"
)

// credentials represents one parsed version of a link Secret. It is immutable.
type credentials struct {
	secret  string
	version string // resourceVersion of the Secret
	created time.Time
	read    time.Time              // when this version was read
	cluster federation.ClusterName // from the label; empty if the label is missing or invalid
	refused error                  // why the Secret cannot be used; otherwise nil
	reason  string                 // one of the preceding constants; empty if refused is nil

	identity string       // value of LinkedClusterAnnotation; empty if unknown
	settings linkSettings // also set for a refused Secret

	// The following fields are set only for a Secret that can be used.
	rest        *rest.Config
	server      string // host, port and path, for display
	trustDomain string
	domain      string
	ranges      federation.Ranges // nil means all addresses
	hash        [sha256.Size]byte // hash of the data from which a Cluster is created
	warnings    []string          // insecure settings
	ignored     []string          // unknown fields of the kubeconfig
	expiry      *adminapi.Expiry  // nil if the credentials do not expire
}

// If an annotation is missing, readSecret uses the default setting.
func readSecret(s *corev1.Secret, now time.Time, defaults linkSettings) *credentials {
	c := &credentials{secret: s.Name, version: s.ResourceVersion, created: s.CreationTimestamp.Time, read: now}
	c.settings = readSettings(s.Annotations, defaults)
	c.identity = s.Annotations[LinkedClusterAnnotation]
	if c.cluster, c.refused = readClusterName(s); c.refused != nil {
		c.reason = reasonLabel
	} else {
		c.reason, c.refused = c.readContent(s)
	}
	return c
}

// If readContent returns an error, the first result is the value of the "reason" label in the
// isthmus_link_rejected metric.
func (c *credentials) readContent(s *corev1.Secret) (reason string, err error) {
	trustDomain, ok := s.Annotations[TrustDomainAnnotation]
	if !ok {
		return reasonAnnotation, fmt.Errorf("annotation %s is missing", TrustDomainAnnotation)
	}
	clusterDomain, ok := s.Annotations[ClusterDomainAnnotation]
	if !ok {
		return reasonAnnotation, fmt.Errorf("annotation %s is missing", ClusterDomainAnnotation)
	}
	if list, ok := s.Annotations[RangesAnnotation]; ok {
		if c.ranges, err = readRanges(list); err != nil {
			return reasonAnnotation, fmt.Errorf("annotation %s: %w", RangesAnnotation, err)
		}
	}
	data, ok := s.Data[KubeconfigKey]
	if !ok || len(data) == 0 {
		return reasonKubeconfig, errors.New("key " + KubeconfigKey + " is missing")
	}
	cfg, warnings, err := kube.ReadKubeconfig(data)
	if err != nil {
		return reasonKubeconfig, err
	}
	c.rest = cfg
	c.warnings = warnings.Insecure
	c.ignored = warnings.Ignored
	c.trustDomain = trustDomain
	c.domain = clusterDomain
	c.expiry = kube.Expiry(cfg)
	c.server = kube.ServerName(cfg.Host)
	c.hash = hash(data, []byte(trustDomain), []byte(clusterDomain))
	return "", nil
}

// sameVersion reports whether both credentials come from the same version of a Secret.
func (c *credentials) sameVersion(o *credentials) bool {
	return c.version == o.version && c.version != ""
}

// The describe method returns the part of a cluster's status that depends only on the Secret. The
// argument contains the credentials that are in use for the cluster, and may be nil.
func (c *credentials) describe(used *credentials) adminapi.Cluster {
	d := adminapi.Cluster{Cluster: string(c.cluster), Secret: c.secret, Unread: c.settings.warnings}
	if c.refused != nil {
		d.SecretRefused = c.refused.Error()
	}
	switch {
	case used == nil:
	case used.secret == c.secret:
		d.Insecure = used.warnings
		d.Ignored = used.ignored
	case c.refused == nil:
		d.UsedInstead = used.secret
	}
	return d
}

// explain adds an explanation to the error if the API server rejects the credentials. Without the
// explanation, the server's error (Unauthorized or a TLS alert) would look like a network or server
// failure. All other errors are returned unchanged.
func (c *credentials) explain(err error) error {
	refused := ""
	switch {
	case err == nil || c.rest == nil: // the local cluster has no Secret
		return err
	case guard.RefusedCertificate(err) != "":
		refused = "client certificate"
	case !apierrors.IsUnauthorized(err):
		return err
	case c.rest.BearerToken == "":
		refused = "client certificate"
	case len(c.rest.CertData) == 0:
		refused = "token"
	default:
		refused = "credentials"
	}
	if c.expiry != nil && !time.Now().Before(c.expiry.At) {
		refused += ", expired at " + c.expiry.At.UTC().Format(time.RFC3339)
	}
	return fmt.Errorf("the API server rejects the %s: %w; recreate the link Secret", refused, err)
}

// CheckLink validates a link Secret in the same way as a Store does. If the Secret cannot be used,
// CheckLink returns an error. If the Secret can be used, CheckLink returns the cluster name and
// warnings about insecure or invalid settings. The results never quote the kubeconfig. For the
// exports argument, pass the Settings function of the ExportOptions, or nil.
func CheckLink(s *corev1.Secret, exports func(annotations map[string]string) (any, []string)) (
	name federation.ClusterName, warnings []string, err error,
) {
	if s.Type != SecretType {
		return "", nil, fmt.Errorf("its type is %s, not %s", quote(string(s.Type)), SecretType)
	}
	c := readSecret(s, time.Now(), linkSettings{readExports: exports})
	return c.cluster, slices.Concat(c.warnings, c.ignored, c.settings.warnings), c.refused
}

// readClusterName returns the cluster name in the label. The name "local" is rejected, because
// labels, web pages, annotations and metrics use "local" for the local cluster.
func readClusterName(s *corev1.Secret) (federation.ClusterName, error) {
	name, ok := s.Labels[ClusterNameLabel]
	switch {
	case !ok:
		return "", fmt.Errorf("label %s is missing", ClusterNameLabel)
	case name == "":
		return "", fmt.Errorf("label %s is empty", ClusterNameLabel)
	case name == federation.Local.String():
		return "", fmt.Errorf("label %s is %[2]q, which is reserved for the local cluster: "+
			"link the cluster under another name "+
			"(linkerd multicluster link-gen --cluster-name NAME), "+
			"and replace %[2]q with that name in the annotations multicluster.linkerd.io/remote-discovery",
			ClusterNameLabel,
			name)
	}
	return federation.ClusterName(name), nil
}

// hash returns the SHA-256 hash of a list of byte strings. The hash includes the length of each
// string, so that moving bytes from one string to the next changes the result.
func hash(parts ...[]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write(p)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func sortCredentials(list []*credentials) {
	slices.SortFunc(list, func(a, b *credentials) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.secret, b.secret))
	})
}

// pick returns the credentials to use for a cluster, or nil if none are valid. The list contains
// all credentials of the cluster, oldest first. Usually, pick returns the oldest valid credentials.
// If the Secret in use still exists but has become invalid, the result is its last accepted
// version. An invalid edit to a Secret must not take the cluster down.
func pick(list []*credentials, accepted *credentials) *credentials {
	if accepted != nil {
		now := slices.IndexFunc(list, func(c *credentials) bool { return c.secret == accepted.secret })
		if now >= 0 && list[now].refused != nil {
			return accepted
		}
	}
	if i := slices.IndexFunc(list, func(c *credentials) bool { return c.refused == nil }); i >= 0 {
		return list[i]
	}
	return nil
}
