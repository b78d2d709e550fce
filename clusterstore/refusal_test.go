package clusterstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// TestExplain: the error names refused credentials and their kind; other errors stay as they are.
func TestExplain(t *testing.T) {
	token, certificate := &rest.Config{BearerToken: "t"}, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("c")}}
	both := &rest.Config{BearerToken: "t", TLSClientConfig: certificate.TLSClientConfig}
	gone := &adminapi.Expiry{At: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}
	refused, other := apierrors.NewUnauthorized("no"), errors.New("tls: expired certificate")
	for _, c := range []struct {
		creds credentials
		err   error
		want  string
	}{
		{credentials{rest: token}, refused, "the API server refuses the token: no; write the link Secret anew"},
		{credentials{rest: certificate}, refused, "the API server refuses the client certificate: no; write the link Secret anew"},
		{credentials{rest: both}, refused, "the API server refuses the credentials: no; write the link Secret anew"},
		{credentials{rest: token, expiry: gone}, refused, "the API server refuses the token, expired at 2020-01-02T03:04:05Z: no; write the link Secret anew"},
		{credentials{rest: token, expiry: &adminapi.Expiry{At: time.Now().Add(time.Hour)}}, refused, "the API server refuses the token: no; write the link Secret anew"},
		{credentials{rest: certificate, expiry: gone}, other, other.Error()},
	} {
		if got := c.creds.explain(c.err); got.Error() != c.want {
			t.Errorf("%v, want %s", got, c.want)
		}
	}
	if err := (&credentials{rest: token}).explain(nil); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}

// TestRefusedCertificate: where a server ends the handshake because of the client's certificate, that is the reason, and not
// that the server could not be reached.
func TestRefusedCertificate(t *testing.T) {
	certificate, key := clientCertificate(t, time.Now().Add(-time.Hour))
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()

	creds := &credentials{rest: &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), CertData: certificate, KeyData: key}}}
	client, err := kube.New("east", creds.rest, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.New(cluster.Config{Name: "east", Client: client, Log: zap.NewNop(), Changed: func(federation.ServiceID, time.Time) {}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	defer func() { stop(); <-ended }()
	for {
		changed := c.HealthChanged()
		h := c.Health()
		// The server may close the connection while the client still writes: then there is no alert to be read this time.
		if err := creds.explain(h.Err); err != nil && strings.HasPrefix(err.Error(), "the API server refuses the client certificate: ") &&
			strings.HasSuffix(err.Error(), ": remote error: tls: expired certificate; write the link Secret anew") && h.API.ClientCertificate == "expired certificate" {
			return
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatalf("%v; %+v", h.Err, h.API)
		}
	}
}

// clientCertificate returns a client's certificate that signs itself, and its key, as PEM.
func clientCertificate(t *testing.T, expires time.Time) (certificate, key []byte) {
	t.Helper()
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: expires.Add(-time.Hour), NotAfter: expires, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, made.Public(), made)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}
