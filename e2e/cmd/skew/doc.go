// Command skew tests upgrades: it runs two versions of Isthmus side by side on two clusters with
// real API servers. It upgrades an earlier binary to bin/isthmus and rolls back, while proxies hold
// streams of every kind.
//
//	make skew PREVIOUS=FILE
//
// The cluster west runs the replicas and is linked to east. Both clusters export a Service with
// labels and with a ServiceExport. Each version becomes the leader of both Leases, alone and beside
// a replica of the other version. In each of these situations, east's Service, the endpoints and an
// ExternalWorkload change once. The command succeeds if
//
//   - no stream loses an endpoint;
//   - the data that proxies receive about an endpoint or in a profile does not change, except for
//     the differences in fields.go;
//   - a change of leader causes no writes, except for the differences in fields.go;
//   - each leader writes the same objects for the same change.
//
// If the earlier version does not support --exports, neither version writes exports. In that case,
// the command creates the mirror and the federated Service itself, does not use an import, and only
// uses one Lease.
//
// The exit code is 1 if a condition does not hold, and 2 for invalid arguments.
package main
