package client

import (
	"reflect"
	"strings"
	"testing"

	"isthmus/internal/adminapi"
)

// TestDifferences: what a gateway lacks, has beyond the other, or has otherwise.
func TestDifferences(t *testing.T) {
	clusters := func(east string) *adminapi.Clusters {
		p := &adminapi.Clusters{Local: adminapi.Cluster{ClusterStatus: adminapi.ClusterStatus{State: "ready", Standing: "in-service"}}}
		if east != "" {
			p.Clusters = []adminapi.Cluster{{Cluster: "east", ClusterStatus: adminapi.ClusterStatus{State: adminapi.ClusterState(east), Standing: "in-service"}}}
		}
		return p
	}
	services := func(list ...adminapi.Service) *servicesState { return &servicesState{services: list} }
	web := func(port uint16, endpoints int, members ...string) adminapi.Service {
		e := adminapi.Service{Service: "shop/web", Federated: true, Ports: []adminapi.Port{{Port: port, Members: []adminapi.PortMember{{Cluster: "east", Endpoints: endpoints}}}}}
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
		{"another state", clusterFacts(clusters("ready")), clusterFacts(clusters("stale")), "cluster east: stale in-service, and not ready in-service"},
		{"missing", clusterFacts(clusters("ready")), clusterFacts(clusters("")), "cluster east is not there"},
		{"more", clusterFacts(clusters("")), clusterFacts(clusters("ready")), "cluster east is there only: ready in-service"},
		{"fewer members", services(web(80, 3, "east", "local")).facts(), services(web(80, 3, "local")).facts(), "shop/web: of local, and not of east, local"},
		{"the order of members", services(web(80, 3, "east", "local")).facts(), services(web(80, 3, "local", "east")).facts(), ""},
		{"endpoints", services(web(80, 3)).facts(), services(web(80, 2)).facts(), "shop/web port 80: east 2, and not east 3"},
		{"another port is watched", services(web(80, 3)).facts(), services(web(81, 2)).facts(), ""},
		{"only one has proxies of a plain service", services(plain).facts(), services().facts(), ""},
		{"no federated service", services(web(80, 3, "east")).facts(), services().facts(), "shop/web is not there"},
	} {
		if got := strings.Join(c.here.differences(c.there), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCompared(t *testing.T) {
	for _, c := range []struct {
		others  []adminapi.OtherGateway
		summary string
		lines   []string
	}{
		{nil, "", nil},
		{[]adminapi.OtherGateway{{Gateway: "a/1"}}, "; 2 gateways agree", nil},
		{[]adminapi.OtherGateway{{Gateway: "a/1"}, {Gateway: "a/2", Differences: []string{"x", "y"}}, {Gateway: "a/3", Error: "late"}}, "; 4 gateways differ",
			[]string{"a/2: x", "a/2: y", "a/3 can't be asked: late"}},
	} {
		if summary, lines := compared(c.others); summary != c.summary || !reflect.DeepEqual(lines, c.lines) {
			t.Errorf("%+v: %q, %q", c.others, summary, lines)
		}
	}
}

// TestWithoutKubeconfig: a verb that has neither an address nor a cluster says what to give.
func TestWithoutKubeconfig(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	for verb, flag := range map[string]string{"clusters": "--admin", "services": "--admin", "get web:80": "--addr", "profile web:80": "--addr"} {
		code, out, err := call(strings.Fields(verb)...)
		if code != 1 || out != "" || !strings.Contains(err, "no cluster to look in: there is neither $KUBECONFIG nor ~/.kube/config\n  Name a file by --kubeconfig, or go straight to a gateway by "+flag+"\n") {
			t.Errorf("%s: exit code %d, %q, %q", verb, code, out, err)
		}
	}
	for args, want := range map[string]string{
		"clusters --admin a:1 --pod x":        "isthmus clusters: --admin goes straight to a gateway, --pod looks for it: give one of them",
		"get web:80 --addr a:1 --context x":   "isthmus get: --addr goes straight to a gateway, --context looks for it: give one of them",
		"services --admin a:1 --kubeconfig x": "isthmus services: --admin goes straight to a gateway, --kubeconfig looks for it: give one of them",
	} {
		if code, _, err := call(strings.Fields(args)...); code != 2 || !strings.HasPrefix(err, want) {
			t.Errorf("%s: exit code %d, %q", args, code, err)
		}
	}
}
