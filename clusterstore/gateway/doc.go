// Package gateway lets clients reach Services in clusters on other networks. Clients cannot reach
// the Pods of a cluster on another network, so Isthmus sends clients the addresses of the cluster's
// Linkerd gateways instead. In this package, a gateway is always a Linkerd gateway: a Service
// through which other clusters reach the Services of the gateway's own cluster. Linkerd's
// multicluster chart installs gateways.
//
// A [Tracker] resolves the names of one cluster's gateways, probes their addresses, and lists the
// addresses ([Address]) to use. A [Source] represents one cluster, with gateways in place of
// endpoints. For a service port without a ready endpoint, a [Source] contains no gateways.
//
//	t := gateway.New(gateway.Config{Changed: changed, Probed: observe, Filter: filter})
//	t.Set(gateway.Targets(gateways))
//	go t.Run(ctx)
//	<-t.Settled()
//	addresses := t.Addresses()
//
// The following rules apply to gateways and their probes:
//
//   - A gateway counts as dead after three consecutive failed probes, and as alive again after one
//     successful probe. Dead gateways are not used while another gateway of the cluster is alive.
//   - If the name of a gateway resolves to new addresses, the Tracker remembers the health of the
//     old addresses for up to ten minutes.
//   - If the name of a gateway can no longer be resolved, the addresses from the last successful
//     lookup stay in use.
//   - The Tracker tracks health separately for each combination of IP address, probe port and probe
//     path.
//   - A linked cluster cannot make Isthmus send large numbers of probes. At most [MaxAddresses]
//     addresses of a cluster are probed. Each IP receives at most one probe at a time, and at most
//     one per second, even if the IP is probed on several ports and paths.
//   - A probe times out after five seconds. Probes do not contain credentials and do not follow
//     redirects.
//   - Before each probe, the [AddressFilter] checks the IP address to which the probe will connect.
//     An address that the filter refuses is not probed and counts as alive.
//
// [Tracker.Run] starts one goroutine per probed IP, and waits for all of them to end. All other
// methods are safe for concurrent use.
package gateway
