package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// recipeAnnotations contains the annotations that the service mirror copies in these tests.
var recipeAnnotations = map[string]bool{
	"isthmus.io/prefer":       true,
	"isthmus.io/min-ready":    true,
	"isthmus.io/return-after": true,
	"isthmus.io/return-over":  true,
	"isthmus.io/cordon":       true,
	"isthmus.io/when-lost":    true,
	"isthmus.io/lost-after":   true,
	"isthmus.io/region":       true,
}

// near consists of three clusters with the common Service web, and a proxy in west.
type near struct {
	servers map[string]*harness.Cluster
	clients map[string]*kube.Client
	gateway *harness.Replica
	stream  *proxy.Stream // stream for web-federated from zone eu-west-1a
	pods    map[string][]netip.AddrPort
	had     []netip.AddrPort // addresses of the proxy at the last check
}

// nearZones contains the zones of each cluster's Pods.
var nearZones = map[string][]string{
	"west":  {"eu-west-1a", "eu-west-1a", "eu-west-1b", "eu-west-1b"},
	"east":  {"eu-west-2a", "eu-west-2a"},
	"north": {"us-east-1a", "us-east-1a"},
}

func newNear(t *testing.T) *near {
	t.Helper()
	ctx := t.Context()
	w := newNearClusters(t, []string{"namespace", "serviceaccount"}, "west", "east", "north")
	west := w.clients["west"]
	for _, remote := range []string{"east", "north"} {
		kubeconfig, err := os.ReadFile(w.servers[remote].Kubeconfig())
		must(t, err)
		must(t, west.Apply(ctx, kube.Link(remote, kubeconfig)))
	}
	must(t, west.Apply(ctx, kube.Federated("shop", "web-federated", "web", "web@east", "web@north")))
	w.start(t)
	return w
}

// newNearClusters starts the clusters without links, federated Service and replica.
func newNearClusters(t *testing.T, controllers []string, names ...string) *near {
	t.Helper()
	ctx := t.Context()
	w := &near{
		servers: map[string]*harness.Cluster{},
		clients: map[string]*kube.Client{},
		pods:    map[string][]netip.AddrPort{},
	}
	for i, c := range startClusters(t, controllers, names...) {
		name, k := c.Name(), client(t, c)
		w.servers[name], w.clients[name] = c, k
		must(t, k.Apply(ctx, kube.Namespace("shop"), kube.Service("shop", "web"), kube.ServiceAccount("shop", "web")))
		for j := range nearZones[name] {
			w.pods[name] = append(
				w.pods[name],
				netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i + 1), 0, byte(j + 1)}), kube.Port),
			)
			must(t, k.Apply(ctx, kube.Pod("shop", nearPod(j), "web")))
		}
		w.offer(t, name, w.pods[name]...)
	}
	west := w.clients["west"]
	node := kube.Node("node-1", "eu-west-1a")
	node.Labels["topology.kubernetes.io/region"] = "eu-west"
	must(t, west.Apply(ctx, node, kube.Namespace(kube.LinkNamespace)))
	return w
}

func (w *near) start(t *testing.T) {
	t.Helper()
	w.gateway = startGateway(t, harness.ReplicaConfig{
		Kubeconfig: w.servers["west"].Kubeconfig(),
		Args:       []string{"-shutdown-delay=0s", "-drain=0s"},
	})
	w.subscribe(t)
}

func (w *near) subscribe(t *testing.T) {
	t.Helper()
	conn, err := proxy.Dial(w.gateway.Addr())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	w.stream = proxy.NewStream(
		proxy.Config{Conn: conn, MayBeLate: true, Kind: proxy.Get, Authority: kube.Authority("shop", "web-federated"),
			Token: `{"ns":"shop","nodeName":"node-1","pod":"client"}`},
	)
	t.Cleanup(w.stream.Close)
	must(t, w.stream.Open(t.Context()))
	w.stream.Mark()
}

func nearPod(i int) string { return fmt.Sprintf("web-%d", i) }

func (w *near) offer(t *testing.T, where string, ready ...netip.AddrPort) {
	t.Helper()
	slice := kube.Slice("shop", "web", "1")
	for i, zone := range nearZones[where] {
		e := kube.PodEndpoint(w.pods[where][i].Addr().String(), "shop", nearPod(i))
		e.Zone = &zone
		if !slices.Contains(ready, w.pods[where][i]) {
			e.Conditions.Ready, e.Conditions.Serving = new(false), new(false)
		}
		slice.Endpoints = append(slice.Endpoints, e)
	}
	must(t, w.clients[where].Apply(t.Context(), slice))
}

// mirror copies the annotations from web to web-federated, as Linkerd's service mirror does.
func (w *near) mirror(t *testing.T) {
	t.Helper()
	services := w.clients["west"].CoreV1().Services("shop")
	web, err := services.Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	values := map[string]*string{}
	for name := range recipeAnnotations {
		values[name] = nil
		if value, there := web.Annotations[name]; there {
			values[name] = &value
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	must(t, err)
	_, err = services.Patch(t.Context(), "web-federated", types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}

// readRecipes returns the blocks of commands in the README's section. It checks the number of
// blocks and of commands in each.
func readRecipes(t *testing.T, commands ...int) [][]string {
	t.Helper()
	recipes := readCommands(t, "Prefer near clusters")
	if len(recipes) != len(commands) {
		t.Fatalf("README.md has %d recipes, not %d", len(recipes), len(commands))
	}
	for i, list := range recipes {
		if len(list) != commands[i] {
			t.Fatalf("recipe %d has %d commands, not %d: %q", i+1, len(list), commands[i], list)
		}
	}
	return recipes
}

// TestRecipes runs the recipes from README.md unchanged, and checks the proxy's endpoints before
// and after each command. If a recipe takes long, the test first checks that nothing happens
// immediately, and then shortens the recipe's durations.
func TestRecipes(t *testing.T) {
	t.Parallel()
	recipes := readRecipes(t, 1, 2, 4)
	w := newNear(t)
	all := slices.Concat(w.pods["west"], w.pods["east"], w.pods["north"])
	westA, westB := w.pods["west"][:2], w.pods["west"][2:]
	others := slices.Concat(westA, westB, w.pods["north"])

	t.Run("local cluster", func(t *testing.T) {
		w.expect(t, "without preference", all)
		w.run(t, recipes[0][0])
		w.stays(t, "within return-after", all)
		w.shorten(t, "service web -n shop isthmus.io/return-after=1s isthmus.io/return-over=1s")
		w.expect(t, "the local cluster has enough endpoints", w.pods["west"])
		w.offer(t, "west", westA...)
		w.expect(t, "half of the local Pods are ready", westA)
		before := w.stream.Snapshot().Messages
		w.offer(t, "west", westA[0])
		w.expect(t, "less than half of the local Pods are ready", append(slices.Clone(all[4:]), westA[0]))
		w.cameTogether(t, before, all[4:])
		w.offer(t, "west", w.pods["west"]...)
		w.expect(t, "all local Pods are ready and return-after has passed", w.pods["west"])
	})
	t.Run("zone and region", func(t *testing.T) {
		w.reset(t, all)
		for _, command := range recipes[1] {
			w.run(t, command)
		}
		w.stays(t, "within return-after", all)
		w.shorten(t, "service web -n shop isthmus.io/return-after=0s")
		w.expect(t, "the client's zone has enough endpoints", westA)
		w.offer(t, "west", westB...)
		w.expect(t, "only the local cluster has enough endpoints", westB)
		w.offer(t, "west")
		w.expect(t, "only the region has enough endpoints", w.pods["east"])
		w.offer(t, "east")
		w.expect(t, "no near cluster has endpoints", w.pods["north"])
	})
	t.Run("one switch", func(t *testing.T) {
		w.reset(t, all)
		w.shorten(t, "service web -n shop isthmus.io/return-after=0s")
		must(t, w.servers["east"].Kill())
		w.expect(t, "east's API server is stopped", all)
		w.run(t, recipes[2][0])
		w.expect(t, "east is cordoned", others)
		w.run(t, recipes[2][1])
		w.stays(t, "east is a last resort and others have endpoints", others)
		w.offer(t, "north")
		w.offer(t, "west")
		w.expect(t, "only the last resort has endpoints", w.pods["east"])
		w.offer(t, "west", w.pods["west"]...)
		w.offer(t, "north", w.pods["north"]...)
		w.expect(t, "others have endpoints again", others)
		w.run(t, recipes[2][2])
		w.expect(t, "the cordon has ended", all)
		w.run(t, recipes[2][3])
		w.stays(t, "within lost-after", all)
		w.shorten(t, "secret cluster-credentials-east -n linkerd isthmus.io/lost-after=1s")
		w.expect(t, "east is lost", others)
		w.offer(t, "north")
		w.offer(t, "west")
		w.expect(t, "only the lost cluster has endpoints", w.pods["east"])
	})
	if log := w.gateway.Log(10_000); strings.Contains(log, "the annotation is ignored") {
		t.Errorf("the replica cannot read an annotation:\n%s", log)
	}
}

func (w *near) run(t *testing.T, command string) {
	t.Helper()
	mustShell(t, w.servers["west"], command)
	w.mirror(t)
}

// shorten overwrites annotations with kubectl annotate.
func (w *near) shorten(t *testing.T, what string) {
	t.Helper()
	w.run(t, "kubectl annotate --overwrite "+what)
}

// expect waits until the proxy has exactly these endpoints. The proxy must not lose any of them in
// the meantime if it had them before.
func (w *near) expect(t *testing.T, when string, want []netip.AddrPort) {
	t.Helper()
	want = slices.SortedFunc(slices.Values(want), netip.AddrPort.Compare)
	awaitState(
		t,
		w.stream,
		fmt.Sprintf("%v when %s", want, when),
		func(s proxy.Snapshot) bool { return slices.Equal(s.Get.Addrs(), want) },
	)
	kept := slices.DeleteFunc(slices.Clone(want), func(a netip.AddrPort) bool { return !slices.Contains(w.had, a) })
	if len(kept) > 0 {
		if err := w.stream.Flapped(kept...); err != nil {
			t.Errorf("when %s: %v", when, err)
		}
	}
	if s := w.stream.Snapshot(); len(s.Faults) > 0 {
		t.Errorf("when %s: %v", when, s.Faults)
	}
	w.had = want
	w.stream.Mark()
}

// stays checks for a while that the proxy has exactly these endpoints.
func (w *near) stays(t *testing.T, when string, want []netip.AddrPort) {
	t.Helper()
	w.expect(t, when, want)
	must(t, w.stream.Stays(t.Context(), 500*time.Millisecond, func() error {
		if got := w.stream.Snapshot().Get.Addrs(); !slices.Equal(got, w.had) {
			return fmt.Errorf("when %s: the proxy has %v, want %v", when, got, w.had)
		}
		return nil
	}))
}

// cameTogether checks that a single message after the given one contained all these endpoints.
func (w *near) cameTogether(t *testing.T, after int64, addrs []netip.AddrPort) {
	t.Helper()
	for _, m := range w.stream.Recent() {
		if m.Number > after && m.Kind == "add" &&
			!slices.ContainsFunc(addrs, func(a netip.AddrPort) bool { return !slices.Contains(m.Addrs, a) }) {
			return
		}
	}
	t.Errorf("%v did not arrive in one message: %v", addrs, w.stream.Recent())
}

// reset undoes the changes of the recipes and waits until the proxy has all endpoints.
func (w *near) reset(t *testing.T, all []netip.AddrPort) {
	t.Helper()
	for _, what := range []string{"service web -n shop", "secret cluster-credentials-east -n linkerd"} {
		command := "kubectl annotate " + what
		for _, name := range slices.Sorted(maps.Keys(recipeAnnotations)) {
			command += " " + name + "-"
		}
		w.run(t, command)
	}
	for where, pods := range w.pods {
		w.offer(t, where, pods...)
	}
	w.expect(t, "no recipe is applied", all)
}
