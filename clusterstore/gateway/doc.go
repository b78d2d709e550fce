// Package gateway makes clusters on other networks part of services: the addresses of their
// Pods mean nothing here, those of their gateways do. A gateway is always one of Linkerd's here: a
// Service by which other clusters reach a cluster (linkerd multicluster install).
//
// A [Tracker] follows the gateways of one cluster: it resolves names, probes addresses, and
// has the [Address] list of those to use. A [Source] is such a cluster as the table reads it:
// each service port has the gateways in place of the endpoints behind them, while there is a
// ready one.
//
// What callers may rely on:
//
//   - A gateway counts as alive until three probes in a row have failed, and again after one
//     has succeeded. Dead ones are left out while another of the cluster is alive.
//   - An address that has gone, of a name that has other ones each time, is as dead or alive as
//     before if it comes back within ten minutes.
//   - What a name was resolved to last stays while it can't be resolved.
//   - Each port and path that is probed is dead or alive by itself.
//   - What a linked cluster names as gateway gets few requests ([MostAddresses] addresses, for
//     each IP one at a time and one a second, whatever is probed there), none longer than five
//     seconds, without credentials, and follows no redirect.
//   - An address that the [Guard] refuses is not probed, and counts as alive. The Guard is asked before each
//     probe, with the very address that the probe goes to.
//
// A Tracker's Run starts a goroutine for each IP that is probed, and waits for them. All else
// is safe for concurrent use.
package gateway
