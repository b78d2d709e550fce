package commands

import "testing"

func TestServiceNames(t *testing.T) {
	for typed, want := range map[string]string{
		"web": "/web", "shop/web": "shop/web", "web.shop": "shop/web", "web.shop.svc": "shop/web",
		"web.shop.svc.cluster.local:80":    "shop/web",
		"web-0.web.shop.svc.cluster.local": "shop/web", "web.svc": "svc/web",
		"": "", "/web": "", "shop/": "", "a/b/c": "", "web.": "", "a.b.c": "", ":80": "", "..svc": "",
	} {
		n, ok := parseServiceName(typed)
		got := n.namespace + "/" + n.name
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %t, want %q", typed, got, ok, want)
		}
	}
}
