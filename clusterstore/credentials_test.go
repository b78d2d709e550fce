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
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/spec"
)

// describe renders each access as "SECRET CLUSTER TOKEN" and its problem.
func describe(list []Access) (lines []string) {
	for _, a := range list {
		line := fmt.Sprintf("%s %s", a.Secret, a.Cluster.Cluster)
		if a.REST != nil {
			line += " " + a.REST.BearerToken
			if s := fmt.Sprintf("%v %+v", a, a); strings.Contains(s, a.REST.BearerToken) {
				line += " shows its token: " + s
			}
		}
		if a.UsedInstead != "" {
			line += " used: " + a.UsedInstead
		}
		if a.SecretRefused != "" {
			line += " refused"
		}
		for _, w := range a.Unread {
			annotation, _, _ := strings.Cut(w, ":")
			line += " unread: " + annotation
		}
		lines = append(lines, line)
	}
	return lines
}

// statuses returns the status of each Secret of a Store as an Access.
func statuses(s *Store) (list []Access) {
	for _, c := range s.Status() {
		list = append(list, Access{Cluster: c})
	}
	return list
}

// TestAccesses checks that Accesses reports the same for link Secrets as the status of a Store. Two
// differences are allowed: Secrets that have become invalid, and credentials, which the status
// omits.
func TestAccesses(t *testing.T) {
	odd := secret("odd", "north", "x", 3)
	delete(odd.Annotations, TrustDomainAnnotation)
	other := secret("other", "south", "x", 3)
	other.Type = corev1.SecretTypeOpaque
	old := secret("b", "east", "old", 5)
	old.Annotations[lostAfterAnnotation] = "10"
	secrets := []*corev1.Secret{secret("a", "east", "young", 0), old, odd}
	inBubble(t, func(e *env) {
		e.sync(1)
		var plain []corev1.Secret
		for _, s := range append(secrets, other) {
			plain = append(plain, *s)
		}
		want := []string{"b east unread: annotation isthmus.io/lost-after", "odd north refused", "a east used: b"}
		if got := describe(statuses(e.store)); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		bad := secret("b", "east", "old", 5)
		delete(bad.Annotations, TrustDomainAnnotation)
		bad.Annotations[CordonAnnotation] = "ture"
		e.put(bad)
		now := "b east refused unread: annotation isthmus.io/cordon"
		if got := describe(statuses(e.store)); !slices.Equal(got, append([]string{now}, want[1:]...)) {
			t.Errorf("%q, want %q", got, want)
		}
		want[0] = "b east old unread: annotation isthmus.io/lost-after"
		if got := describe(ReadAccesses(plain)); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}, secrets...)
}

// TestPickReference creates, edits and deletes link Secrets of a cluster at random. It compares the
// picked Secret with package spec.
func TestPickReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []*credentials // oldest first
		var accepted *credentials
		inUse := ""
		made := 0
		drawSecret := func(t *rapid.T, name string) *credentials {
			c := &credentials{secret: name}
			if rapid.Bool().Draw(t, "refused") {
				c.refused = errors.New("refused")
			}
			return c
		}
		drawIndex := func(t *rapid.T) int { return rapid.IntRange(0, len(list)-1).Draw(t, "index") }
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				made++
				list = append(list, drawSecret(t, fmt.Sprint("link-", made)))
			},
			"edit": func(t *rapid.T) {
				if len(list) > 0 {
					i := drawIndex(t)
					list[i] = drawSecret(t, list[i].secret)
				}
			},
			"delete": func(t *rapid.T) {
				if len(list) > 0 {
					i := drawIndex(t)
					list = slices.Delete(list, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				var secrets []spec.LinkSecret
				for _, c := range list {
					secrets = append(secrets, spec.LinkSecret{Name: c.secret, Usable: c.refused == nil})
				}
				inUse = spec.UsedSecret(secrets, inUse)
				accepted = pick(list, accepted)
				got := ""
				if accepted != nil {
					got = accepted.secret
				}
				if got != inUse || accepted != nil && accepted.refused != nil {
					t.Fatalf("picked %q, want %q of %+v", got, inUse, secrets)
				}
			},
		})
	})
}

// TestExpiry checks that the status shows when the credentials in use expire.
func TestExpiry(t *testing.T) {
	s := secret("a", "east", "e30.eyJleHAiOjE3MDAwMDAwMDB9.sig", 0)
	inBubble(t, func(e *env) {
		e.sync(1)
		for _, a := range []Access{statuses(e.store)[0], ReadAccesses([]corev1.Secret{*s})[0]} {
			if x := a.API.Expiry; x == nil || x.What != "token" || x.At.Unix() != 1700000000 {
				t.Errorf("%+v", x)
			}
		}
		e.put(secret("a", "east", "e30.eyJleHAiOjE4MDAwMDAwMDB9.sig", 0)) // which do not work yet
		if x := statuses(e.store)[0].API.Expiry; x == nil || x.At.Unix() != 1700000000 {
			t.Errorf("in a rotation: %+v", x)
		}
		e.sync(2)
		if x := statuses(e.store)[0].API.Expiry; x == nil || x.At.Unix() != 1800000000 {
			t.Errorf("after a rotation: %+v", x)
		}
	}, s)
}

// TestExplain checks that the error of refused credentials names their kind. Other errors stay
// unchanged.
func TestExplain(t *testing.T) {
	token, certificate := &rest.Config{
		BearerToken: "t",
	}, &rest.Config{
		TLSClientConfig: rest.TLSClientConfig{CertData: []byte("c")},
	}
	both := &rest.Config{BearerToken: "t", TLSClientConfig: certificate.TLSClientConfig}
	gone := &adminapi.Expiry{At: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}
	refused, other := apierrors.NewUnauthorized("no"), errors.New("tls: expired certificate")
	for _, c := range []struct {
		creds credentials
		err   error
		want  string
	}{
		{credentials{rest: token}, refused, "the API server rejects the token: no; recreate the link Secret"},
		{
			credentials{rest: certificate},
			refused,
			"the API server rejects the client certificate: no; recreate the link Secret",
		},
		{credentials{rest: both}, refused, "the API server rejects the credentials: no; recreate the link Secret"},
		{
			credentials{rest: token, expiry: gone},
			refused,
			"the API server rejects the token, expired at 2020-01-02T03:04:05Z: no; recreate the link Secret",
		},
		{
			credentials{rest: token, expiry: &adminapi.Expiry{At: time.Now().Add(time.Hour)}},
			refused,
			"the API server rejects the token: no; recreate the link Secret",
		},
		{credentials{rest: certificate, expiry: gone}, other, other.Error()},
	} {
		if got := c.creds.explain(c.err); got.Error() != c.want {
			t.Errorf("%v, want %s", got, c.want)
		}
	}
	if err := (&credentials{rest: token}).explain(nil); err != nil {
		t.Errorf("no error is explained as %v", err)
	}
}

// TestRefusedCertificate checks a server that ends the TLS handshake because of the client
// certificate. The error must give that reason and must not call the server unreachable.
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
		CAData: pem.EncodeToMemory(
			&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw},
		), CertData: certificate, KeyData: key}}}
	client, err := kube.New("east", creds.rest, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.New(
		cluster.Config{
			Name:    "east",
			Client:  client,
			Log:     zap.NewNop(),
			Changed: func(federation.ServiceID, time.Time) {},
		},
	)
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
		// If the server closes the connection while the client still writes, the client cannot read
		// the TLS alert.
		if err := creds.explain(h.Err); err != nil &&
			strings.HasPrefix(err.Error(), "the API server rejects the client certificate: ") &&
			strings.HasSuffix(err.Error(), ": remote error: tls: expired certificate; recreate the link Secret") &&
			h.API.ClientCertificate == "expired certificate" {
			return
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatalf("%v; %+v", h.Err, h.API)
		}
	}
}

// clientCertificate returns a self-signed client certificate and its key in PEM.
func clientCertificate(t *testing.T, expires time.Time) (certificate, key []byte) {
	t.Helper()
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             expires.Add(-time.Hour),
		NotAfter:              expires,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, made.Public(), made)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(
			&pem.Block{Type: "CERTIFICATE", Bytes: der},
		), pem.EncodeToMemory(
			&pem.Block{Type: "PRIVATE KEY", Bytes: private},
		)
}
