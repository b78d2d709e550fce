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
	// AssignedTo names the Pod, Service or Node that has an address. It returns the empty string if
	// the cache has no such object. It must run in constant time, because it is called before each
	// probe.
	AssignedTo(netip.Addr) string
}

// interfacesFor is how long the addresses of the process's interfaces are cached.
const interfacesFor = time.Second

// Guard decides which addresses may be probed. A linked cluster chooses the addresses of its
// gateways. The Guard prevents it from making Isthmus send requests to the local cluster or to this
// process, for example to its admin port.
//
// The trackers of all clusters share one Guard. Its fields must not be modified after a tracker has
// it.
type Guard struct {
	// Routable reports whether an address can belong to another host.
	Routable func(netip.Addr) bool
	// Local has the addresses of the local cluster. If Local is nil, they are not checked.
	Local LocalCluster
	// Interfaces lists the addresses of the process's interfaces. If Interfaces is nil, the default
	// is net.InterfaceAddrs.
	Interfaces func() ([]net.Addr, error)

	mu      sync.Mutex
	host    []netip.Addr // the result of Interfaces without loopback addresses
	hostErr error        // the error of Interfaces
	readAt  time.Time    // when host and hostErr were read
}

// refusal returns the reason why an address may not be probed now, as text for people. The empty
// string means that the address may be probed. refusal blocks until the local cluster's cache is
// complete. If ctx ends first, it returns the empty string, and the caller must not probe.
func (g *Guard) refusal(ctx context.Context, ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	if !g.Routable(ip) {
		return "it could not be another host's address"
	}
	if g.Local != nil {
		select {
		case <-g.Local.Synced():
		case <-ctx.Done():
			return ""
		}
		if name := g.Local.AssignedTo(ip); name != "" {
			return name + " of the gateway's own cluster has the address"
		}
	}
	host, err := g.hostAddresses()
	switch {
	case err != nil:
		return fmt.Sprintf("the addresses of the gateway's own host can't be read: %v", err)
	case slices.Contains(host, ip):
		return "the gateway's own host has the address"
	}
	return ""
}

// hostAddresses returns the addresses of the process's interfaces. In a Pod, these are the
// addresses of the Pod. It omits loopback addresses, because Routable decides about them.
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
