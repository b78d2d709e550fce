package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// LocalCluster is the cache of the local cluster.
type LocalCluster interface {
	// Synced returns a channel that is closed when the cache is complete.
	Synced() <-chan struct{}
	// AssignedTo returns the name of the Pod, Service or Node to which an address is assigned. If
	// the cache contains no such object, AssignedTo returns the empty string. AssignedTo must run
	// in constant time, because it is called before each probe.
	AssignedTo(netip.Addr) string
}

// interfacesFor is the time for which the addresses of the network interfaces are cached.
const interfacesFor = time.Second

// Guard decides which addresses Isthmus may probe. A linked cluster chooses the addresses of its
// own gateways. The Guard prevents a linked cluster from making Isthmus send requests to the local
// cluster or to itself, for example to the admin port.
//
// The trackers of all clusters share one Guard. The exported fields of a Guard must not be modified
// once a tracker uses the Guard.
type Guard struct {
	// Routable reports whether an address can belong to another host.
	Routable func(netip.Addr) bool
	// Local provides the addresses of the local cluster. If Local is nil, addresses of the local
	// cluster may be probed.
	Local LocalCluster
	// Interfaces returns the addresses of the network interfaces. The default is
	// net.InterfaceAddrs.
	Interfaces func() ([]net.Addr, error)

	mu      sync.Mutex
	host    []netip.Addr // the result of Interfaces without loopback addresses
	hostErr error        // the error of Interfaces
	readAt  time.Time    // when host and hostErr were read
}

// refusal returns a displayable reason why an address may not be probed now. If the address may be
// probed, refusal returns the empty string. The refusal method blocks until the local cluster's
// cache is complete. If ctx ends first, refusal returns the empty string, and the caller must not
// probe the address.
func (g *Guard) refusal(ctx context.Context, ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	if !g.Routable(ip) {
		return "the address cannot belong to another host"
	}
	if g.Local != nil {
		select {
		case <-g.Local.Synced():
		case <-ctx.Done():
			return ""
		}
		if name := g.Local.AssignedTo(ip); name != "" {
			return "the address is assigned to " + name + " of the local cluster"
		}
	}
	host, err := g.hostAddresses()
	switch {
	case err != nil:
		return fmt.Sprintf("the addresses of the replica's own host cannot be read: %v", err)
	case slices.Contains(host, ip):
		return "the address is assigned to the replica's own host"
	}
	return ""
}

// hostAddresses returns the addresses of the network interfaces. In a Pod, hostAddresses returns
// the addresses of the Pod. hostAddresses leaves out loopback addresses, because Routable already
// excludes them.
func (g *Guard) hostAddresses() ([]netip.Addr, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.readAt.IsZero() && time.Since(g.readAt) < interfacesFor {
		return g.host, g.hostErr
	}
	read := g.Interfaces
	if read == nil {
		read = net.InterfaceAddrs
	}
	list, err := read()
	var host []netip.Addr
	for _, a := range list {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, ok := netip.AddrFromSlice(n.IP); ok && !ip.Unmap().IsLoopback() {
			host = append(host, ip.Unmap())
		}
	}
	g.host = host
	g.hostErr = err
	g.readAt = time.Now()
	return g.host, g.hostErr
}
