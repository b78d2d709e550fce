package page

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/apisim"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/gateway"
	"isthmus/e2e/object"
	"isthmus/e2e/poll"
	"isthmus/e2e/proxy"
)

// TestLarge has many clusters and services, looks at the page's data, and prints what viewers cost the gateway. With
// -long there are 250 clusters and 10,000 services, else fewer.
func TestLarge(t *testing.T) {
	clusters, services, watch := 12, 400, 5*time.Second
	if *long {
		clusters, services, watch = 250, 10_000, 20*time.Second
	}
	g := newLarge(t, clusters, services)
	origin := "http://" + g.MetricsAddr()
	var page struct {
		Services struct {
			Rows []struct {
				Row struct {
					Name    string
					Members []struct{ Endpoints int }
				}
			}
			All, Matching, Pages int
		}
		Clusters struct {
			Rows []any
			All  int
		}
	}
	ask(t, origin+"/page/data?services.q=web-00007&clusters.sort=name", &page)
	if page.Services.All != services || page.Services.Matching != 1 || page.Services.Rows[0].Row.Members[0].Endpoints != 1 || page.Clusters.All != clusters+1 || len(page.Clusters.Rows) > 50 {
		t.Fatalf("%+v", page)
	}
	size := ask(t, origin+"/page/data", &page)
	if size > 100<<10 || len(page.Services.Rows) != 50 {
		t.Errorf("%d bytes with %d services", size, len(page.Services.Rows))
	}
	t.Logf("%d clusters, %d services: a page has %d bytes; without viewer %v", clusters, services, size, costOf(t, g, watch))
	var events atomic.Int64
	for n := range 20 {
		watchLive(t, origin, &events)
		if n == 0 || n == 19 {
			t.Logf("%d viewers: %v", n+1, costOf(t, g, watch))
		}
	}
	if events.Load() < 20 {
		t.Errorf("20 viewers got %d events", events.Load())
	}
	answer, err := http.Get(origin + "/page/live")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one viewer more: %s", answer.Status)
	}
}

// newLarge starts a gateway of as many services as that, each in two of the clusters, and watches 5,000 of them at most.
func newLarge(t *testing.T, clusters, services int) *gateway.Gateway {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	authority, err := apisim.NewAuthority()
	must(err)
	start := func(name string) *apisim.Server {
		s, err := apisim.Start(name, authority)
		must(err)
		t.Cleanup(func() { must(s.Close()) })
		s.Admit("gateway")
		return s
	}
	west, names, remote := start("west"), make([]string, clusters), make([]*apisim.Server, clusters)
	for i := range clusters {
		names[i] = fmt.Sprintf("c%03d", i)
		remote[i] = start(names[i])
		kubeconfig, err := remote[i].Kubeconfig(remote[i].Addr(), "gateway")
		must(err)
		must(west.Put(object.Link(names[i], kubeconfig)))
	}
	for i := range services {
		namespace, name := fmt.Sprint("ns-", i%100), fmt.Sprintf("web-%05d", i)
		service := object.Service(namespace, name+"-federated")
		service.Annotations = map[string]string{"multicluster.linkerd.io/remote-discovery": fmt.Sprintf("%s@%s,%s@%s", name, names[i%clusters], name, names[(i+1)%clusters])}
		must(west.Put(service))
		for _, at := range []int{i % clusters, (i + 1) % clusters} {
			for _, o := range []runtime.Object{object.Service(namespace, name), object.Slice(namespace, name, "1", object.Endpoint(fmt.Sprintf("10.%d.%d.%d", at, i>>8, i&255)))} {
				must(remote[at].Put(o))
			}
		}
	}
	kubeconfig, err := west.Kubeconfig(west.Addr(), "gateway")
	must(err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(os.WriteFile(path, kubeconfig, 0o600))
	g, err := gateway.Start(t.Context(), gateway.Config{Kubeconfig: path, Args: []string{"-shutdown-delay=0s", "-drain=0s"}})
	must(err)
	t.Cleanup(func() { must(g.Stop()) })
	conn, err := proxy.Dial(g.Addr())
	must(err)
	t.Cleanup(func() { must(conn.Close()) })
	for i := range min(services, 5000) { // a connection may have 10,000
		s := proxy.NewStream(proxy.Config{Conn: conn, Kind: proxy.Get, Authority: fmt.Sprintf("web-%05d-federated.ns-%d.svc.cluster.local:80", i, i%100)})
		t.Cleanup(s.Close)
		must(s.Open(context.Background()))
	}
	must(poll.Until(t.Context(), 2*time.Minute, 500*time.Millisecond, func() error {
		var page struct {
			Summary struct{ Clusters map[string]int }
		}
		ask(t, "http://"+g.MetricsAddr()+"/page/data", &page)
		if page.Summary.Clusters["ready"] != clusters+1 {
			return fmt.Errorf("clusters: %v", page.Summary.Clusters)
		}
		return nil
	}))
	return g
}

// ask reads the page's data, and returns its size.
func ask(t *testing.T, url string, into any) int {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v: %s %.200s", err, answer.Status, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// watchLive is a viewer until the test ends.
func watchLive(t *testing.T, origin string, events *atomic.Int64) {
	t.Helper()
	answer, err := http.Get(origin + "/page/live")
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	done := make(chan struct{})
	t.Cleanup(func() { answer.Body.Close(); <-done })
	go func() {
		defer close(done)
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "event: ") {
				events.Add(1)
			}
		}
	}()
}

// costOf is the processor time that the gateway takes meanwhile, in percent of a core, and its memory.
func costOf(t *testing.T, g *gateway.Gateway, during time.Duration) string {
	t.Helper()
	before, err := proc.CPU(g.Pid())
	if err != nil {
		t.Fatal(err)
	}
	if err := poll.Pause(t.Context(), during); err != nil {
		t.Fatal(err)
	}
	after, err := proc.CPU(g.Pid())
	if err != nil {
		t.Fatal(err)
	}
	memory, err := proc.ReadMemory(g.Pid())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%.1f%% of a core, %d MB", 100*(after-before).Seconds()/during.Seconds(), memory.RSS>>20)
}
