package plan

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestExcluded tests keys by which well-known software finds its own objects, and keys that only look like them.
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
		"", "/", "team", "app", "managed-by", "owner", "strimzi.io", "notstrimzi.io/cluster", "strimzi.io.example/cluster",
		"app.kubernetes.io/name", "app.kubernetes.io/part-of", "example.com/managed-by", "shop.example/strimzi.io",
	} {
		if excluded(key) {
			t.Errorf("%s is not copied", key)
		}
	}
}

// TestOwnersAreDocumented compares docs/exports.md with the list of keys that are never copied.
func TestOwnersAreDocumented(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/exports.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		if !slices.IsSorted(o.domains) || !slices.IsSorted(o.keys) {
			t.Errorf("%s: the list is not sorted", o.kind)
		}
		row := "| " + o.kind + " | `" + strings.Join(slices.Concat(o.domains, o.keys), "`, `") + "` |"
		if !strings.Contains(string(docs), row) {
			t.Errorf("docs/exports.md needs the row\n%s", row)
		}
	}
}

// TestExportedExcluded tests what ServiceExports name and software finds its own objects by: it is left out and
// named, and does not conflict.
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
	maps.DeleteFunc(labels, func(key, _ string) bool { return within(key, "isthmus.io") })
	maps.DeleteFunc(annotations, func(key, _ string) bool { return within(key, "isthmus.io", "kubernetes.io") })
	want := map[string]string{"team": "a", "app.kubernetes.io/name": "web"}
	if !maps.Equal(labels, want) || !maps.Equal(annotations, map[string]string{"note": "b"}) {
		t.Errorf("labels %v, annotations %v", labels, annotations)
	}
	if got := s.condition("web", "Conflict"); got != "NoConflicts" {
		t.Error(got)
	}
	for cluster, keys := range map[string][]string{
		"west": {"app.kubernetes.io/instance", "strimzi.io/cluster", "argocd.argoproj.io/tracking-id"},
		"":     {"app.kubernetes.io/instance", "strimzi.io/cluster", "argocd.argoproj.io/tracking-id", "cnpg.io/cluster"},
	} {
		i := slices.IndexFunc(s.last.Verdicts, func(v Verdict) bool { return v.Cluster == cluster })
		detail := s.last.Verdicts[i].Detail
		for _, key := range keys {
			if strings.Count(detail, `"`+key+`"`) != 1 {
				t.Errorf("%s: %q does not name %s once", shown(cluster), detail, key)
			}
		}
		if cluster == "" && !strings.Contains(s.condition("web", "Ready"), detail) {
			t.Errorf("condition %q", s.condition("web", "Ready"))
		}
	}
	newer.Exported.Labels["team"] = "b"
	s.settle(t)
	if got := s.condition("web", "Conflict"); !strings.HasPrefix(got, "LabelsConflict ") || strings.Contains(got, "cnpg") {
		t.Error(got)
	}
}
