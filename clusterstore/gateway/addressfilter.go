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
	// AssignedTo returns the name of the Pod, Service or Node to which an address is assigned, or
	// "" if the cache contains no such object. AssignedTo must run in constant time, because it is
	// called before each probe.
	AssignedTo(netip.Addr) string
}

const interfacesFor = time.Second // how long the addresses of the network interfaces are cached

// AddressFilter decides which addresses Isthmus may probe. A linked cluster chooses the addresses
// of its own gateways. The filter prevents a linked cluster from making Isthmus send requests to
// the local cluster or to Isthmus's own ports, such as the admin port.
//
// The trackers of all clusters share one AddressFilter. The exported fields must not be modified
// once a tracker uses the filter.
type AddressFilter struct {
	// Routable reports whether an address can belong to another host.
	Routable func(netip.Addr) bool
	// Local provides the addresses of the local cluster. If Local is nil, addresses of the local
	// cluster may be probed.
	Local LocalCluster
	// Interfaces returns the addresses of the host's network interfaces. The default is
	// net.InterfaceAddrs.
	Interfaces func() ([]net.Addr, error)

	mu      sync.Mutex
	host    []netip.Addr // the result of Interfaces without loopback addresses
	hostErr error        // the error of Interfaces
	readAt  time.Time    // when host and hostErr were read
}

// The refusal method checks whether an address may be probed now. If the address must not be
// probed, the result is the reason, as text for users. An address may be probed only if the result
// is "" and ctx is not done. The refusal method blocks until the local cluster's cache is complete
// or ctx is done.
func (f *AddressFilter) refusal(ctx context.Context, ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	if !f.Routable(ip) {
		return "the address is a loopback, link-local, multicast or reserved address"
	}
	if f.Local != nil {
		select {
		case <-f.Local.Synced():
		case <-ctx.Done():
			return ""
		}
		if name := f.Local.AssignedTo(ip); name != "" {
			return "the address is assigned to " + name + " in the local cluster"
		}
	}
	host, err := f.hostAddresses()
	switch {
	case err != nil:
		return fmt.Sprintf("the addresses of the replica's own host cannot be read: %v", err)
	case slices.Contains(host, ip):
		return "the address is assigned to the replica's own host"
	}
	return ""
}

// hostAddresses returns the addresses of the host's network interfaces. If Isthmus runs in a Pod,
// hostAddresses returns the Pod's addresses. Loopback addresses are omitted, because Routable
// already excludes them.
func (f *AddressFilter) hostAddresses() ([]netip.Addr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.readAt.IsZero() && time.Since(f.readAt) < interfacesFor {
		return f.host, f.hostErr
	}
	read := f.Interfaces
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
	f.host = host
	f.hostErr = err
	f.readAt = time.Now()
	return f.host, f.hostErr
}
