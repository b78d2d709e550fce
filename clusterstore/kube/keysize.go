package kube

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
)

// maxRSA is the longest modulus of an RSA key, in bits: what crypto/tls accepts of a
// peer. What a key costs grows with the cube of its length, and no time-out ends it: to
// read one that fills a kubeconfig would take hours.
const maxRSA = 8192

var errLongKey = errors.New("has an RSA key that is longer than 8192 bits, or has more than two primes: use a shorter one, or ECDSA")

// checkKeyLengths returns an error if a text in PEM has a certificate or a private key
// whose RSA key is too long, without reading the private key as a whole. It ignores what
// it can't read.
func checkKeyLengths(text []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			if key, ok := cert.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
				return errLongKey
			}
			continue
		}
		var wrapped struct { // PKCS #8
			Version   int
			Algorithm pkix.AlgorithmIdentifier
			Key       []byte
		}
		_, err := asn1.Unmarshal(block.Bytes, &wrapped)
		if isLongRSA(block.Bytes) || err == nil && isLongRSA(wrapped.Key) {
			return errLongKey
		}
	}
	return nil
}

// isLongRSA returns whether a private key in the form of PKCS #1 is too long, or has more
// than two primes, which no tool makes. Each number is checked by itself: crypto/x509
// calculates with them before it finds that they do not belong together.
func isLongRSA(der []byte) bool {
	var key struct {
		Version                int
		N                      *big.Int
		E                      int
		D, P, Q, DP, DQ, Coeff *big.Int
		MorePrimes             []asn1.RawValue `asn1:"optional"`
	}
	if _, err := asn1.Unmarshal(der, &key); err != nil {
		return false
	}
	long := max(key.N.BitLen(), key.D.BitLen()) > maxRSA
	for _, half := range []*big.Int{key.P, key.Q, key.DP, key.DQ, key.Coeff} {
		long = long || half.BitLen() > maxRSA/2
	}
	return long || len(key.MorePrimes) > 0
}
