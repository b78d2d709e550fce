// Command skew runs two versions of Isthmus side by side, on two clusters of real API servers: an
// earlier binary is upgraded to bin/isthmus and back, while proxies hold streams of every kind.
//
//	make skew PREVIOUS=FILE
//
// West has replicas and is linked to east. Both export a Service, by labels and by a ServiceExport.
// Each version is the leader of both Leases, alone and beside a replica of the other version. In
// each of these situations east's Service, the endpoints and an ExternalWorkload change once. The
// command fails unless
//
//   - no stream loses an endpoint;
//   - nothing that a proxy is told of an endpoint or in a profile changes, except what listed.go has;
//   - nothing is written when the leader changes, except what listed.go has;
//   - each leader writes the same objects for the same change.
//
// If the earlier version does not know --exports, neither version writes exports: the mirror and
// the federated Service are made by hand, there is no import, and there is one Lease.
//
// The exit status is 1 if one of these does not hold, and 2 for mistakes in the arguments.
package main
