package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// TestGatewayNames changes the DNS names of a load balancer: one resolves to another address, one
// no longer resolves, and one resolves to an invalid address. Streams must follow the first name,
// keep the addresses of the other two, and always have an endpoint: NW-06, NW-16.
func TestGatewayNames(t *testing.T) {
	t.Parallel()
	w := newNearClusters(t, []string{"namespace", "serviceaccount"}, "west", "east")
	kubeconfig, err := os.ReadFile(w.servers["east"].Kubeconfig())
	must(t, err)
	link := kube.Link("east", kubeconfig)
	link.Annotations["isthmus.io/network"] = "far"
	must(t, w.clients["west"].Apply(t.Context(), link, kube.Federated("shop", "web-federated", "", "web@east")))
	w.balance(t, "moves.example", "ends.example", "spoils.example")
	names := hosts{
		"moves.example":  "192.0.2.1",
		"ends.example":   "192.0.2.2",
		"spoils.example": "192.0.2.3",
		"other.example":  "192.0.2.4",
	}
	file := w.startWithHosts(t, names)
	w.through(t, "the names are resolved", "192.0.2.1", "192.0.2.2", "192.0.2.3")
	w.warns(t, map[string]bool{"Linkerd gateway ends.example: ": false, "Linkerd gateway spoils.example: ": false})

	w.stream.Mark()
	names["moves.example"], names["spoils.example"] = "198.51.100.1", "127.0.0.1"
	delete(names, "ends.example")
	names.write(t, file)
	w.through(t, "a name has another address", "192.0.2.2", "192.0.2.3", "198.51.100.1")
	must(t, w.stream.Flapped(gatewayAt("192.0.2.2"), gatewayAt("192.0.2.3")))
	w.warns(t, map[string]bool{
		"Linkerd gateway ends.example: ":                                                true,
		"Linkerd gateway spoils.example: all of its addresses are loopback, link-local": true,
	})

	w.balance(t, "ends.example", "spoils.example", "other.example")
	w.through(t, "the load balancer has another name", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	must(t, w.stream.Flapped(gatewayAt("192.0.2.2"), gatewayAt("192.0.2.3")))
}

func (w *near) balance(t *testing.T, names ...string) {
	t.Helper()
	must(t, w.clients["east"].ApplyYAML(t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata:
  name: gateway
  namespace: shop
  annotations: {mirror.linkerd.io/multicluster-gateway: "true", mirror.linkerd.io/gateway-identity: gateway.test}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{name: mc-gateway, port: %d}]}
status: {loadBalancer: {ingress: [{hostname: %s}]}}
`, gatewayAt("0.0.0.0").Port(), strings.Join(names, "}, {hostname: "))))
}

// gatewayAt returns the address of east's multicluster gateway for an IP.
func gatewayAt(ip string) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), 4143)
}

// through waits until the proxy has exactly the gateways at these addresses, in order.
func (w *near) through(t *testing.T, what string, ips ...string) {
	t.Helper()
	var want []netip.AddrPort
	for _, ip := range ips {
		want = append(want, gatewayAt(ip))
	}
	await(t, what, func() error {
		if got := w.stream.Snapshot().Get.Addrs(); !slices.Equal(got, want) {
			return fmt.Errorf("the proxy has %v, want %v", got, want)
		}
		return nil
	})
}

// warns waits until Isthmus shows, or does not show, the warnings about east that begin with these
// texts.
func (w *near) warns(t *testing.T, want map[string]bool) {
	t.Helper()
	await(t, "the warnings of the replica", func() error {
		page, err := harness.ReadClusters(t.Context(), w.gateway.MetricsAddr())
		if err != nil {
			return err
		}
		for text, shown := range want {
			begins := func(warning string) bool { return strings.HasPrefix(warning, text) }
			if warnings := page.Clusters[0].Warnings; slices.ContainsFunc(warnings, begins) != shown {
				return fmt.Errorf("%q should be among the warnings: %t; the warnings are %q", text, shown, warnings)
			}
		}
		return nil
	})
}

type hosts map[string]string

// write replaces the file atomically, as a kubelet does.
func (h hosts) write(t *testing.T, file string) {
	t.Helper()
	var text strings.Builder
	for name, ip := range h {
		fmt.Fprintln(&text, ip, name)
	}
	must(t, os.WriteFile(file+".new", []byte(text.String()), 0o644))
	must(t, os.Rename(file+".new", file))
}

// startWithHosts runs a replica that resolves names only through a hosts file, and opens the
// proxy's stream. It returns the path of the file.
func (w *near) startWithHosts(t *testing.T, names hosts) (file string) {
	t.Helper()
	root := t.TempDir()
	copied := func(from, to string, mode os.FileMode) {
		text, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(root, to), text, mode))
	}
	binary, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	copied(binary, "isthmus", 0o555)
	copied(w.servers["west"].Kubeconfig(), "kubeconfig", 0o444)
	must(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "etc", "nsswitch.conf"), []byte("hosts: files\n"), 0o444))
	file = filepath.Join(root, "etc", "hosts")
	names.write(t, file)
	args := append(
		[]string{"gateway", "-kubeconfig=/kubeconfig", "-shutdown-delay=0s", "-drain=0s"},
		harness.BaseArgs()...)
	w.gateway = startGateway(t, harness.ReplicaConfig{Container: &harness.Container{
		Path: "/isthmus", Args: args, Env: []string{"HOSTNAME=isthmus-0"}, Jail: harness.Jail{Root: root, User: 65532},
	}})
	w.subscribe(t)
	return file
}
