package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// Controllers are those of a real cluster that the shop needs.
var Controllers = []string{"namespace", "serviceaccount", "token", "endpointslice", "gc", "deployment", "replicaset"}

const (
	// Namespace is where the shop is, in every cluster.
	Namespace = "shop"
	// Port is what the shop's containers listen on.
	Port = 8080

	// waitLimit bounds how long what a cluster does by itself may take.
	waitLimit = time.Minute
)

// Cluster is a running cluster that the shop is in, or will be, and an administrator's client of it. Its methods may be
// called from several goroutines.
type Cluster struct {
	*kube.Client
	subnet byte // its Pods have addresses of 10.subnet.0.0/16

	mu      sync.Mutex
	lastPod int            // the number that the newest Pod's address is made of
	placed  map[string]int // Pods that have got a node, by Deployment
	started time.Time      // when a Pod was last made ready
	lost    error          // why Run does not follow the cluster at the moment
}

// New returns the cluster behind an administrator's client configuration. Its Pods will have addresses of
// 10.subnet.0.0/16. It sends nothing yet. Close comes after the end of Run.
func New(name string, subnet byte, admin *rest.Config) (*Cluster, error) {
	client, err := kube.NewClient(name, admin)
	if err != nil {
		return nil, err
	}
	return &Cluster{Client: client, subnet: subnet}, nil
}

// zone is an availability zone, with one node in it.
type zone struct{ Name, Node string }

func (c *Cluster) zones() []zone {
	var zones []zone
	for _, letter := range []string{"a", "b"} {
		zones = append(zones, zone{Name: c.Name + "-1" + letter, Node: c.Name + "-node-" + letter})
	}
	return zones
}

// Node returns the name of one of the cluster's nodes.
func (c *Cluster) Node() string { return c.zones()[0].Node }

// Deploy writes the shop with so many Pods of each Deployment. It returns when
// they are ready, for which Run must run, and in their Services' EndpointSlices.
func (c *Cluster) Deploy(ctx context.Context, web, cart int) error {
	type deployment struct {
		Name     string
		Replicas int
	}
	deployments := []deployment{{"web", web}, {"cart", cart}}
	if err := c.apply(ctx, "shop.yaml", map[string]any{
		"Cluster": c.Name, "Zones": c.zones(), "Deployments": deployments,
	}); err != nil {
		return err
	}
	for _, d := range deployments {
		if err := c.awaitReady(ctx, d.Name, d.Replicas); err != nil {
			return err
		}
		if err := c.awaitSlices(ctx, d.Name, d.Replicas); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) awaitSlices(ctx context.Context, service string, endpoints int) error {
	err := wait(ctx, func() error {
		slices, err := c.DiscoveryV1().EndpointSlices(Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + service,
		})
		if err != nil {
			return err
		}
		ready := 0
		for _, slice := range slices.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					ready++
				}
			}
		}
		if ready != endpoints {
			return fmt.Errorf("%d ready endpoints instead of %d", ready, endpoints)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cluster %s: EndpointSlices of Service %s: %w", c.Name, service, err)
	}
	return nil
}

// Mirror writes what the service mirror would write into the gateway's own
// cluster: the Services web-federated and cart-east.
func (c *Cluster) Mirror(ctx context.Context) error { return c.apply(ctx, "mirrors.yaml", nil) }

// Prefer sets annotations of the Service web: the empty value removes one. In the gateway's own cluster web-federated gets
// them too, since the service mirror copies the annotations of its oldest member. It returns when that was written.
func (c *Cluster) Prefer(ctx context.Context, annotations map[string]string) (time.Time, error) {
	patch, err := annotationPatch(annotations)
	if err != nil {
		return time.Time{}, err
	}
	var at time.Time
	for _, name := range []string{"web", "web-federated"} {
		at = time.Now()
		if _, err := c.CoreV1().Services(Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return time.Time{}, fmt.Errorf("cluster %s: annotate Service %s: %w", c.Name, name, err)
		}
	}
	return at, nil
}

// annotationPatch is a merge patch; empty values remove annotations.
func annotationPatch(annotations map[string]string) ([]byte, error) {
	values := map[string]any{}
	for name, value := range annotations {
		if values[name] = value; value == "" {
			values[name] = nil
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
}

// Scale changes how many Pods a Deployment has. It returns when they are there,
// or gone, and returns when the last of them became ready, or else when that was asked for.
func (c *Cluster) Scale(ctx context.Context, deployment string, replicas int) (time.Time, error) {
	patch, asked := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), time.Now()
	_, err := c.AppsV1().Deployments(Namespace).Patch(ctx, deployment, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("cluster %s: scale %s: %w", c.Name, deployment, err)
	}
	if err := c.awaitReady(ctx, deployment, replicas); err != nil {
		return time.Time{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started.After(asked) {
		return c.started, nil
	}
	return asked, nil
}

func (c *Cluster) awaitReady(ctx context.Context, deployment string, replicas int) error {
	err := wait(ctx, func() error {
		pods, err := c.pods(ctx, deployment)
		if err != nil {
			return err
		}
		if ready := readyAddrs(pods); len(ready) != replicas || len(pods) != replicas {
			return fmt.Errorf("%d Pods, %d of them ready, instead of %d", len(pods), len(ready), replicas)
		}
		return nil
	})
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return errors.Join(fmt.Errorf("cluster %s: Deployment %s: %w", c.Name, deployment, err), c.lost)
	}
	return nil
}

// Ready returns the addresses of a Deployment's ready Pods.
func (c *Cluster) Ready(ctx context.Context, deployment string) ([]netip.AddrPort, error) {
	pods, err := c.pods(ctx, deployment)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return readyAddrs(pods), nil
}

func (c *Cluster) pods(ctx context.Context, deployment string) ([]corev1.Pod, error) {
	list, err := c.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + deployment})
	if err != nil {
		return nil, fmt.Errorf("list the Pods of %s: %w", deployment, err)
	}
	return list.Items, nil
}

func readyAddrs(pods []corev1.Pod) []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, pod := range pods {
		if addr, err := netip.ParseAddr(pod.Status.PodIP); err == nil && pod.DeletionTimestamp == nil {
			addrs = append(addrs, netip.AddrPortFrom(addr, Port))
		}
	}
	return addrs
}

// wait tries until it works, at most for waitLimit.
func wait(ctx context.Context, try func() error) error {
	return harness.Poll(ctx, waitLimit, 20*time.Millisecond, try)
}
