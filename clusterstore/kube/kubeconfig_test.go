package kube

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

const theToken = "s3cr3t.t0k3n"

// keyPair returns a new certificate and its key in PEM.
func keyPair(t testing.TB) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(
		rand.Reader,
		&x509.Certificate{SerialNumber: big.NewInt(1)},
		&x509.Certificate{SerialNumber: big.NewInt(1)},
		&k.PublicKey,
		k,
	)
	if err != nil {
		t.Fatal(err)
	}
	kder, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: der,
	}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kder})
}

// file returns a kubeconfig with the given lines in its cluster and its user.
func file(head, cluster, user string) string {
	return fmt.Sprintf(
		"apiVersion: v1\nkind: Config\n%s\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\nclusters:\n- "+
			"name: k\n  cluster: {%s}\nusers:\n- name: u\n  user: {%s}\n",
		head,
		cluster,
		user,
	)
}

const (
	current = "current-context: c"
	server  = `server: "https://api.example:6443"`
	token   = `token: "` + theToken + `"`
)

func TestReadKubeconfig(t *testing.T) {
	cert, key := keyPair(t)
	b64 := base64.StdEncoding.EncodeToString
	certAndKey := fmt.Sprintf("client-certificate-data: %s, client-key-data: %s", b64(cert), b64(key))
	ca := ", certificate-authority-data: " + b64(cert)
	accepted := map[string]struct {
		data     string
		check    func(*rest.Config) bool
		warnings int
	}{
		"token": {file(current, server, token), func(c *rest.Config) bool {
			return c.Host == "https://api.example:6443" && c.BearerToken == theToken
		}, 0},
		"no current-context": {
			file("", server, token), func(c *rest.Config) bool { return c.BearerToken == theToken }, 0,
		},
		"certificate": {file(current, server+ca, certAndKey), func(c *rest.Config) bool {
			return bytes.Equal(c.CAData, cert) && bytes.Equal(c.CertData, cert) && bytes.Equal(c.KeyData, key)
		}, 0},
		"server name": {
			file(current, server+", tls-server-name: other", token),
			func(c *rest.Config) bool { return c.ServerName == "other" }, 0,
		},
		"insecure": {
			file(current, server+", insecure-skip-tls-verify: true", token),
			func(c *rest.Config) bool { return c.Insecure }, 1,
		},
		"http": {
			file(current, `server: "http://api.example"`, token),
			func(c *rest.Config) bool { return c.Host == "http://api.example" }, 1,
		},
		"path": {
			file(current, `server: "https://api.example/k8s/c-1/"`, token),
			func(c *rest.Config) bool { return c.Host == "https://api.example/k8s/c-1" }, 0,
		},
		"IPv6": {
			file(current, `server: "https://[fd00::1]:6443"`, token),
			func(c *rest.Config) bool { return c.Host == "https://[fd00::1]:6443" }, 0,
		},
		"json": {
			`{"clusters":[{"name":"k","cluster":{"server":"https://h"}}],"users":[{"name":"u",` +
				`"user":{"token":"x"}}],"contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}]}`,
			func(c *rest.Config) bool { return c.BearerToken == "x" }, 0,
		},
		"largest": {
			file(current, server, token) + strings.Repeat("#", maxKubeconfig-len(file(current, server, token))),
			func(c *rest.Config) bool { return c.BearerToken == theToken }, 0,
		},
		"as kubectl writes it": {
			"---\n# written by kubectl\n" +
				file(
					"preferences: {}\n"+current,
					server+", extensions: [{name: e, extension: {a: [{b: {c: d}}], last-update: today}}]",
					token,
				),
			func(c *rest.Config) bool { return c.BearerToken == theToken }, 0,
		},
		"token that looks like YAML": {
			file(current, server, `token: "*a&b<<#:{}[]"`),
			func(c *rest.Config) bool { return c.BearerToken == "*a&b<<#:{}[]" }, 0,
		},
		"token of digits": {
			file(current, server, `token: "0123"`),
			func(c *rest.Config) bool { return c.BearerToken == "0123" }, 0,
		},
		"yes": {
			file(current, server+", insecure-skip-tls-verify: yes", token),
			func(c *rest.Config) bool { return c.Insecure }, 1,
		},
		"bad user besides": {file(current, server, token) + "- name: other\n  user: {tokenFile: /etc/passwd}\n",
			func(c *rest.Config) bool {
				return c.BearerToken == theToken && c.BearerTokenFile == ""
			}, 0},
	}
	for name, tt := range accepted {
		cfg, warnings, err := ReadKubeconfig([]byte(tt.data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !tt.check(cfg) || len(warnings.Insecure) != tt.warnings || len(warnings.Ignored) > 0 {
			t.Errorf("%s: %+v %q", name, cfg, warnings)
		}
	}
}

// TestServerName checks that the server name includes the path, which differs between clusters
// behind one host.
func TestServerName(t *testing.T) {
	for server, want := range map[string]string{
		"https://h:6443": "h:6443", "https://h:6443/": "h:6443",
		"https://h/k8s/clusters/c-1/": "h/k8s/clusters/c-1", "https://h/a%20b": "h/a%20b",
		"https://[fd00::1]": "[fd00::1]",
	} {
		if got := ServerName(server); got != want {
			t.Errorf("%s: %q, want %q", server, got, want)
		}
	}
}

// TestIgnoredFields checks that unknown fields are ignored, as in client-go. Warnings name their
// lines, and only names that are unlikely to be a secret.
func TestIgnoredFields(t *testing.T) {
	many := ""
	for i := range 20 {
		many += fmt.Sprintf(", x%d: y", i)
	}
	for name, tt := range map[string]struct {
		data string
		want []string
	}{
		"as RKE writes it": {file(current, "api-version: v1, "+server, token),
			[]string{"an unknown field on line 9: api-version"}},
		"of the file": {"extra: {a: b}\n" + file(current, server, token),
			[]string{"an unknown field on line 1: extra"}},
		"of a context": {strings.Replace(file(current, server, token), "user: u", "user: u, cpu: x", 1),
			[]string{"an unknown field on line 6: cpu"}},
		"with a long name": {file(current, server, token+", "+strings.Repeat("a", 41)+": x"),
			[]string{"an unknown field on line 12"}},
		"with a digit":    {file(current, server, token+", a1: x"), []string{"an unknown field on line 12"}},
		"a secret":        {file(current, server, token+", "+theToken+": x"), []string{"an unknown field on line 12"}},
		"a list as name":  {file(current, server, token+", ? [a] : x"), []string{"an unknown field on line 12"}},
		"of another case": {file(current, server, token+", Token: x"), []string{"an unknown field on line 12: Token"}},
		"many": {file(current, server, token+many),
			append(slices.Repeat([]string{"an unknown field on line 12"}, maxIgnored), "12 more unknown fields")},
	} {
		cfg, warnings, err := ReadKubeconfig([]byte(tt.data))
		if err != nil || cfg.BearerToken != theToken ||
			!slices.Equal(warnings.Ignored, tt.want) || len(warnings.Insecure) > 0 {
			t.Errorf("%s: %+v, %v", name, warnings, err)
		}
	}
}

// aliasBomb returns a kubeconfig of about the given size that consists almost entirely of aliases
// of one scalar. Its decoded size would be quadratic.
func aliasBomb(size int) string {
	const alias = "*a,"
	return "extensions: [&a " + strings.Repeat("x", size/2) + "," + strings.Repeat(alias, size/2/len(alias)) + "]\n"
}

// Behaviours: N-08.
func TestRefuseKubeconfig(t *testing.T) {
	cert, key := keyPair(t)
	_, otherKey := keyPair(t)
	b64 := base64.StdEncoding.EncodeToString
	nested := func(open, end string) string { return strings.Repeat(open, 30) + strings.Repeat(end, 30) }
	refused := map[string]struct{ data, why string }{
		"empty":      {"", "current-context is not set, and there are 0 contexts"},
		"text":       {theToken, "can't be parsed"},
		"list":       {"- " + theToken, "can't be parsed"},
		"other kind": {"apiVersion: v1\nkind: " + theToken, "can't be parsed"},
		"wrong type": {file(current, server, "token: ["+theToken+"]"), "can't be parsed"},
		"same name twice": {file(current, server, token) + "- name: u\n  user: {" + token + "}\n",
			"can't be parsed"},
		"empty document":   {"---\n", "current-context is not set, and there are 0 contexts"},
		"alias bomb":       {aliasBomb(400 << 10), "too large"},
		"small alias bomb": {aliasBomb(60 << 10), "anchor or merge key (& or <<) on line 1"},
		"alias":            {file(current, server, token) + "extensions: [*a]\n", "can't be parsed"},
		"anchor": {file(current, server, "token: &a "+theToken),
			"anchor or merge key (& or <<) on line 12"},
		"anchor of a map": {file(current, server, token) + "- &a\n  name: v\n",
			"anchor or merge key (& or <<) on line 13"},
		"anchor of a key": {file(current, server, "&a "+token), "anchor or merge key"},
		"anchor of all":   {"&a\n" + file(current, server, token), "anchor or merge key"},
		"merge key": {file(current, server, "<<: {"+token+"}"),
			"anchor or merge key (& or <<) on line 12"},
		"quoted merge key": {file(current, server, `"<<": {`+token+"}"), "an unknown field on line 12"},
		"tagged merge key": {file(current, server, "!!merge x: {"+token+"}"), "merge key"},
		"deep list": {file(current, server, token) + "extensions: " + nested("[", "]"),
			"more than 20 levels deep"},
		"deep map": {file(current, server, token) + "extensions: " + nested("{a: ", "}"),
			"more than 20 levels deep"},
		"deepest": {strings.Repeat("[", maxKubeconfig), "can't be parsed"},
		"two documents": {file(current, server, token) + "---\n" + file(current, server, token),
			"more than one YAML document"},
		"bad second document": {file(current, server, token) + "---\n{" + theToken, "more than one YAML document"},
		"unknown field": {file(current, server, "tokn: "+theToken),
			"neither a token nor a client certificate (it has an unknown field on line 12: tokn)"},
		"unknown secret field":     {file(current, server, theToken+": x"), "an unknown field on line 12"},
		"field of other case":      {file(current, server, "Token: "+theToken), "an unknown field on line 12: Token"},
		"field twice":              {file(current, server, token+", "+token), "the same field twice"},
		"unknown field twice":      {file(current, server, token+", tokn: x, tokn: y"), "the same field twice"},
		"dangerous beside unknown": {file(current, server, token+", tokn: x, tokenFile: /x"), "tokenFile"},
		"dangerous within unknown": {file(current, server, "user: {"+token+"}"), "neither"},
		"too large": {file(current, server, token) + strings.Repeat("#", maxKubeconfig),
			"but the maximum is"},
		"wrong context": {file("current-context: "+theToken, server, token),
			"names a context that does not exist"},
		"two contexts": {strings.Replace(file("", server, token), "clusters:",
			"- name: d\n  context: {cluster: k, user: u}\nclusters:", 1), "2 contexts"},
		"no cluster": {strings.Replace(file(current, server, token), "cluster: k,", "cluster: z,", 1),
			"cluster is missing"},
		"no user": {strings.Replace(file(current, server, token), "user: u", "user: z", 1),
			"user is missing"},
		"exec": {file(current, server,
			`exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}`), "exec"},
		"auth provider":    {file(current, server, token+", auth-provider: {name: gcp}"), "auth-provider"},
		"token file":       {file(current, server, token+", tokenFile: /var/run/secrets/token"), "tokenFile"},
		"certificate file": {file(current, server, token+", client-certificate: /c"), "client-certificate"},
		"key file":         {file(current, server, token+", client-key: /k"), "client-key"},
		"authority file": {file(current, server+", certificate-authority: /ca", token),
			"certificate-authority"},
		"proxy":               {file(current, server+`, proxy-url: "http://proxy"`, token), "proxy-url"},
		"as":                  {file(current, server, token+", as: admin"), "impersonation"},
		"as uid":              {file(current, server, token+", as-uid: a"), "impersonation"},
		"as groups":           {file(current, server, token+", as-groups: [a]"), "impersonation"},
		"as extra":            {file(current, server, token+", as-user-extra: {a: [b]}"), "impersonation"},
		"password":            {file(current, server, "username: u, password: "+theToken), "password"},
		"no server":           {file(current, "server: ''", token), "https"},
		"relative server":     {file(current, "server: api.example:6443", token), "https"},
		"other scheme":        {file(current, "server: 'unix:///run/x'", token), "https"},
		"no host":             {file(current, "server: 'https://:443'", token), "https"},
		"password in server":  {file(current, "server: 'https://me:"+theToken+"@h'", token), "user name"},
		"token in bad server": {file(current, "server: 'https://me:"+theToken+"@h:x'", token), "https"},
		"query":               {file(current, "server: 'https://h?"+theToken+"'", token), "query"},
		"no credentials":      {file(current, server, ""), "neither"},
		"token with line":     {file(current, server, `token: "`+theToken+`\n"`), "white space"},
		"no authority": {file(current, server+", certificate-authority-data: "+b64([]byte(theToken)), token),
			"authority"},
		"authority, insecure": {file(current,
			server+", insecure-skip-tls-verify: true, certificate-authority-data: "+b64(cert), token), "not both"},
		"certificate, no key": {file(current, server, "client-certificate-data: "+b64(cert)), "must both be set"},
		"key, no certificate": {file(current, server, "client-key-data: "+b64(key)), "must both be set"},
		"key of another": {file(current, server,
			"client-certificate-data: "+b64(cert)+", client-key-data: "+b64(otherKey)), "key pair"},
		"no certificate, blob": {file(current, server,
			"client-certificate-data: "+b64([]byte(theToken))+", client-key-data: "+b64([]byte(theToken))), "key pair"},
	}
	for name, tt := range refused {
		_, _, err := ReadKubeconfig([]byte(tt.data))
		switch {
		case err == nil:
			t.Errorf("%s: accepted", name)
		case !strings.Contains(err.Error(), tt.why):
			t.Errorf("%s: the error is %v, and should contain %q", name, err, tt.why)
		case strings.Contains(err.Error(), theToken):
			t.Errorf("%s: quotes the token: %v", name, err)
		}
	}
}

// FuzzReadKubeconfig checks that every input is either rejected or accepted with inline credentials
// only. Errors do not quote the input.
func FuzzReadKubeconfig(f *testing.F) {
	f.Add([]byte(file(current, server, token)))
	f.Add([]byte(file("", server+", insecure-skip-tls-verify: true", token)))
	f.Add([]byte(file(current, server, "exec: {command: sh}")))
	f.Add([]byte(file(current, "server: 'https://me:"+theToken+"@h:x'", token)))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Add([]byte(aliasBomb(60 << 10)))
	f.Add([]byte(aliasBomb(1 << 10)))
	f.Add([]byte("a: &a [x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]"))
	f.Add([]byte(file(current, server, "<<: {"+token+"}")))
	f.Add([]byte(file(current, server, "!!merge x: {"+token+"}")))
	f.Add([]byte(file(current, server, "token: &a "+theToken+", as: *a")))
	f.Add([]byte(file(current, server, token) + "extensions: " + strings.Repeat("[", 30) + strings.Repeat("]", 30)))
	f.Add([]byte(strings.Repeat("{a: ", 1000)))
	f.Add([]byte(strings.Repeat("- ", 20<<10)))
	f.Add([]byte(strings.Repeat("? ", 20<<10)))
	f.Add([]byte(file(current, server, token) + "---\n" + file(current, server, token)))
	f.Add([]byte(file(current, server, token+", "+token)))
	f.Add([]byte(file(current, server, token+", token2: "+theToken)))
	f.Add([]byte("kind: " + theToken))
	cert, _ := keyPair(f)
	b64 := base64.StdEncoding.EncodeToString
	f.Add([]byte(file(
		current, server, "client-certificate-data: "+b64(cert)+", client-key-data: "+b64(rsaKey(f, 2048, 260_000, 2)),
	)))
	f.Add([]byte(file(current, server+", certificate-authority-data: "+b64(rsaCert(f, 100_000)), token)))
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		cfg, warnings, err := ReadKubeconfig(data)
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("took %v", took)
		}
		for _, text := range slices.Concat(warnings.Insecure, warnings.Ignored, []string{fmt.Sprint(err)}) {
			if strings.Contains(text, theToken) {
				t.Fatalf("quotes the token: %s", text)
			}
		}
		if err != nil {
			return
		}
		c := *cfg
		if c.ExecProvider != nil || c.AuthProvider != nil || c.BearerTokenFile != "" || c.CertFile != "" ||
			c.KeyFile != "" || c.CAFile != "" ||
			c.Proxy != nil || c.Impersonate.UserName != "" || c.Username != "" || c.Password != "" {
			t.Fatalf("accepted: %+v", c)
		}
		if _, err := rest.TLSConfigFor(cfg); err != nil {
			t.Fatalf("accepted, but has no usable TLS: %v", err)
		}
		if _, _, err := rest.DefaultServerUrlFor(cfg); err != nil {
			t.Fatalf("accepted, but has no usable server: %v", err)
		}
	})
}

// number returns an odd number of the given length.
func number(bits int) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits))
	return n.Sub(n, big.NewInt(1))
}

// rsaKey returns a private RSA key in PEM (PKCS #1). Its modulus and primes have the given lengths
// in bits. The primes do not match the modulus, which a parser only notices after it has read them.
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

// inPKCS8 converts a key to PKCS #8.
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

// rsaCert returns a certificate in PEM for an RSA key of the given length.
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

// shifted returns the certificate with a key that begins at the second bit of its bit string, as
// DER allows.
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
	for i, b := range info.Key.Bytes { // the first bit is unused
		if key[i] = b << 1; i > 0 {
			key[i-1] |= b >> 7
		}
	}
	info.Key = asn1.BitString{Bytes: key, BitLength: 8*len(key) - 1}
	now, err := asn1.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{
		Type:  block.Type,
		Bytes: bytes.Replace(block.Bytes, parsed.RawSubjectPublicKeyInfo, now, 1),
	})
}

// TestLongKeys checks that RSA keys that would take long to parse or use are rejected before they
// are parsed. The longest key here would take hours.
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
		"second authority": file(
			current, server+", certificate-authority-data: "+b64(append(cert, rsaCert(t, 8193)...)), token,
		),
	} {
		if _, _, err := ReadKubeconfig([]byte(data)); len(data) > maxKubeconfig || err == nil ||
			!strings.Contains(err.Error(), "longer than 8192 bits") {
			t.Errorf("%s: %d bytes, error %v", name, len(data), err)
		}
	}
	for name, bits := range map[string]int{"authority": 8192, "small authority": 2048} {
		if _, _, err := ReadKubeconfig([]byte(file(
			current, server+", certificate-authority-data: "+b64(rsaCert(t, bits)), token,
		))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRSAKeys checks that RSA keys of common lengths are accepted in both forms.
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
	for _, block := range []pem.Block{
		{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)},
		{Type: "PRIVATE KEY", Bytes: wrapped},
	} {
		if _, _, err := ReadKubeconfig([]byte(file(
			current,
			server,
			"client-certificate-data: "+b64(cert)+", client-key-data: "+b64(pem.EncodeToMemory(&block)),
		))); err != nil {
			t.Errorf("%s: %v", block.Type, err)
		}
	}
}
