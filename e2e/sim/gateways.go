package sim

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/internal/adminapi"
	"isthmus/internal/spec"
)

// Some linked clusters are on another network. Clients reach them through Linkerd gateways, which
// start, stop, move and fail. The simulator runs an HTTP server for the probes of each gateway.

// networkName is the name of a network that Isthmus and clusters may be on.
const networkName = "far"

const (
	mostGateways    = 3 // of a cluster
	gatewayName     = "linkerd-gateway-"
	gatewayIdentity = "linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local"
	probePeriod     = 1 // seconds
)

// played is a Linkerd gateway of a cluster. It answers probes even while it has no Service.
type played struct {
	*harness.LinkerdGateway
	number int
	moved  bool // it uses another port
}

// playGateways starts the Linkerd gateways of a cluster.
func playGateways(c *cluster) error {
	for i := range mostGateways {
		g, err := harness.StartLinkerdGateway("127.0.0.1:0", http.StatusOK)
		if err != nil {
			return fmt.Errorf("a gateway: %w", err)
		}
		c.gateways = append(c.gateways, &played{LinkerdGateway: g, number: i})
	}
	return nil
}

func closeGateways(c *cluster) {
	for _, g := range c.gateways {
		g.Close()
	}
}

// addr returns the address at which clients would reach a Linkerd gateway. Nothing connects to it.
func addr(c *cluster, g *played) netip.AddrPort {
	port := 20000 + c.number*2*mostGateways + 2*g.number
	if g.moved {
		port++
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
}

// service returns the Service that declares a Linkerd gateway.
func service(c *cluster, g *played) *corev1.Service {
	port := func(name string, number uint16) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: int32(number), Protocol: corev1.ProtocolTCP}
	}
	o := headless(
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace,
				Name:      fmt.Sprintf("%s%d", gatewayName, g.number),
				Annotations: map[string]string{
					"mirror.linkerd.io/multicluster-gateway": "true",
					"mirror.linkerd.io/gateway-identity":     gatewayIdentity,
					"mirror.linkerd.io/probe-path":           "/ready",
					"mirror.linkerd.io/probe-period":         fmt.Sprint(probePeriod),
				},
			},
		},
	)
	o.Spec.Ports = []corev1.ServicePort{port("mc-gateway", addr(c, g).Port()), port("mc-probe", g.Addr().Port())}
	o.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: addr(c, g).Addr().String()}}
	return o
}

// there returns the Linkerd gateways that have Services.
func there(c *cluster) (list []*played) {
	for _, g := range c.gateways {
		if c.services[fmt.Sprintf("%s%d", gatewayName, g.number)] != nil {
			list = append(list, g)
		}
	}
	return list
}

// specGateways returns the Linkerd gateways that have Services, in the form that package spec uses.
func specGateways(c *cluster) (list []spec.Gateway) {
	for _, g := range there(c) {
		list = append(list, spec.Gateway{Addr: addr(c, g), Identity: gatewayIdentity, Dead: !g.Alive()})
	}
	return list
}

// behind reports whether clients reach a cluster through its Linkerd gateways.
func behind(w *world, c *cluster) bool {
	return c.number != 0 && settings(w, c).Network != settings(w, w.clusters[0]).Network
}

// gatewaySteps change the Linkerd gateways of a cluster, and its network.
var gatewaySteps = []step{
	{"network", 4, func(w *world, c *cluster, _ string) string {
		return annotate(w, c, spec.NetworkKey, []string{"", "", networkName, networkName, "no network!"})
	}},
	{"create or delete a gateway", 3, func(w *world, c *cluster, _ string) string {
		g, done := pick(w, c.gateways), "deleted"
		c.probing = true
		o := service(c, g)
		if c.services[o.Name] != nil {
			w.delete(c, "", o)
		} else {
			done = "created"
			w.put(c, "", o)
		}
		return o.Name + " " + done
	}},
	{"move a gateway", 3, func(w *world, c *cluster, _ string) string {
		g := pick(w, c.gateways)
		if c.services[service(c, g).Name] == nil {
			return ""
		}
		g.moved, c.probing = !g.moved, true
		w.put(c, "", service(c, g))
		return fmt.Sprintf("%s%d is at %s", gatewayName, g.number, addr(c, g))
	}},
	{"fail or restore a gateway", 4, func(w *world, c *cluster, _ string) string {
		g := pick(w, c.gateways)
		c.probing = true
		g.Live(!g.Alive())
		w.written("")
		return fmt.Sprintf("%s%d dead=%v", gatewayName, g.number, !g.Alive())
	}},
}

// fillGateways declares Linkerd gateways, and puts some clusters on another network.
func fillGateways(w *world, c *cluster) {
	for _, g := range c.gateways {
		if w.chance(2) {
			w.put(c, "", service(c, g))
		}
	}
	if w.chance(3) {
		annotate(w, c, spec.NetworkKey, []string{networkName})
	}
}

// probed waits until Isthmus has probed all Linkerd gateways of the reachable clusters.
func probed(ctx context.Context, s *simulation, within time.Duration) error {
	away := away(s.world)
	reached := func(c *cluster) bool { return !away[c] && c.link.accepted != "" && c.link.good() }
	err := harness.Poll(ctx, within, 50*time.Millisecond, func() error {
		page, err := harness.ReadClusters(ctx, s.gateway.MetricsAddr())
		for _, c := range s.world.clusters[1:] {
			if err == nil && behind(s.world, c) && reached(c) {
				err = probesShown(s.world, c, page)
			}
		}
		return err
	})
	for _, c := range s.world.clusters[1:] {
		c.probing = c.probing && !reached(c)
	}
	return err
}

// probesShown returns an error if the page does not show the Linkerd gateways of a cluster as they
// are.
func probesShown(w *world, c *cluster, page adminapi.Clusters) error {
	want, got := map[string]string{}, map[string]string{}
	for _, g := range specGateways(c) {
		want[g.Addr.String()] = map[bool]string{true: "dead", false: "alive"}[g.Dead]
	}
	for _, x := range page.Clusters {
		for _, g := range x.Gateways {
			if x.Cluster == c.name {
				got[g.Address] = g.State
			}
		}
	}
	if maps.Equal(got, want) {
		return nil
	}
	return fmt.Errorf("the gateways of %s are shown as %v, want %v", c.name, got, want)
}
