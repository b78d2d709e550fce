package kube

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"isthmus/clusterstore/decode"
	"isthmus/internal/adminapi"
)

// TestKeep checks that a Keeper reads the facts of a server after its first response, and
// periodically from then on. A refused read is shown and does not cause an earlier read.
func TestKeep(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			fmt.Fprintf(w, `{"gitVersion":"v%d\u001b"}`, asked.Add(1))
		case strings.HasSuffix(r.URL.Path, "/configmaps/"+AnchorsConfigMap):
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		default:
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(
				w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`,
			)
		}
	}))
	defer server.Close()
	client, err := New("east", &rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	k, done, listed := NewKeeper(client, "mesh", nil), make(chan struct{}), make(chan struct{})
	close(listed)
	k.every = time.Millisecond
	go func() {
		defer close(done)
		k.Run(ctx, listed)
	}()
	if _, err := Version(ctx, client.Sources); err != nil { // the first response
		t.Fatal(err)
	}
	var before *Facts
	for range 2 {
		for k.Facts() == before { // until the facts have been read twice
			time.Sleep(time.Millisecond)
		}
		before = k.Facts()
		var s adminapi.APIServer
		before.AddTo(&s)
		if !strings.HasSuffix(s.Version, "\ufffd") || s.VersionError != "" ||
			s.Anchors.Error != "ConfigMap mesh/linkerd-identity-trust-roots is not there" ||
			s.Networks.Error != "the credentials may not read Nodes" {
			t.Errorf("%+v, %+v, %+v", s, s.Anchors, s.Networks)
		}
	}
	cancel()
	<-done
	if got := fmt.Sprint(client.Server().Refused); got != "[{get configmaps/linkerd-identity-trust-roots 404} "+
		"{list nodes 403}]" {
		t.Errorf("refused: %s", got)
	}
	var none *Facts
	var s adminapi.APIServer
	if none.AddTo(&s); s.Anchors != nil || s.Version != "" {
		t.Errorf("facts of no server: %+v", s)
	}
}

// TestAnchorsOf checks how the trust anchors of an API server are read. If they cannot be read, the
// error gives the reason. No response takes more than some megabytes of memory. A list of empty
// Pods would take hundreds if client-go decoded it.
func TestAnchorsOf(t *testing.T) {
	good, err := json.Marshal(map[string]any{
		"kind":       "ConfigMap",
		"apiVersion": "v1",
		"data":       map[string]string{anchorsKey: certificate(t, time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for want, answer := range map[string]string{
		"":              string(good),
		"has no key":    `{"kind":"ConfigMap","apiVersion":"v1"}`,
		"50000 values":  `{"kind":"PodList","apiVersion":"v1","items":[` + strings.Repeat("{},", 200_000) + `{}]}`,
		"than 1 MiB":    `{"data":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`,
		"no ConfigMap ": "",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if answer == "" {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(
					w,
					`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no ConfigMap `+
						`here","reason":"NotFound","code":404}`,
				)
				return
			}
			if r.URL.Path != "/api/v1/namespaces/linkerd/configmaps/"+AnchorsConfigMap {
				t.Errorf("requested %s", r.URL)
			}
			_, _ = io.WriteString(w, answer)
		}))
		client, err := New("east", &rest.Config{Host: server.URL}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		anchors, err := readAnchors(t.Context(), client.Sources, "linkerd")
		runtime.ReadMemStats(&after)
		if (want == "") != (err == nil && len(anchors) == 1) || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, %v, want %q", anchors, err, want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
			t.Errorf("%q: %d MiB were allocated", want, took>>20)
		}
		client.Close()
		server.Close()
	}
}

// certificate returns a certificate in PEM that expires after the given time.
func certificate(t *testing.T, good time.Duration) string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "root"},
		NotBefore:    now.Add(-48 * time.Hour),
		NotAfter:     now.Add(good),
		IsCA:         true,
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
		t.Errorf("%v, %v for a repeated certificate", list, err)
	}
	if _, err := parseAnchors(all + one); err == nil || !strings.Contains(err.Error(), "more than 100") {
		t.Error(err)
	}
	for _, text := range []string{"", "\x1b[2Jnone"} {
		if _, err := parseAnchors(text); err == nil ||
			!strings.HasSuffix(err.Error(), "ca-bundle.crt has no certificate") {
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
			t.Errorf("%v quotes its input", err)
		}
	})
}

// nodes is a Source of n Nodes in pages.
type nodes struct {
	decode.Source[*corev1.Node]
	n, ofPage int // zero means as many as the request allows
	asked     int
}

func (s *nodes) List(
	_ context.Context, o metav1.ListOptions, each func(*corev1.Node, *decode.Refused) error,
) (meta metav1.ListMeta, err error) {
	s.asked++
	from, _ := strconv.Atoi(o.Continue)
	to := min(from+cmp.Or(s.ofPage, int(o.Limit)), s.n)
	for i := from; i < to; i++ {
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24).String()
		if err := each(
			&corev1.Node{Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr, "none"}}}, nil,
		); err != nil {
			return meta, err
		}
	}
	if to < s.n {
		meta.Continue = strconv.Itoa(to)
	}
	return meta, nil
}

// TestReadNetworks checks that the address ranges of a cluster are merged. Endless pages and
// endless lists of pages are cut off.
func TestReadNetworks(t *testing.T) {
	for _, c := range []struct {
		from         nodes
		nodes, asked int
		cidrs        string // the first and the last range
		part         bool
	}{
		{nodes{n: 300}, 300, 1, "[10.0.0.0/16 10.1.40.0/22]", false},
		{nodes{n: 1024}, 1024, 3, "[10.0.0.0/14 10.0.0.0/14]", false},
		{nodes{n: maxNodes}, maxNodes, 10, "[10.0.0.0/12 10.19.128.0/21]", false},
		{nodes{n: maxNodes + 1}, maxNodes, 10, "[10.0.0.0/12 10.19.128.0/21]", true},
		{nodes{n: 1 << 30, ofPage: 1 << 30}, maxNodes, 1, "[10.0.0.0/12 10.19.128.0/21]", true},
		{nodes{n: 1 << 30, ofPage: 1}, 10, 10, "[10.0.0.0/21 10.0.8.0/23]", true},
		{nodes{}, 0, 1, "", false},
	} {
		n, err := readNetworks(t.Context(), &c.from)
		cidrs := ""
		if len(n.CIDRs) > 0 {
			cidrs = fmt.Sprint([]string{n.CIDRs[0], n.CIDRs[len(n.CIDRs)-1]})
		}
		if err != nil || n.Nodes != c.nodes || c.from.asked != c.asked || n.Partly != c.part || cidrs != c.cidrs {
			t.Errorf("%d Nodes of %d pages, partly: %v, %s, %v", n.Nodes, c.from.asked, n.Partly, cidrs, err)
		}
	}
}

// TestJoinOfAny checks that merged ranges contain exactly the original addresses, each in one
// range.
func TestJoinOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranges := make(map[netip.Prefix]bool)
		for range rapid.IntRange(0, 12).Draw(t, "ranges") {
			a := netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "address")})
			ranges[netip.PrefixFrom(a, rapid.IntRange(26, 32).Draw(t, "bits")).Masked()] = true
		}
		joined := join(ranges)
		for last := range 256 {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(last)})
			before := false
			for p := range ranges {
				before = before || p.Contains(a)
			}
			in := 0
			for _, p := range joined {
				if p.Contains(a) {
					in++
				}
			}
			if before && in != 1 || !before && in != 0 {
				t.Fatalf("%v is in %d of %v, merged from %v", a, in, joined, ranges)
			}
		}
		if !slices.IsSortedFunc(joined, netip.Prefix.Compare) {
			t.Fatalf("%v is not sorted", joined)
		}
		for i := range len(joined) - 1 {
			p, next := joined[i], joined[i+1]
			if p.Bits() == next.Bits() && netip.PrefixFrom(p.Addr(), p.Bits()-1).Contains(next.Addr()) {
				t.Fatalf("%v and %v could be one", p, next)
			}
		}
	})
}

func TestTokenExpiry(t *testing.T) {
	token := func(payload string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".sig"
	}
	for _, c := range []struct {
		token string
		want  int64 // zero means no expiry
	}{
		{token(`{"exp":1700000000}`), 1700000000},
		{token(`{"exp":1.7e9,"sub":"x"}`), 1700000000},
		{token(`{"exp":-5}`), 0},
		{token(`{"exp":1e300}`), 253402300799},
		{token(`{"sub":"x"}`), -1}, {token(`{"exp":"soon"}`), -1}, {token(`[]`), -1}, {token(``), -1},
		{"", -1}, {"opaque", -1}, {"a.b", -1}, {"a.b.c.d", -1}, {"a.%%%.c", -1},
	} {
		at, ok := tokenExpiry(c.token)
		if ok != (c.want >= 0) || ok && at.Unix() != c.want {
			t.Errorf("%q: %v, %v, want %d", c.token, at, ok, c.want)
		}
	}
}

func FuzzTokenExpiry(f *testing.F) {
	f.Add("e30.eyJleHAiOjE3MDAwMDAwMDB9.sig")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if at, ok := tokenExpiry(token); ok && (at.Unix() < 0 || at.UTC().Year() > 9999) {
			t.Errorf("%q expires at %v", token, at)
		}
	})
}

// TestWritable checks that every time can be written as JSON. Certificates may expire in the year
// 10000.
func TestWritable(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)),
		time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)), time.Unix(0, 0),
	} {
		if _, err := json.Marshal(writable(at)); err != nil {
			t.Errorf("%v: %v", at, err)
		}
	}
}
