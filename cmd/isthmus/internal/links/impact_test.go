package links

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

const impactClusters = `{"local":{"standing":"in-service","region":"eu"},"clusters":[
 {"cluster":"east","standing":"in-service","region":"eu"},{"cluster":"north","standing":"in-service","region":"us"},{"cluster":"north","secret":"second"},
 {"cluster":"gone","standing":"withdrawn"}]}`

// TestImpact: what services have without cluster east.
func TestImpact(t *testing.T) {
	for _, c := range []struct{ service, want string }{
		{port("", "local 2", "east 3"), "s port 80: 2 of 5 endpoints (now local 2, east 3, 4 streams)"},
		{port("", "local 0", "east 3"), "s port 80: NOTHING (now local 0, east 3, 4 streams)"},
		{port("", "local 0", "east 0"), "s port 80: 0 of 0 endpoints (now local 0, east 0, 4 streams)"},
		{port("", "gone 2", "east 3"), "s port 80: NOTHING (now gone 2, east 3, 4 streams)"},
		{port("", "unlinked 2", "east 3"), "s port 80: NOTHING (now unlinked 2, east 3, 4 streams)"},
		{port("east", "local 2", "east 3"), "s port 80: NOTHING (now local 2, east 3, 4 streams)"},
		{port("east, north", "local 2", "east 3", "north 1"), "s port 80: 1 of 4 endpoints (now local 2, east 3, north 1, 4 streams)"},
		{port("east, cluster/north", "east 3", "north 1"), "s port 80: 1 of 4 endpoints (now east 3, north 1, 4 streams)"},
		{port("zone", "local 2", "east 3"), "s port 80: NOTHING (now local 2, east 3, 4 streams)"},
		{port("zone, local", "local 2", "east 3"), "s port 80: 2 of 5 endpoints (now local 2, east 3, 4 streams)"},
		{port("zone+remote", "local 2", "east 3", "north 1"), "s port 80: 1 of 4 endpoints (now local 2, east 3, north 1, 4 streams)"},
		{port("region", "local 2", "east 3", "north 1"), "s port 80: 2 of 5 endpoints (now local 2, east 3, north 1, 4 streams)"},
		{port("east, any", "local 2", "east 3"), "s port 80: 2 of 5 endpoints (now local 2, east 3, 4 streams)"},
		{`{"service":"s","members":[{"cluster":"east"}]}`, "s: NOTHING (now east, without streams)"},
		{`{"service":"s","members":[{"cluster":"east"},{"cluster":"north","reason":"no such Service"}]}`, "s: NOTHING (now east, north, without streams)"},
		{`{"service":"s","members":[{"cluster":"east"},{"cluster":"north"}]}`, "s: served by 1 other cluster (now east, north, without streams)"},
		{`{"service":"s","members":[{"cluster":"north"}]}`, ""},
	} {
		if list := impactsOf(t, c.service); strings.Join(list, ";") != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.service, list, c.want)
		}
	}
	if list := impactsOf(t, port("", "local 2", "east 3")+","+strings.ReplaceAll(port("", "east 3"), `"s"`, `"other"`)); len(list) != 2 || !strings.Contains(list[0], "NOTHING") {
		t.Errorf("%q", list)
	}
}

// port returns a service with a port that its members offer so many endpoints to.
func port(prefer string, members ...string) string {
	var names, offers []string
	for _, m := range members {
		cluster, n, _ := strings.Cut(m, " ")
		names = append(names, `{"cluster":"`+cluster+`"}`)
		offers = append(offers, `{"cluster":"`+cluster+`","endpoints":`+n+`}`)
	}
	preference := ""
	if prefer != "" {
		preference = `"preference":{"prefer":"` + prefer + `"},`
	}
	return `{"service":"s","streams":4,` + preference + `"members":[` + strings.Join(names, ",") + `],"ports":[{"port":80,"members":[` + strings.Join(offers, ",") + `]}]}`
}

// impactsOf returns what becomes of services without cluster east, of each gateway those that it shows.
func impactsOf(t *testing.T, gateways ...string) (list []string) {
	t.Helper()
	worlds := make([]world, len(gateways))
	for i, services := range gateways {
		w := &worlds[i]
		for text, into := range map[string]any{impactClusters: &w.clusters, "[" + services + "]": &w.services} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, i := range impacts(worlds, "east") {
		list = append(list, i.text(false))
	}
	return list
}

// TestImpactOfReplicas: what the proxies of any replica follow counts, and the least that one shows.
func TestImpactOfReplicas(t *testing.T) {
	const unwatched = `{"service":"s","members":[{"cluster":"east"},{"cluster":"north"}]}`
	other := strings.ReplaceAll(port("", "local 0", "east 1"), `"s"`, `"other"`)
	for _, c := range []struct {
		gateways []string
		want     string
	}{
		{[]string{port("", "local 2", "east 3"), port("", "local 2", "east 3")}, "s port 80: 2 of 5 endpoints (now local 2, east 3, 8 streams)"},
		{[]string{port("", "local 2", "east 3"), port("", "local 1", "east 3")}, "s port 80: 1 of 4 endpoints (now local 1, east 3, 8 streams)"},
		{[]string{port("", "local 0", "east 3"), port("", "local 0", "east 0")}, "s port 80: NOTHING (now local 0, east 3, 8 streams)"},
		{[]string{port("", "local 0", "east 0"), port("", "local 0", "east 3")}, "s port 80: NOTHING (now local 0, east 3, 8 streams)"},
		{[]string{unwatched, port("", "local 2", "east 3")}, "s port 80: 2 of 5 endpoints (now local 2, east 3, 4 streams)"},
		{[]string{unwatched, unwatched}, "s: served by 1 other cluster (now east, north, without streams)"},
		{[]string{port("", "local 2", "east 3"), other}, "other port 80: NOTHING (now local 0, east 1, 4 streams);s port 80: 2 of 5 endpoints (now local 2, east 3, 4 streams)"},
		{nil, ""},
	} {
		if list := impactsOf(t, c.gateways...); strings.Join(list, ";") != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.gateways, list, c.want)
		}
	}
}

// FuzzImpact: whatever the pages of a gateway have, nothing reaches the terminal that it would obey.
func FuzzImpact(f *testing.F) {
	f.Add(impactClusters, "["+port("east, any", "local 2", "east 3")+"]")
	f.Add(strings.ReplaceAll(impactClusters, "north", `\u001b[2J`), "["+strings.ReplaceAll(port("", "local 2", "east 3", "x 1"), `"s"`, `"\u009b\u202e\n"`)+"]")
	f.Fuzz(func(t *testing.T, clusters, services string) {
		var w world
		if json.Unmarshal([]byte(clusters), &w.clusters) != nil || json.Unmarshal([]byte(services), &w.services) != nil {
			return
		}
		for _, i := range impacts([]world{w, w}, "east") {
			for _, r := range i.text(false) + i.text(true) {
				if !unicode.IsPrint(r) {
					t.Fatalf("%q in %q", r, i.text(false))
				}
			}
		}
		for _, c := range w.clusters.Clusters {
			if strings.ContainsFunc(describeCluster(&c), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%q", describeCluster(&c))
			}
		}
	})
}
