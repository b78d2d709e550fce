package main

import (
	"crypto"
	cryptorand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"isthmus/e2e/harness/kube"
)

// stateDir is the directory with a cluster's data, port, credentials and, while the cluster runs,
// its process id.
//
// Serving a directory again restores the same cluster with the same address and credentials, even
// if the previous process was killed during a write.
//
// The port is the lock of a running cluster, because the kernel releases it with the process. A
// second server for the directory therefore fails. Only if two processes serve a new directory at
// the same time, before it contains a port, the lock does not work. Credentials appear atomically,
// with a single rename.
type stateDir string

func (d stateDir) path(name string) string { return filepath.Join(string(d), name) }

func (d stateDir) Kubeconfig() string { return d.path("kubeconfig") }

func (d stateDir) EtcdData() string { return d.path("etcd") }

// Certificates returns the value for the API server's certificate directory. The API server
// requires the flag, but does not write certificates.
func (d stateDir) Certificates() string { return d.path("certificates") }

// WritePID writes the process id, as information for users.
func (d stateDir) WritePID() error {
	return writeFile(d.path("pid"), []byte(strconv.Itoa(os.Getpid())+"\n"))
}

// writeFile writes a file atomically: readers see either the old or the new content.
func writeFile(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// The ports are below the ephemeral ports of the system (on Linux, from 32768) and the NodePorts.
// Otherwise a connection could use the port of a stopped cluster, or even connect to itself.
const firstPort, lastPort = 20000, 29999

// Listen binds and stores the cluster's port: the stored port, or else a free one. It creates the
// directory if necessary. If the directory contains a port, Listen fails while another process
// serves the directory.
func (d stateDir) Listen(host net.IP) (net.Listener, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	port, err := d.port()
	if err != nil {
		return nil, err
	}
	if port != 0 {
		listener, err := listen(host, port)
		if err != nil {
			return nil, fmt.Errorf("the port of %s: %w: does another process serve that folder?", d, err)
		}
		return listener, nil
	}
	listener, err := listenAny(host)
	if err != nil {
		return nil, err
	}
	port = listener.Addr().(*net.TCPAddr).Port
	if err := writeFile(d.path("port"), []byte(strconv.Itoa(port)+"\n")); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

func (d stateDir) port() (int, error) {
	text, err := os.ReadFile(d.path("port"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", d.path("port"), err)
	}
	return port, nil
}

func listen(host net.IP, port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort(host.String(), strconv.Itoa(port)))
}

func listenAny(host net.IP) (net.Listener, error) {
	const tries = 100
	var err error
	for range tries {
		var listener net.Listener
		if listener, err = listen(host, firstPort+rand.IntN(lastPort-firstPort+1)); err == nil {
			return listener, nil
		}
	}
	return nil, fmt.Errorf("no free port after %d tries: %w", tries, err)
}

type clusterCredentials struct {
	CA                    string // certificate authority for servers and clients
	ServerCert, ServerKey string // for the API server
	AdminCert, AdminKey   string // for a client in the group system:masters
	AccountKey            string // key for signing ServiceAccount tokens
}

// certificateValidity is long enough, because the directories of clusters are deleted after days.
const certificateValidity = 10 * 365 * 24 * time.Hour

// Credentials returns the cluster's credentials. It creates them for a server on the given host if
// necessary.
func (d stateDir) Credentials(host net.IP) (clusterCredentials, error) {
	dir := d.path("pki")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := makeCredentials(dir, host); err != nil {
			return clusterCredentials{}, fmt.Errorf("make credentials: %w", err)
		}
	} else if err != nil {
		return clusterCredentials{}, err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	return clusterCredentials{
		CA:         in("ca.crt"),
		ServerCert: in("server.crt"), ServerKey: in("server.key"),
		AdminCert: in("admin.crt"), AdminKey: in("admin.key"),
		AccountKey: in("serviceaccount.key"),
	}, nil
}

// makeCredentials creates the directory with credentials atomically.
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
			Subject:     pkix.Name{CommonName: "kube-apiserver"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			// The last address is that of the kubernetes Service.
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, host, net.IPv4(10, 0, 0, 1)},
			DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		},
		"admin": {
			Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
		"serviceaccount": {}, // only the key is used
	} {
		leaf.KeyUsage = x509.KeyUsageDigitalSignature
		if _, err := issue(unfinished, name, leaf, ca, authority); err != nil {
			return err
		}
	}
	return os.Rename(unfinished, dir)
}

// issue creates a key and a certificate for it, and writes both. Without an authority, the
// certificate is self-signed.
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
	cert.SerialNumber, cert.NotBefore, cert.NotAfter = big.NewInt(
		now.UnixNano(),
	), now.Add(
		-time.Hour,
	), now.Add(
		certificateValidity,
	)
	der, err := x509.CreateCertificate(cryptorand.Reader, cert, parent, key.Public(), authority)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	return key, errors.Join(
		os.WriteFile(path+".key", text, 0o600),
		os.WriteFile(path+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
	)
}

// WriteKubeconfig writes a kubeconfig for the administrator. It contains the credentials and a
// single context with the cluster's name.
func (d stateDir) WriteKubeconfig(name, server string, c clusterCredentials) error {
	cluster, user := clientcmdapi.Cluster{Server: server}, clientcmdapi.AuthInfo{}
	for _, file := range []struct {
		into *[]byte
		path string
	}{
		{&cluster.CertificateAuthorityData, c.CA},
		{&user.ClientCertificateData, c.AdminCert},
		{&user.ClientKeyData, c.AdminKey},
	} {
		text, err := os.ReadFile(file.path)
		if err != nil {
			return err
		}
		*file.into = text
	}
	text, err := kube.Kubeconfig(name, cluster, user)
	if err != nil {
		return err
	}
	return writeFile(d.Kubeconfig(), text)
}
