package grpcapi

import (
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
)

func TestParseAuthority(t *testing.T) {
	shopWeb := federation.ServiceID{Namespace: "shop", Name: "web"}
	good := map[string]target{
		"web.shop.svc.cluster.local":          {service: shopWeb, port: 80},
		"web.shop.svc.cluster.local:8080":     {service: shopWeb, port: 8080},
		"web.shop.svc.cluster.local:1":        {service: shopWeb, port: 1},
		"web.shop.svc.cluster.local:65535":    {service: shopWeb, port: 65535},
		"web.shop.svc.cluster.local:+80":      {service: shopWeb, port: 80},
		"web.shop.svc.cluster.local:0080":     {service: shopWeb, port: 80},
		"web-0.web.shop.svc.cluster.local:80": {service: shopWeb, instance: "web-0", port: 80},
		"svc.svc.svc.cluster.local":           {service: federation.ServiceID{Namespace: "svc", Name: "svc"}, port: 80},
	}
	for authority, want := range good {
		got, err := parseAuthority(authority, "cluster.local")
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", authority, got, err, want)
		}
	}
	const invalid, ip = "Invalid authority: ", "IP queries not supported by Get API: host="
	bad := map[string]string{
		"":                                    invalid,
		"linkerd.io":                          invalid + "linkerd.io",
		"web":                                 invalid + "web",
		"svc.cluster.local:80":                invalid,
		".svc.cluster.local:80":               invalid,
		"web.svc.cluster.local:80":            invalid,
		".shop.svc.cluster.local":             invalid,
		"web..svc.cluster.local":              invalid,
		".web.shop.svc.cluster.local":         invalid,
		"a.b.web.shop.svc.cluster.local:80":   invalid,
		"web.shop.svc.cluster.local.:80":      invalid,
		"web.shop.SVC.cluster.local":          invalid,
		"web.shop.svc.other.domain:80":        invalid,
		"web.shop.pod.cluster.local:80":       invalid,
		"web.shop.svc.cluster.local:0":        invalid,
		"web.shop.svc.cluster.local:65536":    invalid,
		"web.shop.svc.cluster.local:-1":       invalid,
		"web.shop.svc.cluster.local:http":     invalid,
		"web.shop.svc.cluster.local:":         invalid,
		"web.shop.svc.cluster.local:80:80":    invalid,
		"fd00::1":                             invalid,
		"[fd00::1]":                           invalid,
		"[web.shop.svc.cluster.local:80":      invalid,
		"10.1.2.3":                            ip + "10.1.2.3",
		"10.1.2.3:80":                         ip + "10.1.2.3",
		"[fd00::1]:80":                        ip + "fd00::1",
		"[web.shop.svc.cluster.local]:80:foo": invalid,
	}
	for authority, message := range bad {
		got, err := parseAuthority(authority, "cluster.local")
		if status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(status.Convert(err).Message(), message) {
			t.Errorf("%q: got %+v, %v; want InvalidArgument, %s", authority, got, err, message)
		}
	}
}

func FuzzAuthority(f *testing.F) {
	for _, s := range []string{"web.shop.svc.cluster.local:80", "a.web.shop.svc.cluster.local", "[fd00::1]:80", "10.0.0.1", ":", ".svc.cluster.local"} {
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
		// What was understood is spelled out in the authority, in that order.
		host := got.service.Name + "." + got.service.Namespace + ".svc.cluster.local"
		if got.instance != "" {
			host = got.instance + "." + host
		}
		if got.service.Name == "" || got.service.Namespace == "" || got.port == 0 || !strings.Contains(authority, host) {
			t.Fatalf("%q was read as %+v", authority, got)
		}
		again, err := parseAuthority(host, "cluster.local")
		if again.port = got.port; err != nil || again != got {
			t.Fatalf("%q was read as %+v, its host %q as %+v, %v", authority, got, host, again, err)
		}
	})
}

func TestParseToken(t *testing.T) {
	for s, want := range map[string]token{
		"": {},
		`{"ns":"ns-1","nodeName":"node-1"}` + "\n":          {Namespace: "ns-1", Node: "node-1"},
		`{"ns":"a","nodeName":"b","pod":"c","extra":[1,2]}`: {Namespace: "a", Node: "b", Pod: "c"},
		`{"ns":"a","nodeName":7,"pod":"c"}`:                 {Namespace: "a", Pod: "c"},
		`["a"]`:                                             {},
		`null`:                                              {},
		"ns:ns-2":                                           {Namespace: "ns-2"},
		"ns:":                                               {},
		"ns:a:b":                                            {},
		"xns:a":                                             {},
		"123fa-test":                                        {},
		`{"ns":"a"`:                                         {},
	} {
		if got := parseToken(s); got != want {
			t.Errorf("%q: got %+v, want %+v", s, got, want)
		}
	}
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{`{"ns":"a","nodeName":"b","pod":"c"}`, "ns:x", "", "{", `{"nodeName":{}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := parseToken(s)
		if ns, ok := strings.CutPrefix(s, "ns:"); ok && !strings.Contains(ns, ":") {
			if got != (token{Namespace: ns}) {
				t.Fatalf("%q: got %+v", s, got)
			}
			return
		}
		// Everything else comes out of JSON, which knows no invalid UTF-8.
		if !utf8.ValidString(got.Namespace + got.Node + got.Pod) {
			t.Fatalf("%q: got %+v", s, got)
		}
		if got != (token{}) && !strings.Contains(s, "{") {
			t.Fatalf("%q is no object, and was read as %+v", s, got)
		}
	})
}
