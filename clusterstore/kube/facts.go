package kube

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/decode"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

const readTimeout = time.Minute

// Facts is a snapshot of the facts about one cluster. Facts are immutable.
type Facts struct {
	version, versionError string
	anchors               adminapi.TrustAnchors
	anchorsAt             time.Time // when the anchors were read
	networks              adminapi.PodNetworks
	networksAt            time.Time // when the networks were read
}

// AddTo adds the facts to the given server information. A nil *Facts adds nothing.
func (f *Facts) AddTo(s *adminapi.APIServer) {
	if f == nil {
		return
	}
	anchors, networks := f.anchors, f.networks
	anchors.AgeSeconds = int(time.Since(f.anchorsAt).Seconds())
	networks.AgeSeconds = int(time.Since(f.networksAt).Seconds())
	s.Version = f.version
	s.VersionError = f.versionError
	s.Anchors = &anchors
	s.Networks = &networks
}

// Read reads the facts about a cluster, and reports whether the facts are complete. Facts are
// incomplete if a retry could read additional facts. Missing objects and missing permissions do not
// make the facts incomplete. The namespace argument is the namespace of the control plane.
func Read(ctx context.Context, client *Client, namespace string) (f *Facts, complete bool) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	f = new(Facts)
	complete = true
	var err error
	if f.version, err = Version(ctx, client.Sources); err != nil {
		f.versionError = client.Printable(err).Error()
		complete = false
	}
	complete = settled(f.readAnchors(ctx, client, namespace)) && complete
	complete = settled(f.readNetworks(ctx, client)) && complete
	return f, complete
}

// readAnchors reads the trust anchors. If reading fails, readAnchors returns the error and also
// records its message in the facts.
func (f *Facts) readAnchors(ctx context.Context, client *Client, namespace string) error {
	list, err := readAnchors(ctx, client.Sources, namespace)
	f.anchors = adminapi.TrustAnchors{List: list}
	f.anchorsAt = time.Now()
	if err != nil {
		f.anchors.Error = unread(client, fmt.Sprintf("ConfigMap %s/%s", namespace, AnchorsConfigMap), err)
	}
	return err
}

func (f *Facts) readNetworks(ctx context.Context, client *Client) error {
	networks, err := readNetworks(ctx, client.Sources.Nodes)
	f.networks = networks
	f.networksAt = time.Now()
	if err != nil {
		f.networks = adminapi.PodNetworks{Error: unread(client, "Nodes", err)}
	}
	return err
}

// contentError means that the API server returned an object that cannot be used.
type contentError struct{ error }

func (e contentError) Unwrap() error { return e.error }

// settled reports whether a retry is pointless. A retry is pointless if the read succeeded, or if
// every retry would fail until the cluster or its RBAC permissions change.
func settled(err error) bool {
	return err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

// tellsPresent reports whether the result of a read shows the current state of the cluster. For
// example, a NotFound error proves that an object does not exist, but a timeout proves nothing
// about the object.
func tellsPresent(err error) bool {
	_, content := errors.AsType[contentError](err)
	return content || settled(err)
}

func unread(client *Client, what string, err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "the credentials may not read " + what
	case apierrors.IsNotFound(err):
		return what + " is not there"
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out reading " + what
	}
	return client.Printable(err).Error()
}

// Version returns the version of an API server, such as v1.36.3.
func Version(ctx context.Context, from decode.Sources) (string, error) {
	var info version.Info
	err := from.Document(ctx, "/version", &info)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		code := int(status.ErrStatus.Code)
		return "", fmt.Errorf("the API server responded with %d %s to a version request", code, http.StatusText(code))
	}
	if err == nil && info.GitVersion == "" {
		err = errors.New("the response does not contain the version of an API server")
	}
	return text.Clean(info.GitVersion, text.Short), err
}

// AnchorsConfigMap and anchorsKey name the ConfigMap and the key that contain the trust anchors of
// Linkerd's proxies.
const (
	AnchorsConfigMap = "linkerd-identity-trust-roots"
	anchorsKey       = "ca-bundle.crt"
)

const maxCertificates = 100 // per PEM file

func readAnchors(ctx context.Context, from decode.Sources, namespace string) ([]adminapi.Anchor, error) {
	var m struct {
		Data map[string]string `json:"data"`
	}
	if err := from.Document(
		ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/configmaps/"+AnchorsConfigMap, &m,
	); err != nil {
		return nil, err
	}
	text, ok := m.Data[anchorsKey]
	if !ok {
		return nil, contentError{fmt.Errorf("ConfigMap %s/%s has no key %s", namespace, AnchorsConfigMap, anchorsKey)}
	}
	anchors, err := parseAnchors(text)
	if err != nil {
		return nil, contentError{err}
	}
	return anchors, nil
}

func parseAnchors(text string) (anchors []adminapi.Anchor, err error) {
	list, err := certificates([]byte(text))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ConfigMap %s: %s: %w", AnchorsConfigMap, anchorsKey, err)
	case len(list) == 0:
		return nil, fmt.Errorf("ConfigMap %s: %s has no certificate", AnchorsConfigMap, anchorsKey)
	}
	for _, c := range list {
		sum := sha256.Sum256(c.Raw)
		if a := (adminapi.Anchor{
			SHA256:  hex.EncodeToString(sum[:]),
			Expires: writable(c.NotAfter),
		}); !slices.Contains(anchors, a) {
			anchors = append(anchors, a)
		}
	}
	return anchors, nil
}

// The certificates function parses the certificates in a PEM file and ignores other blocks.
func certificates(text []byte) (list []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if len(list) == maxCertificates {
			return nil, fmt.Errorf("it has more than %d certificates", maxCertificates)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			// The error from package x509 may quote the certificate.
			return nil, fmt.Errorf("certificate %d is malformed", len(list)+1)
		}
		list = append(list, c)
	}
	return list, nil
}

const (
	// maxNodes limits the number of Nodes that are read from one cluster. Each page of the list
	// contains at most nodePage Nodes, because a Node is about ten kilobytes in size.
	maxNodes, nodePage = 5000, 500
	// maxRanges limits the number of IP ranges that are cached for one cluster, and thereby the
	// cost of comparing clusters.
	maxRanges = 1000
)

// errEnough stops a list after maxNodes Nodes, because a hostile server could send an endless list.
var errEnough = errors.New("there are too many Nodes")

func readNetworks(ctx context.Context, from decode.Source[*corev1.Node]) (n adminapi.PodNetworks, err error) {
	ranges := make(map[netip.Prefix]bool)
	options := metav1.ListOptions{Limit: nodePage}
	for range maxNodes / nodePage { // a hostile server could send an endless number of empty pages
		page, err := from.List(ctx, options, func(node *corev1.Node, refused *decode.Refused) error {
			switch {
			case refused != nil:
				return contentError{fmt.Errorf("cannot decode Node %s: %w", refused.Name, refused.Err)}
			case n.Nodes == maxNodes:
				return errEnough
			}
			for _, text := range append(node.Spec.PodCIDRs, node.Spec.PodCIDR) {
				if p, err := netip.ParsePrefix(text); err == nil && len(ranges) < maxNodes {
					ranges[p.Masked()] = true
				}
			}
			n.Nodes++
			return nil
		})
		if n.Partly = errors.Is(err, errEnough) || page.Continue != ""; err != nil && !errors.Is(err, errEnough) {
			return n, err
		}
		if options.Continue = page.Continue; err != nil || options.Continue == "" {
			break
		}
	}
	joined := join(ranges)
	for _, p := range joined[:min(len(joined), maxRanges)] {
		n.CIDRs = append(n.CIDRs, p.String())
	}
	n.Partly = n.Partly || len(joined) > maxRanges
	return n, nil
}

// The join function returns the shortest list of IP ranges that contains exactly the addresses in
// the given ranges. The ranges of the Nodes are usually parts of one cluster-wide range.
func join(ranges map[netip.Prefix]bool) (joined []netip.Prefix) {
	list := make([]netip.Prefix, 0, len(ranges))
	for p := range ranges {
		list = append(list, p)
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	for _, p := range list {
		if n := len(joined); n > 0 && joined[n-1].Overlaps(p) { // the larger range comes first
			continue
		}
		joined = append(joined, p)
		for n := len(joined); n > 1; n = len(joined) { // merge two halves into one range
			a, b := joined[n-2], joined[n-1]
			if a.Bits() == 0 || a.Bits() != b.Bits() {
				break
			}
			whole := netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked()
			if whole.Addr() != a.Addr() || !whole.Contains(b.Addr()) {
				break
			}
			joined = append(joined[:n-2], whole)
		}
	}
	return joined
}

// Expiry describes the credential in cfg that expires first. If no credential expires, the result
// is nil.
func Expiry(cfg *rest.Config) (first *adminapi.Expiry) {
	if at, ok := tokenExpiry(cfg.BearerToken); ok {
		first = &adminapi.Expiry{What: "token", At: at.UTC()}
	}
	// The first certificate is the client certificate, and the others are its chain. The client
	// certificate is usable only while the whole chain is valid.
	if list, err := certificates(cfg.CertData); err == nil {
		for _, c := range list {
			if first == nil || c.NotAfter.Before(first.At) {
				first = &adminapi.Expiry{What: "client certificate", At: writable(c.NotAfter)}
			}
		}
	}
	return first
}

// writable returns t in UTC, limited to years from 0 to 9999, because other years cannot be encoded
// in JSON. If a certificate expires at the end of the year 9999 in a time zone behind UTC, its
// expiry time in UTC is in the year 10000.
func writable(t time.Time) time.Time {
	if t = t.UTC(); t.Year() > 9999 {
		return time.Unix(latest, 0).UTC()
	}
	if t.Year() < 0 {
		return time.Time{}
	}
	return t
}

const latest = 253402300799 // end of the year 9999

// tokenExpiry returns the expiry time of a token, without verifying the token. If the token is not
// a JSON Web Token with an expiry time, tokenExpiry returns false.
func tokenExpiry(token string) (at time.Time, ok bool) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return at, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return at, false
	}
	var claims struct {
		Exp *float64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Exp == nil || math.IsNaN(*claims.Exp) {
		return at, false
	}
	return time.Unix(int64(min(max(*claims.Exp, 0), latest)), 0), true
}
