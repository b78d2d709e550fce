package plan

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestExcluded checks keys by which well-known software finds its own objects, and keys that only
// look similar.
func TestExcluded(t *testing.T) {
	for _, key := range []string{
		"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "applyset.kubernetes.io/part-of",
		"cluster.x-k8s.io/cluster-name", "x-k8s.io/owner", "config.k8s.io/owning-inventory",
		"linkerd.io/inject", "viz.linkerd.io/tap", "mirror.linkerd.io/exported", "isthmus.io/copied",
		"strimzi.io/cluster", "elasticsearch.k8s.elastic.co/cluster-name", "cnpg.io/cluster",
		"argocd.argoproj.io/instance", "kustomize.toolkit.fluxcd.io/name", "fleet.cattle.io/bundle-id",
		"objectset.rio.cattle.io/hash", "kluctl.io/discriminator", "helm.sh/chart", "meta.helm.sh/release-name",
		"kapp.k14s.io/app", "crossplane.io/composite", "olm.owner", "operators.coreos.com/web.shop",
		"velero.io/restore-name", "istio.io/rev", "v1.min.io/tenant", "vcluster.loft.sh/managed-by",
	} {
		if !excluded(key) {
			t.Errorf("%s is copied", key)
		}
	}
	for _, key := range []string{
		"", "/", "team", "app", "managed-by", "owner", "strimzi.io", "notstrimzi.io/cluster",
		"strimzi.io.example/cluster",
		"app.kubernetes.io/name", "app.kubernetes.io/part-of", "example.com/managed-by", "shop.example/strimzi.io",
		strings.Repeat("a.", 150) + "strimzi.io/cluster", // not a valid key, so no part of it is compared
	} {
		if excluded(key) {
			t.Errorf("%s is not copied", key)
		}
	}
}

// TestOwnersAreDocumented checks that docs/exports.md lists the keys that are never copied.
func TestOwnersAreDocumented(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/exports.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range excludedSoftware {
		if !slices.IsSorted(o.domains) || !slices.IsSorted(o.keys) {
			t.Errorf("%s: the list is not sorted", o.kind)
		}
		row := "| " + o.kind + " | `" + strings.Join(slices.Concat(o.domains, o.keys), "`, `") + "` |"
		if !strings.Contains(string(docs), row) {
			t.Errorf("docs/exports.md needs the row\n%s", row)
		}
	}
}

// TestExportedExcluded checks that excluded keys of a ServiceExport are left out and reported, and
// cause no conflict.
func TestExportedExcluded(t *testing.T) {
	older, newer := export("web", "import", "http=80"), export("web", "import", "http=80")
	older.Exported.Labels = map[string]string{
		"team": "a", "app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "x", "strimzi.io/cluster": "events",
	}
	older.Exported.Annotations = map[string]string{"note": "b", "argocd.argoproj.io/tracking-id": "x"}
	newer.Exported.Labels = map[string]string{
		"team": "a", "app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "y", "cnpg.io/cluster": "z",
	}
	newer.Exported.Annotations, newer.Exported.Created = map[string]string{"note": "b"}, start.Add(time.Second)
	s := newSim(cluster("", newer), cluster("west", older))
	s.settle(t)

	o := s.imported(t, "web")
	labels, annotations := maps.Clone(o.Labels), maps.Clone(o.Annotations)
	maps.DeleteFunc(labels, func(key, _ string) bool { return inDomain(key, "isthmus.io") })
	maps.DeleteFunc(annotations, func(key, _ string) bool { return inDomain(key, "isthmus.io", "kubernetes.io") })
	want := map[string]string{"team": "a", "app.kubernetes.io/name": "web"}
	if !maps.Equal(labels, want) || !maps.Equal(annotations, map[string]string{"note": "b"}) {
		t.Errorf("copied labels %v, annotations %v", labels, annotations)
	}
	if got := s.condition("web", "Conflict"); got != "NoConflicts" {
		t.Error(got)
	}
	for cluster, keys := range map[string][]string{
		"west": {"app.kubernetes.io/instance", "strimzi.io/cluster", "argocd.argoproj.io/tracking-id"},
		"": {
			"app.kubernetes.io/instance", "strimzi.io/cluster", "argocd.argoproj.io/tracking-id", "cnpg.io/cluster",
		},
	} {
		i := slices.IndexFunc(s.last.Verdicts, func(v Verdict) bool { return v.Cluster == cluster })
		detail := s.last.Verdicts[i].Detail
		for _, key := range keys {
			if strings.Count(detail, `"`+key+`"`) != 1 {
				t.Errorf("%s: %q does not name %s once", displayName(cluster), detail, key)
			}
		}
		if cluster == "" && !strings.Contains(s.condition("web", "Ready"), detail) {
			t.Errorf("condition %q", s.condition("web", "Ready"))
		}
	}
	newer.Exported.Labels["team"] = "b"
	s.settle(t)
	if got := s.condition("web", "Conflict"); !strings.HasPrefix(got, "LabelsConflict ") ||
		strings.Contains(got, "cnpg") {
		t.Error(got)
	}
}

// TestExcludedOnOneSide checks that exports with equal labels do not conflict if one link excludes
// some of the labels.
func TestExcludedOnOneSide(t *testing.T) {
	older, newer := export("web", "import", "http=80"), export("web", "import", "http=80")
	older.Exported.Labels = map[string]string{"team": "a", "tmp-1": "x", "size": "10"}
	newer.Exported.Labels = map[string]string{"team": "a", "tmp-1": "x", "size": "1 0"} // not a valid label value
	newer.Exported.Created = start.Add(time.Second)
	s := newSim(cluster("", older), cluster("east", newer))
	exclude, err := ParseKeyPatterns("tmp-*")
	if err != nil {
		t.Fatal(err)
	}
	s.of("east").ExcludeLabels = exclude
	s.settle(t)
	if o := s.imported(t, "web"); o.Labels["tmp-1"] != "x" || o.Labels["size"] != "10" {
		t.Errorf("labels %v", o.Labels)
	}
	if got := s.condition("web", "Conflict"); got != "NoConflicts" {
		t.Error(got)
	}

	delete(newer.Exported.Labels, "team")
	s.settle(t)
	if got := s.condition("web", "Conflict"); !strings.HasPrefix(got, "LabelsConflict ") ||
		strings.Contains(got, "tmp-1") {
		t.Error(got)
	}
}

// TestKeyPatterns checks which keys patterns select.
func TestKeyPatterns(t *testing.T) {
	for _, tc := range []struct {
		list      string
		excluded  []string
		copied    []string
		wantError string
	}{
		{"", nil, []string{"team", "example.com/a"}, ""},
		{
			" team , example.com/* ",
			[]string{"team", "example.com/a"}, []string{"teams", "x.example.com/a", "example.com"}, "",
		},
		{
			"*.example.com/*,tmp-?",
			[]string{"x.example.com/a", "tmp-1"}, []string{"example.com/a", "tmp-12", "tmp-"}, "",
		},
		{
			"*,!team,!app.kubernetes.io/*",
			[]string{"a", "example.com/a"}, []string{"team", "app.kubernetes.io/name"}, "",
		},
		{"!team", nil, []string{"team", "a"}, ""},
		{"a/b/c", nil, nil, `"a/b/c" is not a label key pattern`},
		{"a b", nil, nil, `"a b" is not a label key pattern`},
		{"a,!", nil, nil, `"!" is not a label key pattern`},
		{strings.Repeat("a", maxKey+1), nil, nil, "is not a label key pattern"},
		{strings.Repeat("a,", maxKeyPatterns+1), nil, nil, "more than 64 patterns"},
	} {
		p, err := ParseKeyPatterns(tc.list)
		if got := fmt.Sprint(err); (err != nil) != (tc.wantError != "") || !strings.Contains(got, tc.wantError) ||
			len(got) > 500 {
			t.Errorf("%.50q: error %q", tc.list, got)
		}
		for _, key := range tc.excluded {
			if !p.match(key) {
				t.Errorf("%q does not match %s", tc.list, key)
			}
		}
		for _, key := range tc.copied {
			if p.match(key) {
				t.Errorf("%q matches %s", tc.list, key)
			}
		}
	}
}

// FuzzKeyPatterns compares patterns with path.Match, in which * stops at a slash.
func FuzzKeyPatterns(f *testing.F) {
	f.Add("a*b?c*", "aXXbYcZ")
	f.Add("!a,*", "b")
	f.Add("**a*a*a*", strings.Repeat("a", 300))
	f.Fuzz(func(t *testing.T, list, key string) {
		p, err := ParseKeyPatterns(list)
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Fatalf("error of %d bytes", len(err.Error()))
			}
			return
		}
		p.match(key)
		if strings.ContainsFunc(key, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return // path.Match compares characters, not bytes
		}
		key = strings.ReplaceAll(key, "/", "|")
		for _, pattern := range slices.Concat(p.exclude, p.except) {
			pattern = strings.ReplaceAll(pattern, "/", "|")
			if want, err := path.Match(pattern, key); err == nil && want != matches(pattern, key) {
				t.Fatalf("match of %q with %q is %t", pattern, key, !want)
			}
		}
	})
}

// TestExcludeLabels checks that the patterns of the deciding cluster select the labels that are not
// copied.
func TestExcludeLabels(t *testing.T) {
	patterns := func(list string) KeyPatterns {
		p, err := ParseKeyPatterns(list)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	labels := func() map[string]string {
		return map[string]string{"team": "a", "tmp-1": "x", "example.com/owner": "y"}
	}
	both := export("web", "mirror federated import", "http=80")
	both.Service.Labels, both.Exported.Labels = labels(), labels()
	own := export("web", "federated", "http=80")
	own.Service.Labels = labels()
	s := newSim(cluster("", own), cluster("east", both))
	s.of("").ExcludeLabels, s.of("east").ExcludeLabels = patterns("tmp-*"), patterns("example.com/*")
	check := func(want map[string]string) {
		t.Helper()
		s.settle(t)
		copied := func(of map[string]string) string {
			var all []string
			for _, key := range sorted(of) {
				if _, ok := labels()[key]; ok {
					all = append(all, key)
				}
			}
			return strings.Join(all, " ")
		}
		for name, keys := range want {
			if got := copied(s.Services[ID{"shop", name}].Labels); got != keys {
				t.Errorf("%s has the labels %q, want %q", name, got, keys)
			}
		}
		if got := copied(s.imported(t, "web").Labels); got != want["web-clusterset"] {
			t.Errorf("the ServiceImport has the labels %q, want %q", got, want["web-clusterset"])
		}
	}
	check(map[string]string{
		"web-east": "team tmp-1", "web-clusterset": "team tmp-1", "web-federated": "example.com/owner team",
	})
	for _, v := range s.last.Verdicts {
		if named := strings.Contains(v.Detail, `"example.com/owner": not copied`); named != (v.Kind == Import) {
			t.Errorf("%s %s: %q", v.Cluster, v.Kind, v.Detail)
		}
	}
	s.of("east").ExcludeLabels = KeyPatterns{}
	check(map[string]string{
		"web-east": "example.com/owner team tmp-1", "web-clusterset": "example.com/owner team tmp-1",
	})
	// While the annotation of the link is invalid, nothing changes.
	s.of("east").Joins, s.of("east").ExcludeLabels = Unreadable, patterns("*")
	if writes := s.settle(t); len(writes) > 0 {
		t.Errorf("written: %q", writes)
	}
	s.of("east").Joins = JoinsAll
	check(map[string]string{"web-east": "", "web-clusterset": "", "web-federated": "example.com/owner team"})
}
