package local

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

var shopWeb = federation.ServiceID{Namespace: "shop", Name: "web"}

// render writes a definition down: "federated" or "single", then its members.
func render(d *federation.Definition) string {
	words := []string{"single"}
	if d.Federated {
		words[0] = "federated"
	}
	for _, m := range d.Members {
		words = append(words, m.String())
	}
	return strings.Join(words, " ")
}

func TestDefine(t *testing.T) {
	annotations := func(local, remote string) *cluster.Service {
		return &cluster.Service{Annotations: map[string]string{localDiscovery: local, remoteDiscovery: remote}}
	}
	only := func(key, value string) *cluster.Service {
		return &cluster.Service{Annotations: map[string]string{key: value}}
	}
	labels := func(kv ...string) *cluster.Service {
		s := &cluster.Service{Labels: map[string]string{}}
		for i := 0; i < len(kv); i += 2 {
			s.Labels[kv[i]] = kv[i+1]
		}
		return s
	}
	both := annotations("bb", "")
	both.Labels = map[string]string{remoteDiscovery: "east", remoteService: "x"}

	for name, tt := range map[string]struct {
		svc      *cluster.Service
		want     string
		problems int
	}{
		"plain":                      {&cluster.Service{}, "single shop/web@local", 0},
		"other annotations":          {only("multicluster.linkerd.io/else", "x@east"), "single shop/web@local", 0},
		"local only":                 {only(localDiscovery, "bb"), "federated shop/bb@local", 0},
		"local with spaces":          {only(localDiscovery, " bb "), "federated shop/bb@local", 0},
		"local empty":                {only(localDiscovery, ""), "federated", 0},
		"local invalid":              {only(localDiscovery, "bb,cc"), "federated", 1},
		"remote only":                {only(remoteDiscovery, "bb@east"), "federated shop/bb@east", 0},
		"remote empty":               {only(remoteDiscovery, ""), "federated", 0},
		"remote spaces":              {only(remoteDiscovery, "  "), "federated", 0},
		"local first, then in order": {annotations("bb", "bb@north,bb@east"), "federated shop/bb@local shop/bb@north shop/bb@east", 0},
		"spaces around items":        {only(remoteDiscovery, " bb@east , bb@north "), "federated shop/bb@east shop/bb@north", 0},
		"duplicates count once":      {only(remoteDiscovery, "bb@east,bb@north, bb@east"), "federated shop/bb@east shop/bb@north", 0},
		"two services, one cluster":  {only(remoteDiscovery, "bb@east,cc@east"), "federated shop/bb@east shop/cc@east", 0},
		"invalid ones between":       {annotations("bb", "a@b@c,,bb,@,a@,@b,bb@east"), "federated shop/bb@local shop/bb@east", 6},
		"blanks inside":              {only(remoteDiscovery, "bb @east,bb@ east"), "federated", 2},
		"other namespace":            {only(remoteDiscovery, "ns/bb@east"), "federated", 1},
		"upper case":                 {only(remoteDiscovery, "BB@east,bb@East"), "federated shop/bb@East", 1},
		"local is no remote cluster": {only(remoteDiscovery, "bb@local"), "federated", 1},
		"itself":                     {only(localDiscovery, "web"), "federated shop/web@local", 0},
		"annotations win":            {both, "federated shop/bb@local", 0},
		"mirror":                     {labels(remoteDiscovery, "east", remoteService, "bb"), "single shop/bb@east", 0},
		"mirror of nothing":          {labels(remoteDiscovery, "east"), "single", 1},
		"mirror of an empty name":    {labels(remoteDiscovery, "east", remoteService, ""), "single", 1},
		"mirror of no cluster":       {labels(remoteDiscovery, "", remoteService, "bb"), "single shop/web@local", 1},
		"remote-service alone":       {labels(remoteService, "bb"), "single shop/web@local", 0},
	} {
		d, problems := define(shopWeb, tt.svc, &federation.Preference{})
		if got := render(d); got != tt.want || len(problems) != tt.problems {
			t.Errorf("%s: %q, want %q; %d problems, want %d: %q", name, got, tt.want, len(problems), tt.problems, problems)
		}
	}
}

func TestManyProblemsAreCut(t *testing.T) {
	items := make([]string, 1000)
	for i := range items {
		items[i] = strings.Repeat("x", 200+i)
	}
	_, problems := defineFederated("shop", "", strings.Join(items, ","))
	total := 0
	for _, p := range problems {
		total += len(p)
	}
	if total > 10_000 {
		t.Errorf("%d problems take %d bytes", len(problems), total)
	}
}

// Whatever stands in the annotations: members are well-formed, in order, and
// none twice, and a list that is well-formed is taken as it is.
func FuzzDefineFederated(f *testing.F) {
	f.Add("bb", "bb@east,bb@north")
	f.Add("", " a@b , c@d@e,,@,x@")
	f.Add("a b", "a@\x00,\xff@b,a@local")
	f.Fuzz(func(t *testing.T, local, remote string) {
		d, problems := defineFederated("shop", local, remote)
		if !d.Federated {
			t.Fatal("not federated")
		}
		var items []string
		for i, m := range d.Members {
			if slices.Contains(d.Members[:i], m) {
				t.Fatalf("%v is a member twice", m)
			}
			if m.Service.Namespace != "shop" || m.Service.Name == "" || strings.ContainsAny(m.Service.Name+string(m.Cluster), "@, ") {
				t.Fatalf("member %q", m)
			}
			if m.Cluster == federation.Local {
				if i > 0 || m.Service.Name != strings.TrimSpace(local) {
					t.Fatalf("local member %v at %d", m, i)
				}
				continue
			}
			items = append(items, m.Service.Name+"@"+string(m.Cluster))
			if !strings.Contains(remote, items[len(items)-1]) {
				t.Fatalf("%v is not in %q", m, remote)
			}
		}
		if len(problems) == 0 && strings.TrimSpace(local) != "" && (len(d.Members) == 0 || d.Members[0].Cluster != federation.Local) {
			t.Fatal("the local member is missing without a problem")
		}
		again, more := defineFederated("shop", local, strings.Join(items, ","))
		if !slices.Equal(again.Members, d.Members) || len(more) > len(problems) {
			t.Fatalf("parsed again: %v, not %v", again.Members, d.Members)
		}
	})
}

// TestTooManyMembers: one Service's annotation can't slow down the gateway.
func TestTooManyMembers(t *testing.T) {
	for name, item := range map[string]func(int) string{
		"members":        func(i int) string { return fmt.Sprintf("web@c%d", i) },
		"the same":       func(int) string { return "web@east" },
		"nothing usable": func(int) string { return "-" },
	} {
		var items []string
		for i := range 30_000 {
			items = append(items, item(i))
		}
		d, problems := defineFederated("shop", "web", strings.Join(items, ","))
		if len(d.Members) > maxMembers || len(problems) == 0 || len(problems) > 11 {
			t.Errorf("%s: %d members, %d problems", name, len(d.Members), len(problems))
		}
		if last := problems[len(problems)-1]; !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, "passed over") }) {
			t.Errorf("%s: no problem about the rest: %s", name, last)
		}
	}
}

// TestDefineStrict: what has the mark of a gateway is strict, and imported if it was derived from a ServiceImport; a copy of it is not.
func TestDefineStrict(t *testing.T) {
	for name, tt := range map[string]struct {
		by, as string
		want   bool
	}{
		"written":          {"linkerd", "Service shop/web", true},
		"of another one":   {"other", "Service shop/web", true},
		"label alone":      {"linkerd", "", false},
		"annotation alone": {"", "Service shop/web", false},
		"copied":           {"linkerd", "Service shop/api", false},
		"other kind":       {"linkerd", "ServiceImport shop/web", false},
	} {
		d, _ := define(shopWeb, &cluster.Service{
			Labels:      map[string]string{remoteDiscovery: "east", remoteService: "web", "isthmus.io/written-by": tt.by},
			Annotations: map[string]string{"isthmus.io/written-as": tt.as},
		}, &federation.Preference{})
		if d.Strict != tt.want || d.Imported {
			t.Errorf("%s: strict is %v, imported %v", name, d.Strict, d.Imported)
		}
		derived := federation.ServiceID{Namespace: "shop", Name: "web-clusterset"}
		d, _ = define(derived, &cluster.Service{
			Labels:      map[string]string{"multicluster.kubernetes.io/service-name": "web", "isthmus.io/written-by": tt.by},
			Annotations: map[string]string{"isthmus.io/written-as": strings.Replace(tt.as, "shop/web", "shop/web-clusterset", 1)},
		}, &federation.Preference{})
		if d.Imported != tt.want {
			t.Errorf("%s: imported is %v", name, d.Imported)
		}
	}
}
