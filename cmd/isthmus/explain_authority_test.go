package main

import (
	"strings"
	"testing"
)

// TestAuthorities: what people write stands for one service, or it is not taken.
func TestAuthorities(t *testing.T) {
	a := newShop(nil)
	for text, want := range map[string]string{
		"shop/web": "web.shop.svc.cluster.local:80", "shop/web:81": "web.shop.svc.cluster.local:81", "web.shop": "web.shop.svc.cluster.local:80",
		"web.shop.svc": "web.shop.svc.cluster.local:80", "web.shop.svc:90": "web.shop.svc.cluster.local:90", "shop/api": "api.shop.svc.cluster.local:8080",
		"shop/both": "both.shop.svc.cluster.local:80", "shop/none": "none.shop.svc.cluster.local:80", "web-0.web.shop.svc": "web-0.web.shop.svc.cluster.local:80",
		"api.shop.svc.cluster.local":   "api.shop.svc.cluster.local", // as applications dial it
		"x.web.shop.svc.cluster.local": "x.web.shop.svc.cluster.local", "10.1.0.1": "api.shop.svc.cluster.local:8080", "10.1.0.1:9": "api.shop.svc.cluster.local:9",
		"api.shop.svc.clusterset.local:90": "api-clusterset.shop.svc.cluster.local:90",
		"api.shop.svc.clusterset.local":    "api-clusterset.shop.svc.cluster.local:8080", // of a ServiceImport
		"api.shop.svc.clusterset.local.":   "api-clusterset.shop.svc.cluster.local:8080",
		"::ffff:10.1.0.1":                  "api.shop.svc.cluster.local:8080",
		"[::ffff:10.1.0.1]:9":              "api.shop.svc.cluster.local:9",
	} {
		if got, err := a.authority(text); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"web": `"web" is no service of the cluster domain cluster.local: give NAMESPACE/NAME`, "a.b.c": "is no service", "web.svc": "is no service", "a/b/c": "is no service",
		"/web": "is no service", "shop/": "is no service", "shop/a.b": "is no service", "web.shop.svc.other.org:80": "is no service of the cluster domain cluster.local", "": "is no service",
		"fe80::1%eth0": "is no service", "shop/multi": "shop/multi has several ports: add one of :81, :82, such as shop/multi:81",
		"web.shop.svc.clusterset.local:80": "no Service is written for ServiceImport shop/web, " +
			"so clients of its DNS name get no endpoints",
		"a.b.api.shop.svc.clusterset.local":                        "is no service of the cluster domain",
		"shop.svc.clusterset.local":                                "is no service of the cluster domain",
		strings.Repeat("x", 10_000) + ".shop.svc.clusterset.local": "no Service is written for ServiceImport shop/xxx",
		"10.0.0.1:80": "10.0.0.1 belongs to Pod shop/web-1 of the gateway's cluster, not to a Service", "10.9.9.9": "10.9.9.9 is no Service's cluster IP",
		"10.1.0.9":     "several objects of the gateway's cluster claim 10.1.0.9: 2 Services with cluster IP 10.1.0.9",
		"[fd00::1]:80": "fd00::1 is no Service's cluster IP", strings.Repeat("x", 10_000): strings.Repeat("x", maxRepeated) + "…",
	} {
		if got, err := a.authority(text); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}
