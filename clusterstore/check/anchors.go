package check

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/typed"
)

// Where Linkerd's proxies have their trust anchors from.
const (
	anchorsConfigMap = "linkerd-identity-trust-roots"
	anchorsKey       = "ca-bundle.crt"
)

// anchors are the certificates that the proxies of a cluster trust.
type anchors []*x509.Certificate

// readAnchors reads them from a cluster.
func readAnchors(ctx context.Context, from *typed.Clients, namespace string) (anchors, error) {
	m, err := from.ConfigMaps(namespace).Get(ctx, anchorsConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	text, ok := m.Data[anchorsKey]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s/%s has no key %s", namespace, anchorsConfigMap, anchorsKey)
	}
	return parseAnchors(text)
}

func parseAnchors(text string) (anchors, error) {
	list, err := certificates([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %s: %w", anchorsConfigMap, anchorsKey, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("ConfigMap %s: %s has no certificate", anchorsConfigMap, anchorsKey)
	}
	return list, nil
}

// shared returns how many of the anchors the other cluster has too.
func (a anchors) shared(other anchors) (n int) {
	for _, c := range a.distinct() {
		if slices.ContainsFunc(other, c.Equal) {
			n++
		}
	}
	return n
}

// distinct leaves out what is there twice.
func (a anchors) distinct() (list anchors) {
	seen := make(map[[sha256.Size]byte]bool)
	for _, c := range a {
		if sum := sha256.Sum256(c.Raw); !seen[sum] {
			seen[sum] = true
			list = append(list, c)
		}
	}
	return list
}

// expiry describes the anchor that is good for longest, and those that are not good any more.
func (a anchors) expiry(now time.Time) (level Level, text string) {
	last := slices.MaxFunc(a, func(x, y *x509.Certificate) int { return x.NotAfter.Compare(y.NotAfter) })
	level, text = expiry(now, last.NotAfter, soonAnchors)
	if level != OK {
		return level, "the trust anchor " + text
	}
	expired := 0
	for _, c := range a {
		if !now.Before(c.NotAfter) {
			expired++
		}
	}
	if expired > 0 {
		return Warning, fmt.Sprintf("%d of %d trust anchors have expired; one %s", expired, len(a), text)
	}
	return OK, "the trust anchor " + text
}

// compareAnchors describes how those of a linked cluster fit to the own ones.
func compareAnchors(here, there anchors) (level Level, text string) {
	common, n, m := here.shared(there), len(here.distinct()), len(there.distinct())
	switch {
	case common == 0:
		return Failure, "no trust anchor in common with the local cluster: proxies refuse each other's identities"
	case common < n || common < m:
		return Warning, fmt.Sprintf("%d of %d trust anchors here and of %d there are the same: proxies with a certificate by another one are refused", common, n, m)
	}
	return OK, "the same trust anchors as here"
}

// isForbidden reports whether the API server does not permit it.
func isForbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
