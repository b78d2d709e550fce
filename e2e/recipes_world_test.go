package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// recipeAnnotations are those that the service mirror copies here.
var recipeAnnotations = map[string]bool{
	"isthmus.io/prefer": true, "isthmus.io/min-ready": true, "isthmus.io/return-after": true, "isthmus.io/return-over": true,
	"isthmus.io/cordon": true, "isthmus.io/when-lost": true, "isthmus.io/lost-after": true, "isthmus.io/region": true,
}

// near is three clusters with Service web in common, and a proxy in west.
type near struct {
	servers map[string]*harness.Cluster
	clients map[string]*kube.Client
	gateway *harness.Replica
	stream  *proxy.Stream // of web-federated, from zone eu-west-1a
	pods    map[string][]netip.AddrPort
	had     []netip.AddrPort // what the proxy had when it was looked at last
}

// nearZones are the zones of each cluster's Pods.
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

// newNearClusters starts the clusters, without links, federated Service and gateway.
func newNearClusters(t *testing.T, controllers []string, names ...string) *near {
	t.Helper()
	ctx := t.Context()
	w := &near{servers: map[string]*harness.Cluster{}, clients: map[string]*kube.Client{}, pods: map[string][]netip.AddrPort{}}
	for i, c := range startClusters(t, controllers, names...) {
		name, k := c.Name(), client(t, c)
		w.servers[name], w.clients[name] = c, k
		must(t, k.Apply(ctx, kube.Namespace("shop"), kube.Service("shop", "web"), kube.ServiceAccount("shop", "web")))
		for j := range nearZones[name] {
			w.pods[name] = append(w.pods[name], netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i + 1), 0, byte(j + 1)}), kube.Port))
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

// start runs the gateway, and opens the proxy's stream.
func (w *near) start(t *testing.T) {
	t.Helper()
	w.gateway = startGateway(t, harness.ReplicaConfig{Kubeconfig: w.servers["west"].Kubeconfig(), Args: []string{"-shutdown-delay=0s", "-drain=0s"}})
	w.subscribe(t)
}

// subscribe opens the proxy's stream.
func (w *near) subscribe(t *testing.T) {
	t.Helper()
	conn, err := proxy.Dial(w.gateway.Addr())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	w.stream = proxy.NewStream(proxy.Config{Conn: conn, MayBeLate: true, Kind: proxy.Get, Authority: kube.Authority("shop", "web-federated"),
		Token: `{"ns":"shop","nodeName":"node-1","pod":"client"}`})
	t.Cleanup(w.stream.Close)
	must(t, w.stream.Open(t.Context()))
	w.stream.Mark()
}

func nearPod(i int) string { return fmt.Sprintf("web-%d", i) }

// offer makes these Pods of a cluster ready, and the others not.
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

// mirror gives web-federated the annotations of web, as Linkerd's service mirror does.
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
