package plan

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The mirrors of db-x in east and of db in x-east have the same name.
var (
	someNames = []string{"web", "api", "db-x", "db"}
	someLinks = []string{"east", "west", "x-east"} // by age
)

func drawExport(t *rapid.T, name string) Export {
	ports := rapid.SampledFrom([]string{
		"http=80", "http=80", "http=8080", "metrics=80", "=80", "http=80,admin=9090", "dns=53/UDP,dns-tcp=53",
		"BAD=1,http=80",
	}).Draw(t, "ports")
	e := export(
		name,
		rapid.SampledFrom([]string{
			"", "mirror", "federated", "federated mirror", "import", "federated mirror import",
		}).Draw(t, "as"),
		ports,
	)
	e.Namespace = rapid.SampledFrom([]string{
		"shop", "shop", "shop", "other", "kube-system", "missing",
	}).Draw(t, "namespace")
	e.Service.Namespace = e.Namespace
	switch rapid.IntRange(0, 19).Draw(t, "kind") {
	case 0:
		e.Service.ClusterIPs = []string{"None"}
	case 1:
		e.Service.Type = "ExternalName"
	case 2:
		e.Service.Labels[mirroredLabel] = "true"
	case 4:
		e.Service.Traffic = Traffic{SessionAffinity: "Bogus", AffinitySeconds: 7}
	case 5:
		e.Service.Traffic = Traffic{SessionAffinity: "ClientIP", AffinitySeconds: 100_000}
	case 3:
		if e.Exported != nil {
			e.Service, e.Mirror, e.Federated = nil, false, false
			return e
		}
	}
	if families := rapid.SampledFrom([]string{"", "IPv4", "IPv6", "IPv6"}).Draw(t, "families"); families != "" {
		e.Service.IPFamilies = []string{families}
	}
	e.Service.Labels["team"] = rapid.SampledFrom([]string{"a", "b", "not/valid/"}).Draw(t, "team")
	e.Service.Annotations["retry.linkerd.io/http"] = rapid.SampledFrom([]string{
		"5xx", "gateway-error",
	}).Draw(t, "retry")
	if e.Exported != nil {
		e.Exported.Created = start.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "created")) * time.Second)
		e.Exported.UID += rapid.SampledFrom([]string{"x", "y"}).Draw(t, "uid")
	}
	return e
}

func drawExports(t *rapid.T) (all []Export) {
	for _, name := range someNames {
		e := drawExport(t, name)
		if e.Mirror || e.Federated || e.Exported != nil {
			all = append(all, e)
		}
	}
	return all
}

// TestLaws plays random worlds in which writes fail. Repeated plans must stop writing, and must not
// depend on the order of their input. Plans must never touch objects without the mark, and must
// keep what users have set. The final state must equal that of a world without failures.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(
			cluster("", drawExports(t)...), cluster("east", drawExports(t)...), cluster("west", drawExports(t)...),
		)
		theirs := make(map[ID]bool)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			s.step(t, theirs)
			before := maps.Clone(s.Services)
			inAnyOrder(t, s.World, s.memory)
			planned := s.planned()
			fails := rapid.SampledFrom([]string{
				"nothing", "nothing", "put", "import", "delete", "delete import",
			}).Draw(t, "fails")
			s.refuse = func(write string) bool { return strings.HasPrefix(write, fails+" ") }
			s.settleIn(t)
			for _, write := range s.writes {
				if object := writtenObject(write); fails == "nothing" && !planned[object] {
					t.Fatalf("%s was written but not planned: %q", object, s.writes)
				}
			}
			for id, o := range before {
				switch now := s.Services[id]; {
				case theirs[id] && now != o:
					t.Fatalf("%v had no mark but was changed", id)
				case s.Marked(o) && now != nil && now.UID == o.UID &&
					now.Labels[remoteDiscovery] != o.Labels[remoteDiscovery]:
					t.Fatalf("%v was of cluster %s: %v", id, o.Labels[remoteDiscovery], now.Labels)
				case o.Labels["mine"] != "" && now != nil && now.UID == o.UID && now.Labels["mine"] != "yes":
					t.Fatalf("%v lost a user's label", id)
				}
			}
			s.checkValid(t)
			if s.MCSVersion == "" && s.writesImports() {
				t.Fatalf("ServiceImports do not exist, but writes are %q", s.writes)
			}
		}
		s.MCSVersion, s.refuse = "v1beta1", nil
		for i := range s.Clusters {
			s.Clusters[i].Synced, s.Clusters[i].ServiceExportsSynced, s.Clusters[i].Joins = true, true, JoinsAll
		}
		s.settleIn(t)
		s.Now = s.Now.Add(time.Hour)
		s.settleIn(t)
		s.checkSpecified(t)
	})
}

// TestUnknownClusters checks that nothing is written when a cluster's exports become unknown, nor
// when they are known again without a change.
func TestUnknownClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim()
		s.IPv4Only = rapid.Bool().Draw(t, "IPv4 only")
		for i, name := range append([]string{""}, someLinks...) {
			c := newSim(cluster(name, drawExports(t)...)).Clusters[0]
			c.Age = start.Add(time.Duration(i) * time.Second)
			s.Clusters = append(s.Clusters, c)
		}
		s.settleIn(t)
		s.Now = s.Now.Add(time.Minute)
		s.settleIn(t)

		before := s.Clusters
		s.Clusters = nil
		for _, c := range before {
			fate := rapid.SampledFrom([]string{"known", "unseen", "unreadable", "unlinked"}).Draw(t, "fate")
			switch {
			case fate == "unseen":
				c.Synced, c.ServiceExportsSynced, c.Exports = false, false, nil
			case fate == "unreadable" && c.Name != "":
				c = Cluster{Name: c.Name, Age: c.Age, LinkSettings: LinkSettings{Joins: Unreadable}}
			case fate == "unlinked" && c.Name != "":
				continue
			}
			s.Clusters = append(s.Clusters, c)
		}
		// A new leader does not know which mirror names of a deleted link are still reserved.
		if rapid.Bool().Draw(t, "another leader") && s.isLinked("x-east") {
			s.memory = Memory{}
		}
		s.settleIn(t)
		if len(s.writes) > 0 {
			t.Fatalf("writes while clusters are unknown: %q (%s)", s.writes, s.states())
		}
		s.Clusters = before
		s.settleIn(t)
		if len(s.writes) > 0 {
			t.Fatalf("writes after clusters became known again: %q (%s)", s.writes, s.states())
		}
	})
}

// inAnyOrder checks that the plan does not depend on the order of the lists of a world.
func inAnyOrder(t *rapid.T, w World, memory Memory) {
	p, after := Make(w, memory)
	w.Clusters = slices.Clone(w.Clusters)
	shuffle(w.Clusters)
	for i := range w.Clusters {
		w.Clusters[i].Exports = slices.Clone(w.Clusters[i].Exports)
		shuffle(w.Clusters[i].Exports)
	}
	q, afterToo := Make(w, memory)
	if !reflect.DeepEqual(p, q) || !reflect.DeepEqual(after, afterToo) {
		t.Fatalf("in another order, the plan is\n%+v\nwant\n%+v", q, p)
	}
}

func shuffle[T any](all []T) {
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}
