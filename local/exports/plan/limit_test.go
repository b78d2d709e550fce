package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLimitOfLink(t *testing.T) {
	s := newSim(cluster("east"), cluster("west"))
	for i := range 2000 {
		s.of("east").Exports = append(s.of("east").Exports, s.in(i/300, fmt.Sprintf("m%04d", i), "mirror"))
	}
	s.of("west").Exports = []Export{s.in(0, "zz", "mirror")}
	s.settle(t)
	count := make(map[string]int)
	for id := range s.Services {
		count[id.Namespace]++
	}
	if len(s.Services) != DefaultPerLink+1 || count["ns-00"] != DefaultPerNamespace+1 {
		t.Errorf("%d Services, by namespace %v", len(s.Services), count)
	}
	// Written objects stay when exports with earlier names appear.
	s.of("east").Exports = append(s.of("east").Exports, s.in(0, "aaa", "mirror"))
	if w := s.settle(t); len(w) > 0 {
		t.Errorf("writes: %.3q", w)
	}
	if i := slices.IndexFunc(s.last.Verdicts, func(v Verdict) bool {
		return v.Export.Name == "aaa" && v.State == OverNumber
	}); i < 0 {
		t.Error("the new export is not reported as over the limit")
	}
}

func TestLimitOfAll(t *testing.T) {
	s := newSim()
	for l := range 8 {
		c := newSim(cluster(fmt.Sprint("link-", l))).Clusters[0]
		for i := range 900 {
			c.Exports = append(c.Exports, s.in(i/200+10*l, fmt.Sprintf("m%d", i), "mirror"))
		}
		s.Clusters = append(s.Clusters, c)
	}
	s.settle(t)
	if len(s.Services) != MaxObjects {
		t.Errorf("%d Services exist", len(s.Services))
	}
}

func TestLimitOfMembers(t *testing.T) {
	s := newSim()
	for l := range 300 {
		c := newSim(cluster(fmt.Sprintf("link-%03d", l), export("web", "federated", "http=80"))).Clusters[0]
		s.Clusters = append(s.Clusters, c)
	}
	s.settle(t)
	_, members, _ := identify(s.Services[ID{"shop", "web-federated"}])
	over := 0
	for _, v := range s.last.Verdicts {
		if v.State == OverNumber {
			over++
		}
	}
	if len(members) != 256 || over != 44 {
		t.Errorf("%d members, %d exports over the limit", len(members), over)
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		list, namespace string
		want            bool
	}{
		{"*,!kube-*,!linkerd*", "shop", true},
		{"*,!kube-*,!linkerd*", "linkerd-viz", false},
		{"*", "kube-system", false},
		{"kube-*", "kube-system", false},
		{"kube-system", "kube-system", true},
		{"*,kube-system,!kube-*", "kube-system", false},
		{"kube-system,!kube-system", "kube-system", false},
		{"shop,team-*,!team-x", "team-x", false},
		{"shop,team-*,!team-x", "team-y", true},
		{"", "shop", false},
		{"t?m", "tom", true},
	} {
		p, err := ParsePatterns(c.list)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.allows(c.namespace); got != c.want {
			t.Errorf("%q allows %s: %v", c.list, c.namespace, got)
		}
	}
	for _, bad := range []string{
		"Shop", "[", "a b", "!", "shop,té", strings.Repeat("a", maxNamespace+1),
		strings.Repeat("a,!b,", maxPatterns/2) + "c",
	} {
		if _, err := ParsePatterns(bad); err == nil || len(err.Error()) > 500 {
			t.Errorf("%.50q: error %v", bad, err)
		}
	}
	if _, err := ParsePatterns(strings.Repeat("a,!b,", maxPatterns/2)); err != nil {
		t.Error(err)
	}
}

// TestLimitsOfSettings checks that settings replace the default limits. The test also checks that
// the plan reports the fullest link and namespace.
func TestLimitsOfSettings(t *testing.T) {
	s := newSim(cluster("east"), cluster("west"))
	s.MaxPerLink, s.MaxPerNamespace = 10, 4
	for i := range 20 {
		s.of("east").Exports = append(s.of("east").Exports, s.in(i/5, fmt.Sprintf("m%02d", i), "mirror"))
	}
	s.of("west").Exports = []Export{s.in(0, "zz", "mirror")}
	s.settle(t)
	count := make(map[string]int)
	for id := range s.Services {
		count[id.Namespace]++
	}
	if len(s.Services) != 10+1 || count["ns-00"] != 4+1 || count["ns-01"] != 4 || count["ns-02"] != 2 {
		t.Errorf("%d Services, by namespace %v", len(s.Services), count)
	}
	want := []Fullness{
		{Per: "link", Cluster: "east", Asked: 20, Most: 10},
		{Per: "namespace", Cluster: "east", Namespace: "ns-00", Asked: 5, Most: 4},
	}
	if !slices.Equal(s.last.Fullest, want) || s.last.Fullest[0].Ratio() != 2 {
		t.Errorf("Fullest is %+v, want %+v", s.last.Fullest, want)
	}
	// A higher limit takes effect at once. A lower limit deletes nothing.
	s.MaxPerLink, s.MaxPerNamespace = 20, 5
	s.settle(t)
	if len(s.Services) != 20+1 {
		t.Errorf("%d Services with higher limits", len(s.Services))
	}
	s.MaxPerLink, s.MaxPerNamespace = 1, 1
	if w := s.settle(t); len(w) > 0 || len(s.Services) != 20+1 {
		t.Errorf("%d Services with lower limits, writes %.3q", len(s.Services), w)
	}
}
