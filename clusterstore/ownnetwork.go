package clusterstore

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/sleep"
)

// Local is the gateway's own cluster.
type Local interface {
	Synced() <-chan struct{}
	// Owner names the Pod or Service that has an address; empty: none has.
	Owner(netip.Addr) string
}

const (
	ownEvery  = 5 * time.Minute  // Nodes and ServiceCIDRs are listed again
	ownRetry  = 30 * time.Second // the same, if they could not be listed
	nodePage  = 100              // Nodes, of which each has some ten kilobytes
	ownNoFact = "Linkerd gateways at such addresses may be probed"
)

// ownNetwork knows which addresses the gateway's own cluster and host have: whoever names the Linkerd
// gateways of a linked cluster must not make this process send probes there, to its own admin port for example.
//
// Nodes and ServiceCIDRs are listed, not followed: they change rarely, and only gateways that are probed
// need them. Until there is one, nothing is listed.
type ownNetwork struct {
	client     *kube.Client // of the own cluster
	local      Local        // nil: no Pod or Service is known
	interfaces func() ([]net.Addr, error)
	log        *zap.Logger

	asked  chan struct{}                    // closed by ask
	ask    func()                           // says that there is a gateway to be probed
	latest federation.Latest[*ownAddresses] // nil: not read yet
}

// ownAddresses is what was read at one time. It is immutable.
type ownAddresses struct {
	lasts    time.Duration // until it is read again
	host     []netip.Addr
	nodes    map[netip.Addr]string // names
	pods     federation.Ranges     // of Nodes; nil: none
	services federation.Ranges     // nil: none
	problems []string              // what could not be read, for people
}

func newOwnNetwork(client *kube.Client, local Local, log *zap.Logger) *ownNetwork {
	o := &ownNetwork{client: client, local: local, log: log, asked: make(chan struct{}), interfaces: net.InterfaceAddrs}
	o.ask = sync.OnceFunc(func() { close(o.asked) })
	return o
}

// run reads all again and again, once there is a gateway to be probed, until ctx ends.
func (o *ownNetwork) run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-o.asked:
	}
	for ctx.Err() == nil {
		before, _ := o.latest.Get()
		now := o.read(ctx, before)
		if ctx.Err() != nil {
			return
		}
		o.latest.Set(now)
		sleep.For(ctx, now.lasts)
	}
}

// owner describes what has an address; empty: nothing of the own cluster or host, as far as that is known.
// It waits until there has been a try to find out, or ctx ends.
func (o *ownNetwork) owner(ctx context.Context, ip netip.Addr) string {
	o.ask()
	for {
		now, newer := o.latest.Get()
		if now != nil {
			return o.ownerBy(ctx, now, ip)
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return ""
		}
	}
}

func (o *ownNetwork) ownerBy(ctx context.Context, now *ownAddresses, ip netip.Addr) string {
	const of = " of the gateway's own cluster"
	if o.local != nil {
		select {
		case <-o.local.Synced():
		case <-ctx.Done():
			return ""
		}
		if owner := o.local.Owner(ip); owner != "" {
			return owner + of + " has the address"
		}
	}
	switch node := now.nodes[ip]; {
	case node != "":
		return "Node " + node + of + " has the address"
	case slices.Contains(now.host, ip):
		return "the gateway's own host has the address"
	case now.pods != nil && now.pods.Contains(ip):
		return "it is an address for Pods" + of + " (podCIDRs of its Nodes)"
	case now.services != nil && now.services.Contains(ip):
		return "it is an address for Services" + of + " (ServiceCIDRs)"
	}
	return ""
}

// problems returns, for people, what is not known of the own cluster and host.
func (o *ownNetwork) problems() []string {
	if now, _ := o.latest.Get(); now != nil {
		return now.problems
	}
	return nil
}

// read reads all. What can't be read is as it was before.
func (o *ownNetwork) read(ctx context.Context, before *ownAddresses) *ownAddresses {
	now := new(ownAddresses)
	if before != nil {
		*now = *before
		now.problems = nil
	}
	now.lasts = ownEvery
	failed := func(what string, err error) {
		if !apierrors.IsForbidden(err) {
			now.lasts = ownRetry
		}
		err = o.client.Printable(err)
		now.problems = append(now.problems, fmt.Sprintf("%s of the gateway's own cluster can't be listed (%v): %s", what, err, ownNoFact))
	}
	if err := now.readHost(o.interfaces); err != nil {
		now.problems = append(now.problems, fmt.Sprintf("the addresses of the gateway's own host can't be listed (%v): %s", err, ownNoFact))
	}
	if err := now.readNodes(ctx, o.client.Sources.NodeRanges); err != nil {
		failed("Nodes", err)
	}
	if err := now.readServices(ctx, o.client.Sources); err != nil {
		failed("ServiceCIDRs", err)
	}
	if len(now.problems) > 0 && (before == nil || !slices.Equal(before.problems, now.problems)) && ctx.Err() == nil {
		o.log.Warn("not all addresses of the gateway's own network are known", zap.Strings("problems", now.problems))
	}
	return now
}

// readHost reads the addresses of the gateway's own host, which in a Pod is the Pod. Loopback is left out: whether
// gateways may have that is decided where they are read.
func (a *ownAddresses) readHost(interfaces func() ([]net.Addr, error)) error {
	list, err := interfaces()
	if err != nil {
		return err
	}
	a.host = nil
	for _, x := range list {
		if n, ok := x.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && !ip.Unmap().IsLoopback() {
				a.host = append(a.host, ip.Unmap())
			}
		}
	}
	return nil
}

func (a *ownAddresses) readNodes(ctx context.Context, from decode.Source[*corev1.Node]) error {
	nodes, pods := make(map[netip.Addr]string), []netip.Prefix(nil)
	read := func(n *corev1.Node, refused *decode.Refused) error {
		if refused != nil {
			return fmt.Errorf("of Node %s: %w", refused.Name, refused.Err)
		}
		for _, at := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(at.Address); err == nil { // others are names
				nodes[ip.Unmap()] = strings.Clone(n.Name)
			}
		}
		pods = appendPrefixes(pods, append(slices.Clone(n.Spec.PodCIDRs), n.Spec.PodCIDR))
		return nil
	}
	for options := (metav1.ListOptions{Limit: nodePage}); ; {
		list, err := from.List(ctx, options, read)
		if err != nil {
			return err
		}
		if options.Continue = list.Continue; list.Continue == "" {
			break
		}
	}
	a.nodes, a.pods = nodes, federation.NewRanges(pods...)
	return nil
}

// readServices reads the ServiceCIDRs, of which there are few. API servers before Kubernetes 1.33 have none.
func (a *ownAddresses) readServices(ctx context.Context, from decode.Sources) error {
	var list struct {
		Items []struct {
			Spec struct {
				CIDRs []string `json:"cidrs"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := from.Document(ctx, "/apis/networking.k8s.io/v1/servicecidrs", &list); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	var all []netip.Prefix
	for _, o := range list.Items {
		all = appendPrefixes(all, o.Spec.CIDRs)
	}
	a.services = federation.NewRanges(all...)
	return nil
}

// appendPrefixes appends those of the texts that are prefixes.
func appendPrefixes(list []netip.Prefix, texts []string) []netip.Prefix {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}
