package state

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Credentials are the paths of a cluster's PEM files.
type Credentials struct {
	CA                    string // the authority for servers and clients
	ServerCert, ServerKey string // of the API server
	AdminCert, AdminKey   string // of a client in group system:masters
	AccountKey            string // signs ServiceAccount tokens
}

// validity is long: a cluster's folder is kept for days, not years.
const validity = 10 * 365 * 24 * time.Hour

// Credentials returns the cluster's credentials, and makes them, for a server on
// that host, if there are none yet.
func (d Dir) Credentials(host net.IP) (Credentials, error) {
	dir := d.path("pki")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := makeCredentials(dir, host); err != nil {
			return Credentials{}, fmt.Errorf("make credentials: %w", err)
		}
	} else if err != nil {
		return Credentials{}, err
	}
	return credentialsIn(dir), nil
}

func credentialsIn(dir string) Credentials {
	in := func(name string) string { return filepath.Join(dir, name) }
	return Credentials{
		CA:         in("ca.crt"),
		ServerCert: in("server.crt"), ServerKey: in("server.key"),
		AdminCert: in("admin.crt"), AdminKey: in("admin.key"),
		AccountKey: in("serviceaccount.key"),
	}
}

// makeCredentials fills the folder, which appears only when it is complete.
func makeCredentials(dir string, host net.IP) error {
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	c := credentialsIn(unfinished)
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "controlplane"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey, err := sign(ca, ca, nil, c.CA, "")
	if err != nil {
		return err
	}
	server := leaf(now, pkix.Name{CommonName: "kube-apiserver"}, x509.ExtKeyUsageServerAuth)
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, host, net.IPv4(10, 0, 0, 1)} // the last is that of the Service kubernetes
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	if _, err := sign(server, ca, caKey, c.ServerCert, c.ServerKey); err != nil {
		return err
	}
	admin := leaf(now, pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, x509.ExtKeyUsageClientAuth)
	if _, err := sign(admin, ca, caKey, c.AdminCert, c.AdminKey); err != nil {
		return err
	}
	account, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := writeKey(c.AccountKey, account); err != nil {
		return err
	}
	return os.Rename(unfinished, dir)
}

func leaf(now time.Time, subject pkix.Name, usage x509.ExtKeyUsage) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: subject,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
}

// sign makes a key and a certificate for it and writes them. Without parentKey
// the certificate signs itself; without keyPath the key is not kept.
func sign(cert, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, certPath, keyPath string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if parentKey == nil {
		parentKey = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), parentKey)
	if err != nil {
		return nil, err
	}
	if err := writePEM(certPath, "CERTIFICATE", der); err != nil {
		return nil, err
	}
	if keyPath == "" {
		return key, nil
	}
	return key, writeKey(keyPath, key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
