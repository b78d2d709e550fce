package state

import (
	"crypto"
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

	"k8s.io/client-go/util/keyutil"
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
	in := func(name string) string { return filepath.Join(dir, name) }
	return Credentials{
		CA:         in("ca.crt"),
		ServerCert: in("server.crt"), ServerKey: in("server.key"),
		AdminCert: in("admin.crt"), AdminKey: in("admin.key"),
		AccountKey: in("serviceaccount.key"),
	}, nil
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
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "controlplane"},
		IsCA:    true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authority, err := issue(unfinished, "ca", ca, ca, nil)
	if err != nil {
		return err
	}
	for name, leaf := range map[string]*x509.Certificate{
		"server": {
			Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, host, net.IPv4(10, 0, 0, 1)}, // the last is that of the Service kubernetes
			DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		},
		"admin":          {Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		"serviceaccount": {}, // of which the key is used
	} {
		leaf.KeyUsage = x509.KeyUsageDigitalSignature
		if _, err := issue(unfinished, name, leaf, ca, authority); err != nil {
			return err
		}
	}
	return os.Rename(unfinished, dir)
}

// issue makes a key and a certificate for it, and writes both. Without an authority's key the certificate signs itself.
func issue(dir, name string, cert, parent *x509.Certificate, authority crypto.Signer) (crypto.Signer, error) {
	text, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, err
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, err
	}
	key := parsed.(crypto.Signer)
	if authority == nil {
		authority = key
	}
	now := time.Now()
	cert.SerialNumber, cert.NotBefore, cert.NotAfter = big.NewInt(now.UnixNano()), now.Add(-time.Hour), now.Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), authority)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	return key, errors.Join(os.WriteFile(path+".key", text, 0o600), os.WriteFile(path+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
}
