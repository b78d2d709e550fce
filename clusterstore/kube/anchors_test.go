package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// certificate returns one that is good for so long, in PEM.
func certificate(t *testing.T, good time.Duration) string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "root"}, NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(good), IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestManyCertificates(t *testing.T) {
	all := ""
	for range maxCertificates {
		all += certificate(t, time.Hour)
	}
	if list, err := parseAnchors(all); err != nil || len(list) != maxCertificates {
		t.Error(len(list), err)
	}
	one := certificate(t, time.Hour)
	if list, err := parseAnchors(one + one); err != nil || len(list) != 1 {
		t.Errorf("%v, %v of one that is there twice", list, err)
	}
	if _, err := parseAnchors(all + one); err == nil || !strings.Contains(err.Error(), "more than 100") {
		t.Error(err)
	}
	for _, text := range []string{"", "\x1b[2Jnone"} {
		if _, err := parseAnchors(text); err == nil || !strings.HasSuffix(err.Error(), "ca-bundle.crt has no certificate") {
			t.Errorf("of %q: %v", text, err)
		}
	}
}

func FuzzAnchors(f *testing.F) {
	f.Add("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAnchors(text)
		if (err == nil) != (len(a) > 0) || len(a) > maxCertificates {
			t.Fatalf("%d anchors, %v", len(a), err)
		}
		if err != nil && len(text) > 20 && strings.Contains(err.Error(), text) {
			t.Errorf("%v quotes what it has read", err)
		}
	})
}
