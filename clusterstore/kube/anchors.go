package kube

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"

	"isthmus/clusterstore/decode"
	"isthmus/internal/adminapi"
)

// Where Linkerd's proxies have their trust anchors from.
const (
	AnchorsConfigMap = "linkerd-identity-trust-roots"
	anchorsKey       = "ca-bundle.crt"
)

// maxCertificates of one text in PEM are read.
const maxCertificates = 100

func readAnchors(ctx context.Context, from decode.Sources, namespace string) ([]adminapi.Anchor, error) {
	var m struct {
		Data map[string]string `json:"data"`
	}
	if err := from.Document(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/configmaps/"+AnchorsConfigMap, &m); err != nil {
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
		if a := (adminapi.Anchor{SHA256: hex.EncodeToString(sum[:]), Expires: writable(c.NotAfter)}); !slices.Contains(anchors, a) {
			anchors = append(anchors, a)
		}
	}
	return anchors, nil
}

// certificates reads those of a text in PEM. A block that is no certificate is an error.
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
			return nil, fmt.Errorf("certificate %d can't be read", len(list)+1) // x509's error quotes it
		}
		list = append(list, c)
	}
	return list, nil
}
