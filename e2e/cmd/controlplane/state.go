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

// stateDir is what one cluster keeps on disk: a folder with its data, port, credentials and, while
// it runs, its process id.
//
// Serving the folder again serves the same cluster, at the same address and with the same credentials, even after the
// process was killed in the middle of a write.
//
// A cluster runs as long as a process has its port, which the kernel releases with the process. A second server can
// therefore do no harm, unless two serve a new folder, which has no port yet, at the same time. Credentials appear as a
// whole, by one rename.
type stateDir string

func (d stateDir) path(name string) string { return filepath.Join(string(d), name) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (d stateDir) Kubeconfig() string { return d.path("kubeconfig") }

// EtcdData is the path of etcd's data.
func (d stateDir) EtcdData() string { return d.path("etcd") }

// Certificates is the path of the folder that the API server may write
// certificates to. It needs none there, but requires the flag.
func (d stateDir) Certificates() string { return d.path("certificates") }

// WritePID notes this process, for people to read.
func (d stateDir) WritePID() error {
	return writeFile(d.path("pid"), []byte(strconv.Itoa(os.Getpid())+"\n"))
}

// writeFile writes a file as a whole: a reader sees the old text or the new.
func writeFile(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Ports are picked below those that systems hand out by themselves (32768 and
// up on Linux) and those of NodePorts. A connection could otherwise take the
// port of a cluster that is down, or even connect to itself.
const firstPort, lastPort = 20000, 29999

// Listen binds the cluster's port: the one of last time, or a free one. It remembers the port, and
// makes the folder if need be. Once it has a port, it fails while another process serves the
// folder.
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

// port returns the port of last time, 0 if there is none.
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

// clusterCredentials are the paths of a cluster's PEM files.
type clusterCredentials struct {
	CA                    string // the authority for servers and clients
	ServerCert, ServerKey string // of the API server
	AdminCert, AdminKey   string // of a client in group system:masters
	AccountKey            string // signs ServiceAccount tokens
}

// certificateValidity is long: a cluster's folder is kept for days, not years.
const certificateValidity = 10 * 365 * 24 * time.Hour

// Credentials returns the cluster's credentials, and makes them, for a server on
// that host, if there are none yet.
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
			Subject:     pkix.Name{CommonName: "kube-apiserver"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			// the last is that of the Service kubernetes
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, host, net.IPv4(10, 0, 0, 1)},
			DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		},
		"admin": {
			Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
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

// WriteKubeconfig writes the administrator's kubeconfig: one context, named
// like the cluster, with everything inline.
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
