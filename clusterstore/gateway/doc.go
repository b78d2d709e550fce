// Package gateway adds clusters on other networks to services. Clients can't reach the Pods of such
// a cluster, so they get the addresses of its Linkerd gateways instead. In this package, a gateway
// is always a Linkerd gateway: a Service through which other clusters reach a cluster (linkerd
// multicluster install).
//
// A [Tracker] tracks the gateways of one cluster. It resolves their names, probes their addresses,
// and lists each [Address] to use. A [Source] is the cluster as the table reads it. In a Source, each
// service port with a ready endpoint has the gateways in place of its endpoints.
//
//	t := gateway.New(gateway.Config{Changed: changed, Probed: observe, Guard: guard})
//	t.Set(gateway.Targets(gateways))
//	go t.Run(ctx)
//	<-t.Settled()
//	addresses := t.Addresses()
//
// Callers may rely on the following:
//
//   - A gateway is dead after three failed probes in a row, and alive again after one successful
//     probe. Dead gateways are not used while another gateway of the cluster is alive.
//   - If a name resolves to other addresses, the health of the old addresses is remembered for ten
//     minutes.
//   - If a name can't be resolved any more, its last addresses stay in use.
//   - Each probed port and path of an IP has its own health.
//   - A linked cluster can't make Isthmus send many requests. At most [MostAddresses] addresses are
//     probed. Each IP gets at most one probe at a time and one per second, however many ports and
//     paths it has.
//   - A probe takes at most five seconds, carries no credentials, and follows no redirect.
//   - Before each probe, the [Guard] checks the exact address of the probe. An address that the
//     Guard refuses is not probed and counts as alive.
//
// Tracker.Run starts a goroutine for each probed IP, and waits for these goroutines. All other
// methods are safe for concurrent use.
package gateway
