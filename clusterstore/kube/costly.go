package kube

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"

	"go.yaml.in/yaml/v3"
)

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
		return fmt.Errorf("kubeconfig has a YAML anchor or merge key (& or <<) in line %d, which is not allowed in a link: write values out", n.Line)
	case depth > maxDepth && len(n.Content) > 0:
		return fmt.Errorf("kubeconfig is nested deeper than %d levels in line %d: keep only what the link needs", maxDepth, n.Line)
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
