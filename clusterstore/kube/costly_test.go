package kube

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// number is an odd number of a length in bits.
func number(bits int) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits))
	return n.Sub(n, big.NewInt(1))
}

// rsaKey is a private key, as PEM in the form of PKCS #1, with parts of these lengths in
// bits, and perhaps more primes. Its parts do not fit together: what finds that out reads it first.
func rsaKey(t testing.TB, n, p, q int, more ...int) []byte {
	t.Helper()
	one := big.NewInt(1)
	type prime struct{ Prime, Exp, Coeff *big.Int }
	var primes []prime
	for _, bits := range more {
		primes = append(primes, prime{number(bits), one, one})
	}
	der, err := asn1.Marshal(struct {
		Version              int
		N                    *big.Int
		E                    int
		D, P, Q, Dp, Dq, Inv *big.Int
		More                 []prime `asn1:"optional,omitempty"`
	}{0, number(n), 65537, one, number(p), number(q), one, one, one, primes})
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: der})
}

// inPKCS8 is such a key in the form of PKCS #8.
func inPKCS8(t testing.TB, key []byte) []byte {
	t.Helper()
	type algorithm struct{ OID asn1.ObjectIdentifier }
	block, _ := pem.Decode(key)
	der, err := asn1.Marshal(struct {
		Version   int
		Algorithm algorithm
		Key       []byte
	}{0, algorithm{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}}, block.Bytes})
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// rsaCert is a certificate, as PEM, of an RSA key of this length.
func rsaCert(t testing.TB, bits int) []byte {
	t.Helper()
	_, signer := keyPair(t)
	block, _ := pem.Decode(signer)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &rsa.PublicKey{N: number(bits), E: 65537}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// shifted is a certificate whose key begins at the second bit of its string of bits, as DER allows.
func shifted(t testing.TB, cert []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Algorithm asn1.RawValue
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(parsed.RawSubjectPublicKeyInfo, &info); err != nil {
		t.Fatal(err)
	}
	key := slices.Clone(info.Key.Bytes)
	for i, b := range info.Key.Bytes { // the first bit is not set
		if key[i] = b << 1; i > 0 {
			key[i-1] |= b >> 7
		}
	}
	info.Key = asn1.BitString{Bytes: key, BitLength: 8*len(key) - 1}
	now, err := asn1.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: bytes.Replace(block.Bytes, parsed.RawSubjectPublicKeyInfo, now, 1)})
}

// TestLongKeys: a kubeconfig whose RSA keys would take long to read or to use is refused
// before they are read. The longest one here would take hours.
func TestLongKeys(t *testing.T) {
	cert, key := keyPair(t)
	b64 := base64.StdEncoding.EncodeToString
	user := func(cert, key []byte) string {
		return file(current, server, "client-certificate-data: "+b64(cert)+", client-key-data: "+b64(key))
	}
	for name, data := range map[string]string{
		"prime that fills it": user(cert, rsaKey(t, 2048, 260_000, 2)),
		"other prime":         user(cert, rsaKey(t, 2048, 2, 40_000)),
		"third prime":         user(cert, rsaKey(t, 2048, 1024, 1024, 200_000)),
		"modulus":             user(cert, rsaKey(t, 8193, 4096, 4096)),
		"prime":               user(cert, rsaKey(t, 8192, 8193, 4096)),
		"PKCS #8":             user(cert, inPKCS8(t, rsaKey(t, 2048, 200_000, 2))),
		"second block":        user(cert, append(key, rsaKey(t, 2048, 200_000, 2)...)),
		"certificate":         user(rsaCert(t, 8200), key),
		"shifted certificate": user(shifted(t, rsaCert(t, 8200)), key),
		"authority":           file(current, server+", certificate-authority-data: "+b64(rsaCert(t, 100_000)), token),
		"second authority":    file(current, server+", certificate-authority-data: "+b64(append(cert, rsaCert(t, 8193)...)), token),
	} {
		if _, _, err := ReadKubeconfig([]byte(data)); len(data) > maxKubeconfig || err == nil || !strings.Contains(err.Error(), "longer than 8192 bits") {
			t.Errorf("%s: %d bytes, error %v", name, len(data), err)
		}
	}
	for name, bits := range map[string]int{"authority": 8192, "small authority": 2048} {
		if _, _, err := ReadKubeconfig([]byte(file(current, server+", certificate-authority-data: "+b64(rsaCert(t, bits)), token))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRSAKeys: a key of usual length is accepted, in both forms.
func TestRSAKeys(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	wrapped, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range []pem.Block{{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}, {Type: "PRIVATE KEY", Bytes: wrapped}} {
		if _, _, err := ReadKubeconfig([]byte(file(current, server, "client-certificate-data: "+b64(cert)+", client-key-data: "+b64(pem.EncodeToMemory(&block))))); err != nil {
			t.Errorf("%s: %v", block.Type, err)
		}
	}
}
