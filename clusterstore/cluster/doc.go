// Package cluster knows what one cluster offers. A [Cluster] follows Services,
// EndpointSlices, Pods and what else endpoints are made of, keeps little of each,
// and joins them when it is asked: it is a [federation.Source]. It knows of no other
// cluster, and of no link: the gateway's own cluster is one like any other.
//
//	c, err := cluster.New(cluster.Config{Name: "east", Client: client, Log: log, Changed: changed})
//	go c.Run(ctx)
//	<-c.Synced()
//	share := c.Reader(federation.ServiceID{Namespace: "shop", Name: "web"}, 80).Read()
//
// What is kept of a kind of object, and how it gets in, stands in the file of that
// kind: pod.go, slice.go, service.go, owner.go (ReplicaSets and Jobs), node.go,
// policyserver.go, externalworkload.go, serviceprofile.go, endpoints.go. resources.go
// lists them. reader.go and join.go make endpoints; lookup.go and claim.go say who
// has an address.
//
// What callers may rely on:
//
//   - What has been read is kept for as long as the Cluster exists. A lost API
//     takes no endpoint away, and is followed again within 10 s of its return.
//   - Events may come in any order. A slice older than its Pod, a Pod or Service
//     that is relabelled or comes late, an owner that is read last: the result
//     is a function of the objects, not of their history.
//   - Nothing that a cluster says ends the process, or makes a message that can't
//     be sent. An address that no API server would accept in a slice (loopback,
//     link-local, multicast, unspecified) is left out, and so is text that is not
//     UTF-8.
//   - Readers return the same pointers for what has not changed, and so does
//     [Cluster.ServiceProfile].
//   - Of the resources, ReplicaSets, Jobs, Nodes, Servers, ExternalWorkloads and
//     ServiceProfiles are optional. Forbidden or absent, they are reported, and asked
//     for again within 30 s.
//
// All methods but Run are safe for concurrent use. One mutex guards what is known
// ([Cluster] calls it its state): it is held for map access and, shared, while a
// slice is joined; never during IO, nor while a function of Config runs. Each
// resource has a goroutine that writes; one more calls Config.Changed and one
// Config.ProfileChanged, so that neither waits for the other and bursts collapse.
// Nothing is reported before the first sync, since nobody can have read.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package cluster
