// Package cluster reads the endpoints of one cluster. A [Cluster] follows Services,
// EndpointSlices, Pods and all other objects that endpoints are made of, keeps the few
// fields that matter, and joins them when a reader asks: it is a [federation.Source].
// It knows nothing of other clusters and of links: the gateway's own cluster is read
// in the same way.
//
//	c, err := cluster.New(cluster.Config{Name: "east", Client: client, Log: log, Changed: changed})
//	go c.Run(ctx)
//	<-c.Synced()
//	share := c.Reader(federation.ServiceID{Namespace: "shop", Name: "web"}, 80).Read()
//
// Each kind of object has a file with what is kept of it and how it is indexed:
// pod.go (and podspec.go, its containers and ports), slice.go, unready.go, service.go, owner.go
// (ReplicaSets and Jobs), node.go, policyserver.go (with selector.go and policy.go, which
// match Servers), externalworkload.go, serviceprofile.go, endpoints.go. resources.go lists them. reader.go and join.go make
// endpoints; lookup.go, claim.go and location.go find the owner of an address, for
// profiles, and addressowner.go whether it has any, for the table. explain.go
// has what becomes of each address of a Service, from the same join.
//
// What callers may rely on:
//
//   - While the API can't be reached, all endpoints stay. It is watched again within
//     10 s of its return.
//   - Events may come in any order: a slice before its Pod, a Pod or Service that is
//     relabelled or comes late, an owner that is read last. The result depends on the
//     objects, not on the order of events.
//   - No content of an object ends the process, or makes a message that can't be sent.
//     An endpoint is left out if its address is one that no API server accepts in a
//     slice (loopback, link-local, multicast, unspecified), or a text of it is not
//     UTF-8.
//   - One namespace's Servers, Pods and their labels cost that namespace: what Servers
//     select is evaluated without any lock that others wait for, after a change of a Server
//     in the namespace's turn (policy.go), and has a limit (maxPolicy),
//     beyond which Servers are ignored, the same ones in each replica.
//     Changes are reported in turn by namespace.
//   - [Cluster.Look] parses what it lists by the same code as the watches do, holds the state's
//     lock for one object at a time, and bounds what it takes of an answer. It ends with Run.
//   - Readers return the same pointers for what has not changed, and so does
//     [Cluster.ServiceProfile].
//   - ReplicaSets, Jobs, Nodes, Servers, ExternalWorkloads and ServiceProfiles are
//     optional. If they are forbidden or absent, that is in [Cluster.Health], and they
//     are retried within 30 s.
//
// All methods but Run are safe for concurrent use. One mutex guards the objects
// (state.mu): it is held for map access and, shared, while a slice is joined; never
// during IO, nor while a function of Config runs, nor while selectors are evaluated. Each
// resource has a goroutine that writes; two more call Config.Changed, one
// Config.ProfileChanged and one Config.OwnerChanged, so that none waits for another and
// bursts collapse. They work in turn by namespace, so that none holds up the others.
// Changes are reported after the first sync
// only: before it nothing can have been read.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package cluster
