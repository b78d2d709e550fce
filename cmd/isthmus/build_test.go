package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"isthmus/federation"
)

// kubeconfig writes one for an API server at addr.
func kubeconfig(t *testing.T, addr string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"http://` + addr + `"}}],
		"users":[{"name":"u","user":{"token":"t"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestProcessFails: what keeps a gateway from starting is told in one line.
func TestProcessFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	config := kubeconfig(t, freeAddr(t))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--kubeconfig=/does/not/exist"}, "isthmus gateway: --kubeconfig: stat /does/not/exist: no such file"},
		{nil, "isthmus gateway: no cluster to run in: this is no Pod, and there is neither"},
		{[]string{"--kubeconfig", config, "--metrics-addr", l.Addr().String()}, "isthmus gateway: --metrics-addr: listen tcp "},
		{[]string{"--kubeconfig", config, "--metrics-addr=127.0.0.1:0", "--addr", l.Addr().String()}, "isthmus gateway: --addr: listen tcp "},
	} {
		code, out, err := call(append([]string{"gateway", "--log-level=fatal"}, c.args...)...)
		if code != 1 || out != "" || !strings.HasPrefix(err, c.want) || strings.Count(err, "\n") != 1 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", c.args, code, out, err)
		}
	}
}

// TestReportMemberApart: a cluster whose members come and go silences no other one,
// and names that nobody has linked have one allowance together.
func TestReportMemberApart(t *testing.T) {
	core, seen := observer.New(zap.InfoLevel)
	report := reportMember(zap.New(newLimited(core)))
	id := federation.ServiceID{Namespace: "shop", Name: "web-federated"}
	for i := range 1000 {
		for cluster, link := range map[string]federation.LinkState{"east": federation.Ready, "north": federation.Pending, fmt.Sprint("no-such-", i): federation.Unlinked} {
			report(id, federation.Member{Cluster: federation.ClusterName(cluster), Service: id}, federation.MemberStatus{Link: link})
		}
	}
	lines := make(map[string]int)
	for _, e := range seen.All() {
		cluster, _ := e.ContextMap()["cluster"].(string)
		lines[strings.TrimRight(cluster, "0123456789")]++
	}
	for _, who := range []string{"east", "north", "no-such-"} {
		if n := lines[who]; n < limitBurst || n > limitBurst+10 { // one more each second
			t.Errorf("%d lines about %s", n, who)
		}
	}
}

func TestReportMember(t *testing.T) {
	core, seen := observer.New(zap.InfoLevel)
	report := reportMember(zap.New(core))
	id := federation.ServiceID{Namespace: "shop", Name: "web-federated"}
	m := federation.Member{Cluster: "east", Service: federation.ServiceID{Namespace: "shop", Name: "web"}}
	report(id, m, federation.MemberStatus{Link: federation.Ready, Service: federation.Missing})
	report(id, m, federation.MemberStatus{Link: federation.Ready, Service: federation.Present})
	var got []string
	for _, e := range seen.All() {
		f := e.ContextMap()
		if f["service"] != "shop/web-federated" || f["cluster"] != "east" || f["member"] != "shop/web" {
			t.Errorf("fields %v", f)
		}
		reason, _ := f["reason"].(string)
		got = append(got, e.Message+" "+reason)
	}
	if want := []string{"member of a service does not serve no such Service in the cluster", "member of a service serves again "}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
