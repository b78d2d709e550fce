package e2e

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// restricted returns a namespace that enforces the Pod security standard restricted.
func restricted(name string) *corev1.Namespace {
	ns := kube.Namespace(name)
	ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	return ns
}

// podOf is the first container of a Deployment's Pod.
func podOf(d *appsv1.Deployment, name string) containerConfig {
	return containerConfig{Template: d.Spec.Template, Namespace: d.Namespace, Name: name, Container: d.Spec.Template.Spec.Containers[0].Name}
}

// startPod runs a Pod's container until the test ends.
func startPod(t *testing.T, server *harness.Cluster, c *kube.Client, cfg containerConfig) *harness.Replica {
	t.Helper()
	binary, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	cfg.Client, cfg.CA, cfg.Binary, cfg.Dir = c, server.REST().CAData, binary, t.TempDir()
	p, err := newContainer(t.Context(), cfg)
	must(t, err)
	atEnd(t, p.Close)
	g := startGateway(t, harness.ReplicaConfig{Container: p.Harness()})
	atEnd(t, func() error { return g.Signal(syscall.SIGKILL) }) // by SIGTERM, it would serve for its whole grace
	return g
}

// linkTo links a cluster by link.yaml, with its placeholders filled in: by the account of manifests/link.
func linkTo(t *testing.T, from, to *kube.Client, server *harness.Cluster) {
	t.Helper()
	applyManifest(t, from, "link.yaml",
		"https://east.example.com:6443", to.Server(),
		"<the cluster's CA certificate, base64>", base64.StdEncoding.EncodeToString(server.REST().CAData),
		"<data.token of Secret isthmus-remote-access-token in east>", secretToken(t, to, "linkerd-multicluster", "isthmus-remote-access-token"))
}

// offerShop writes Service shop/web with one endpoint.
func offerShop(t *testing.T, c *kube.Client, ip string) {
	t.Helper()
	must(t, c.Apply(t.Context(), kube.Namespace("shop"), kube.ServiceAccount("shop", "web"), kube.Service("shop", "web"),
		kube.Pod("shop", "web-0", "web"), kube.Slice("shop", "web", "1", kube.PodEndpoint(ip, "shop", "web-0"))))
}

// openShop opens a proxy's stream of shop/web-federated.
func openShop(t *testing.T, g *harness.Replica) *proxy.Stream {
	t.Helper()
	conn, err := proxy.Dial(g.Addr())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	s := proxy.NewStream(proxy.Config{Conn: conn, MayBeLate: true, Kind: proxy.Get, Authority: kube.Authority("shop", "web-federated"), Token: `{"ns":"shop"}`})
	t.Cleanup(s.Close)
	must(t, s.Open(t.Context()))
	return s
}

// awaitShop waits until a stream has the endpoints of these Pods, and no others.
func awaitShop(t *testing.T, s *proxy.Stream, ips ...string) {
	t.Helper()
	var want []netip.AddrPort
	for _, ip := range ips {
		want = append(want, netip.AddrPortFrom(netip.MustParseAddr(ip), kube.Port))
	}
	await(t, "the proxy has the endpoints", func() error {
		if got := s.Snapshot().Get.Addrs(); !slices.Equal(got, want) {
			return fmt.Errorf("it has %v, not %v", got, want)
		}
		return nil
	})
}

// checkSliceWriter: the gateway leads, under its Pod's name, and writes an EndpointSlice for an ExternalWorkload.
func checkSliceWriter(t *testing.T, c *kube.Client, g *harness.Replica, name string) {
	must(t, c.ApplyYAML(t.Context(), `{apiVersion: v1, kind: Service, metadata: {name: vms, namespace: shop}, spec: {selector: {app: vm}, ports: [{port: 80, targetPort: 8080}]}}
---
apiVersion: workload.linkerd.io/v1beta1
kind: ExternalWorkload
metadata: {name: vm-1, namespace: shop, labels: {app: vm}}
spec: {meshTLS: {identity: spiffe://root/vm-1, serverName: vm-1}, ports: [{port: 8080}], workloadIPs: [{ip: 10.80.3.1}]}
`))
	await(t, "an EndpointSlice is written", func() error {
		page, err := harness.ReadClusters(t.Context(), g.MetricsAddr())
		if err == nil && (page.Writer == nil || page.Writer.Slices != 1 || !page.Writer.Leading || page.Writer.Holder != name) {
			err = fmt.Errorf("the writer's status is %+v", page.Writer)
		}
		return err
	})
}

// gatewayHelp is the help of isthmus gateway.
func gatewayHelp(t *testing.T) string {
	t.Helper()
	isthmus, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	text, err := exec.CommandContext(t.Context(), isthmus, "gateway", "--help").Output()
	must(t, err)
	return string(text)
}
