package grpcapi

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
)

// longest is the longest valid name of a Service or namespace.
var longest = strings.Repeat("x", 63)

// Behaviours: G-01.
func TestParseAuthority(t *testing.T) {
	shopWeb := federation.ServiceID{Namespace: "shop", Name: "web"}
	good := map[string]target{
		"web.shop.svc.cluster.local":          {service: shopWeb, port: 80},
		"web.shop.svc.cluster.local:8080":     {service: shopWeb, port: 8080},
		"web.shop.svc.cluster.local:+80":      {service: shopWeb, port: 80},
		"web.shop.svc.cluster.local:0080":     {service: shopWeb, port: 80},
		"web-0.web.shop.svc.cluster.local:80": {service: shopWeb, instance: "web-0", port: 80},
		"svc.svc.svc.cluster.local":           {service: federation.ServiceID{Namespace: "svc", Name: "svc"}, port: 80},

		longest + "." + longest + "." + longest + ".svc.cluster.local": {
			service:  federation.ServiceID{Namespace: longest, Name: longest},
			instance: longest,
			port:     80,
		},
	}
	for authority, want := range good {
		got, err := parseAuthority(authority, "cluster.local")
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", authority, got, err, want)
		}
	}
	const invalid, ip = "Invalid authority: ", "IP queries not supported by Get API: host="
	bad := map[string]string{
		"":                                   invalid,
		"linkerd.io":                         invalid + "linkerd.io",
		"web.svc.cluster.local:80":           invalid,
		".shop.svc.cluster.local":            invalid,
		"web..svc.cluster.local":             invalid,
		"a.b.web.shop.svc.cluster.local:80":  invalid,
		"web.shop.SVC.cluster.local":         invalid,
		"web.shop.svc.other.domain:80":       invalid,
		"web.shop.svc.cluster.local:0":       invalid,
		"web.shop.svc.cluster.local:65536":   invalid,
		"web.shop.svc.cluster.local:0000080": invalid,
		"web.shop.svc.cluster.local:":        invalid,
		"fd00::1":                            invalid,
		"[fd00::1]":                          invalid,
		"10.1.2.3:80":                        ip + "10.1.2.3",
		"[fd00::1]:80":                       ip + "fd00::1",

		"web." + longest + "x.svc.cluster.local":    invalid,
		longest + "x.shop.svc.cluster.local":        invalid,
		longest + "x.web.shop.svc.cluster.local:80": invalid,
		strings.Repeat("x", 1<<20) + webAddr[3:]:    invalid,
		strings.Repeat("é", 5000):                   invalid,

		"[fe80::1%" + strings.Repeat("x", 5000) + "]:80": ip + "fe80::1%x",
	}
	for authority, message := range bad {
		got, err := parseAuthority(authority, "cluster.local")
		if status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(status.Convert(err).Message(), message) {
			t.Errorf("%q: got %+v, %v; want InvalidArgument, %s", authority, got, err, message)
		}
		_, other := parseDestination(authority, "cluster.local")
		for _, err := range []error{err, other} { // the error quotes a bounded part of the request
			if text := status.Convert(err).Message(); len(text) > 2*maxQuoted || !utf8.ValidString(text) {
				t.Errorf("%.20q...: the error has %d bytes", authority, len(text))
			}
		}
	}
}

func FuzzAuthority(f *testing.F) {
	for _, s := range []string{
		"web.shop.svc.cluster.local:80",
		"a.web.shop.svc.cluster.local",
		"[fd00::1]:80",
		"10.0.0.1",
		":",
		".svc.cluster.local",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, authority string) {
		got, err := parseAuthority(authority, "cluster.local")
		if err != nil {
			if status.Code(err) != codes.InvalidArgument || got != (target{}) {
				t.Fatalf("got %+v, %v", got, err)
			}
			return
		}
		// The authority contains the parsed parts in this order.
		host := got.service.Name + "." + got.service.Namespace + ".svc.cluster.local"
		if got.instance != "" {
			host = got.instance + "." + host
		}
		if max(len(got.service.Name), len(got.service.Namespace), len(got.instance)) > 63 {
			t.Fatalf("%q was parsed as %+v", authority, got)
		}
		if got.service.Name == "" || got.service.Namespace == "" || got.port == 0 ||
			!strings.Contains(authority, host) {
			t.Fatalf("%q was parsed as %+v", authority, got)
		}
		again, err := parseAuthority(host, "cluster.local")
		if again.port = got.port; err != nil || again != got {
			t.Fatalf("%q was parsed as %+v, its host %q as %+v, %v", authority, got, host, again, err)
		}
	})
}

func TestParseToken(t *testing.T) {
	node := strings.Repeat("n", 253)
	for _, tc := range []struct {
		name, token string
		want        token
	}{
		{"none", "", token{}},
		{
			"T-01 JSON and a newline",
			`{"ns":"ns-1","nodeName":"node-1"}` + "\n",
			token{Namespace: "ns-1", Node: "node-1"},
		},
		{
			"more than is known",
			`{"ns":"a","nodeName":"b","pod":"c","extra":[1,2]}`,
			token{Namespace: "a", Node: "b", Pod: "c"},
		},
		{"wrong type", `{"ns":"a","nodeName":7,"pod":"c"}`, token{Namespace: "a", Pod: "c"}},
		{"list", `["a"]`, token{}},
		{"null", `null`, token{}},
		{"T-02 as old proxies", "ns:ns-2", token{Namespace: "ns-2"}},
		{"no namespace", "ns:", token{}},
		{"two colons", "ns:a:b", token{}},
		{"something before", "xns:a", token{}},
		{"T-03 anything", "123fa-test", token{}},
		{"unfinished", `{"ns":"a"`, token{}},
		{"longest", fmt.Sprintf(`{"ns":%q,"nodeName":%q,"pod":%q}`, longest, node, node), token{longest, node, node}},
		{"namespace too long", fmt.Sprintf(`{"ns":%q,"nodeName":"b"}`, longest+"x"), token{Node: "b"}},
		{"node too long", fmt.Sprintf(`{"ns":"a","nodeName":%q}`, node+"x"), token{Namespace: "a"}},
		{"pod too long", fmt.Sprintf(`{"ns":"a","pod":%q}`, node+"x"), token{Namespace: "a"}},
		{"too long as old proxies", "ns:" + longest + "x", token{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := parseToken(tc.token); got != tc.want {
				t.Errorf("%q: got %+v, want %+v", tc.token, got, tc.want)
			}
		})
	}
}

// TestPlainToken checks that tokens of proxies are parsed without encoding/json. Unusual tokens are
// left to encoding/json.
func TestPlainToken(t *testing.T) {
	for s, plain := range map[string]bool{
		`{"ns":"a","nodeName":"b","pod":"c"}`:                       true,
		"{\"ns\":\"a\", \"nodeName\" : \"b\",\n\t\"pod\":\"c\" }\n": true,
		`{"ns":"a","ns":""}`:                                        true,
		`{"ns":"a","NodeName":"b"}`:                                 false,
		`{"ns":"a\n"}`:                                              false,
		`{"ns":"ä"}`:                                                false,
		"{\"ns\":\"a\x00\"}":                                        false,
		`{"ns":"a","x":"y"}`:                                        false,
		`{"ns":null}`:                                               false,
		`{"ns":"a",}`:                                               false,
		`{"ns":"a"}}`:                                               false,
		`{"ns" "a"}`:                                                false,
		`{"ns":"a`:                                                  false,
		`"ns":"a"}`:                                                 false,
		`{}`:                                                        false,
		"":                                                          false,
	} {
		got, ok := plainToken(s)
		if ok != plain {
			t.Errorf("%q: parsed %v", s, ok)
		}
		asJSON(t, s, got, ok)
	}
}

// asJSON checks that a parsed token equals the result of encoding/json.
func asJSON(t *testing.T, s string, got token, ok bool) {
	t.Helper()
	var want token
	if err := json.Unmarshal([]byte(s), &want); ok && (err != nil || got != want) {
		t.Errorf("%q: got %+v, encoding/json returns %+v, %v", s, got, want, err)
	}
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{
		`{"ns":"a","nodeName":"b","pod":"c"}`,
		"ns:x",
		"",
		"{",
		`{"nodeName":{}}`,
		`{"ns" : "a" , "pod":"b\n"} `,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		plain, ok := plainToken(s)
		asJSON(t, s, plain, ok)
		got := parseToken(s)
		if ns, ok := strings.CutPrefix(s, "ns:"); ok && !strings.Contains(ns, ":") {
			if got != (token{Namespace: ns}) && (got != (token{}) || len(ns) <= 63) {
				t.Fatalf("%q: got %+v", s, got)
			}
			return
		}
		if len(got.Namespace) > 63 || len(got.Node) > 253 || len(got.Pod) > 253 {
			t.Fatalf("%q: got %+v", s, got)
		}
		// All other tokens come from encoding/json, which returns valid UTF-8.
		if !utf8.ValidString(got.Namespace + got.Node + got.Pod) {
			t.Fatalf("%q: got %+v", s, got)
		}
		if got != (token{}) && !strings.Contains(s, "{") {
			t.Fatalf("%q is not an object, but was parsed as %+v", s, got)
		}
	})
}

func TestParseDestination(t *testing.T) {
	addr := func(s string) federation.ProfileKey {
		return federation.ProfileKey{Addr: netip.MustParseAddrPort(s)}
	}
	for authority, want := range map[string]federation.ProfileKey{
		"web.shop.svc.cluster.local":            {Service: web, Port: 80},
		"web.shop.svc.cluster.local:8080":       {Service: web, Port: 8080},
		"web-0.web.shop.svc.cluster.local:8080": {Service: web, Instance: "web-0", Port: 8080},
		"10.1.2.3":                              addr("10.1.2.3:80"),
		"10.1.2.3:65535":                        addr("10.1.2.3:65535"),
		"[fd00::1]:8080":                        addr("[fd00::1]:8080"),
		"[FD00:0::0001]:8080":                   addr("[fd00::1]:8080"),
		"[::ffff:10.1.2.3]:8080":                addr("10.1.2.3:8080"),
		"[::ffff:a01:203]:8080":                 addr("10.1.2.3:8080"),
		"[10.1.2.3]:80":                         addr("10.1.2.3:80"),
	} {
		if got, err := parseDestination(authority, "cluster.local"); err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", authority, got, err, want)
		}
	}
	for _, authority := range []string{
		"",
		"linkerd.io",
		"web",
		"web.svc.cluster.local:80",
		"a.b.web.shop.svc.cluster.local",
		"web.shop.svc.other.domain:80",
		"web.shop.svc.cluster.local:0",
		"10.1.2.3:0",
		"10.1.2.3:65536",
		"10.1.2.3:http",
		"10.1.2.3:",
		"fd00::1",
		"[fd00::1]",
		longest + "x.web.shop.svc.cluster.local:80",
		"[fe80::1%eth0]:80",
		"[::ffff:10.1.2.3%eth0]:80",
		"10.1.2:80",
		"010.1.2.3:80",
		"10.1.2.3.:80",
		":80",
	} {
		got, err := parseDestination(authority, "cluster.local")
		if status.Code(err) != codes.InvalidArgument ||
			status.Convert(err).Message() != "Invalid authority: "+authority ||
			got != (federation.ProfileKey{}) {
			t.Errorf("%q: got %+v, %v; want InvalidArgument", authority, got, err)
		}
	}
}

func FuzzDestination(f *testing.F) {
	for _, s := range []string{
		"web.shop.svc.cluster.local:80",
		"a.web.shop.svc.cluster.local",
		"[fd00::1]:80",
		"10.0.0.1",
		"[::ffff:10.0.0.1]:1",
		"[fe80::1%a]:80",
		":",
		".svc.cluster.local",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, authority string) {
		got, err := parseDestination(authority, "cluster.local")
		if err != nil {
			if status.Code(err) != codes.InvalidArgument || got != (federation.ProfileKey{}) {
				t.Fatalf("got %+v, %v", got, err)
			}
			return
		}
		// The destination is an address in canonical form, or the result of parsing for a Get.
		want, err := parseAuthority(authority, "cluster.local")
		switch {
		case err == nil:
			if got != (federation.ProfileKey{Service: want.service, Instance: want.instance, Port: want.port}) {
				t.Fatalf("%q was parsed as %+v, for a Get as %+v", authority, got, want)
			}
		case got != (federation.ProfileKey{Addr: got.Addr}),
			got.Addr.Addr().Zone() != "",
			got.Addr.Addr().Is4In6(),
			got.Addr.Port() == 0:
			t.Fatalf("%q was parsed as %+v", authority, got)
		default:
			if again, err := parseDestination(got.Addr.String(), "cluster.local"); err != nil || again != got {
				t.Fatalf("%q was parsed as %+v, and its address as %+v, %v", authority, got, again, err)
			}
		}
	})
}
