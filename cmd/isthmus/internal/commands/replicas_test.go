package commands

import (
	"reflect"
	"strings"
	"testing"

	"isthmus/internal/adminapi"
)

// TestDifferences checks the texts for facts that a replica lacks, has in addition, or has with
// another value.
func TestDifferences(t *testing.T) {
	clusters := func(east string) *adminapi.Clusters {
		p := &adminapi.Clusters{Local: adminapi.Cluster{ClusterStatus: adminapi.ClusterStatus{State: "ready",
			Standing: "in-service"}}}
		if east != "" {
			p.Clusters = []adminapi.Cluster{{Cluster: "east",
				ClusterStatus: adminapi.ClusterStatus{State: adminapi.ClusterState(east), Standing: "in-service"}}}
		}
		return p
	}
	services := func(list ...adminapi.Service) facts { return serviceFacts(list) }
	web := func(port uint16, endpoints int, members ...string) adminapi.Service {
		e := adminapi.Service{Service: "shop/web", Federated: true,
			Ports: []adminapi.Port{{Port: port,
				Members: []adminapi.PortMember{{Cluster: "east", Endpoints: endpoints}}}}}
		for _, m := range members {
			e.Members = append(e.Members, adminapi.Member{Cluster: m})
		}
		return e
	}
	plain := adminapi.Service{Service: "shop/plain", Members: []adminapi.Member{{Cluster: "local"}}}
	for _, c := range []struct {
		name        string
		here, there facts
		want        string
	}{
		{"alike", clusterFacts(clusters("ready")), clusterFacts(clusters("ready")), ""},
		{"another state", clusterFacts(clusters("ready")), clusterFacts(clusters("stale")),
			"cluster east: stale in-service, and not ready in-service"},
		{"missing", clusterFacts(clusters("ready")), clusterFacts(clusters("")), "cluster east is not there"},
		{"more", clusterFacts(clusters("")), clusterFacts(clusters("ready")),
			"cluster east is there only: ready in-service"},
		{"fewer members", services(web(80, 3, "east", "local")), services(web(80, 3, "local")),
			"shop/web: of local, and not of east, local"},
		{"the order of members", services(web(80, 3, "east", "local")), services(web(80, 3, "local", "east")), ""},
		{"endpoints", services(web(80, 3)), services(web(80, 2)), "shop/web port 80: east 2, and not east 3"},
		{"another port is watched", services(web(80, 3)), services(web(81, 2)), ""},
		{"only one has proxies of a plain service", services(plain), services(), ""},
		{"no federated service", services(web(80, 3, "east")), services(), "shop/web is not there"},
	} {
		if got := strings.Join(c.here.differences(c.there), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCompared(t *testing.T) {
	for _, c := range []struct {
		others  []adminapi.OtherReplica
		summary string
		lines   []string
	}{
		{nil, "", nil},
		{[]adminapi.OtherReplica{{Gateway: "a/1"}}, "; 2 replicas agree", nil},
		{[]adminapi.OtherReplica{{Gateway: "a/1"}, {Gateway: "a/2", Differences: []string{"x", "y"}},
			{Gateway: "a/3", Error: "late"}}, "; 4 replicas differ",
			[]string{"a/2: x", "a/2: y", "a/3 cannot be queried: late"}},
	} {
		if summary, lines := compared(c.others, ""); summary != c.summary || !reflect.DeepEqual(lines, c.lines) {
			t.Errorf("%+v: %q, %q", c.others, summary, lines)
		}
	}
}
