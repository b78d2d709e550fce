// Package clusterstore follows clusters: the one that the gateway runs in and
// those that link Secrets name. A [Cluster] reads one cluster's API and offers
// the endpoints of its services as a [federation.Source]; a [Store] turns link
// Secrets into clusters and hands them to the [federation.Table].
//
// What callers may rely on:
//
//   - What a cluster says is kept for as long as the Cluster exists. A lost API
//     takes no endpoint away, and is followed again within 10 s of its return,
//     however long that took.
//   - Events may come in any order. A slice older than its Pod, a Pod or Service
//     that is relabelled or comes late, an owner that is read last: the result
//     is a function of the objects, not of their history.
//   - Nothing that a cluster or a Secret says ends the process, blocks another
//     cluster, or spoils another's endpoints.
//   - Readers hand out the same pointers for what has not changed, and so does
//     [Cluster.ServiceProfile].
//
// Decisions about following a cluster:
//
//   - Reflectors without informers. client-go's reflector lists, watches, pages
//     and starts over; an informer on top would hold every object twice and fix
//     how long failures back off. Ours feed small structs of our own: a Pod is 80
//     bytes, its name, the names of its owner and service account, and the values
//     of its labels, each once, since what it has in common with others is shared.
//     The Pods of one ReplicaSet or Job share those too. Each object is made small
//     as it is decoded, lists included.
//   - So a Pod with labels as real ones have, that no slice names, takes 220 to
//     280 bytes if it has siblings in a ReplicaSet or a StatefulSet, and up to 450 if
//     it is the only one of a Job. That goes for label keys that many Pods have:
//     one with a key that no other has takes 600 to 700 bytes more.
//   - Every failure is an error within seconds (dial, handshake, a list that falls
//     silent, a dead connection), is reported at once, and is tried again after less
//     than 4 s. Answers are bounded in size and time.
//     Nothing below tries again unseen, or waits for as long as a server says.
//   - After a request that found no server everything is listed again: the one
//     that answers next may have been restored from a backup, and a watch that
//     went on from a version of the future would be silent.
//   - One mutex for one cluster's state, held for map access and, shared, while
//     a slice is joined; never during IO.
//   - Events mark services, and one goroutine tells of them: bursts collapse.
//     Another one tells of what profiles are made of, so that neither waits.
//     Before the first sync nothing is marked, because nobody has read.
//   - A stamp on each slice says when anything behind it last changed, so that a
//     reader joins again what has a new stamp and nothing else.
//   - ReplicaSets, Jobs and Nodes are optional, and read as metadata; Servers,
//     ExternalWorkloads and ServiceProfiles are optional too. Forbidden or absent, they are reported
//     and asked for again within 30 s. Until then labels name the nearest owner
//     that is known, no port is opaque by policy, ExternalWorkloads are left out,
//     and no Service has a profile.
//   - Servers are asked when a slice is joined, once for each template and port of its
//     Pods, and nothing of their answers is kept: to keep them would cost memory
//     for every Pod, and work for every change, where there are few Servers and
//     most slices have one template. Where a namespace has none, it is a map
//     lookup. What a Server may go by (labels, named ports) stands in the
//     template, as a string.
//   - Requests and caches have the series of Linkerd's destination controller, by
//     cluster besides. Which client a request belongs to goes by its path, since
//     a cluster has one client for all.
//   - The lag of updates is measured without a time for each object: an update
//     counts if it notes the newest time seen of its resource, see lag.
//
// Decisions about what an endpoint is:
//
//   - A port is resolved by the name of the Service's port, in each slice. A port
//     that the Service does not declare is used as it is, but not for slices
//     without any port: those expose none.
//   - All addresses of an endpoint are served. Kubernetes writes one each and
//     gives further ones no meaning.
//   - Slices whose Service does not exist (any more) are not offered.
//   - A Pod's facts (node, identity, opaque and skipped ports, proxy) are its
//     own; the zone is the slice's. Bare addresses have no zone.
//   - An ExternalWorkload is kept as a Pod is, with other facts. It is one of the
//     slice's namespace, has a proxy on every port, and its zone is the slice's.
//     Whether it is ready only the slice says.
//   - Targets that are neither of these nor bare are left out.
//   - A port is opaque if the annotation, or else the default, says so, or any
//     Server of the Pod's own namespace. Servers and ExternalWorkloads whose
//     writer has given them a form that can't be read count as absent and are
//     reported ([Health]).
//   - Addresses that no API server would accept in a slice (loopback, link-local,
//     multicast, unspecified), and texts that are not UTF-8, are left out:
//     another cluster must not turn our proxies against their own hosts, nor
//     make a message that can't be sent.
//   - A meshed Pod whose proxy does not say where it listens is served without
//     inbound port and counted ([Health]).
//
// Decisions about who has an address, which only a cluster with
// [Config].ProfileChanged knows; others keep nothing of what that takes:
//
//   - First come Services by their cluster IPs, then Pods by their own IP, then
//     Pods by a port of their node, then ExternalWorkloads by IP and declared
//     port. Several in one place have the address as little as none, and that is
//     said. Ports are TCP ports: others never are in the way.
//   - A Pod has its address from when it is given until it ends. It is told of
//     while it runs; before that the address is a bare one.
//   - A Pod that is being deleted but still runs keeps its address for as long
//     as no live Pod claims that and no second one is in its place: whoever talks
//     to it while it drains does not lose sight of who it is.
//   - A hostname is that of the first endpoint that is served or, if there is
//     none, of the first that is not: not ready, or in a slice without ports. (In
//     a StatefulSet, members find each other before they are ready.) A Pod's
//     endpoint is at the Pod's first IP, that of anything else at the slice's
//     address, and at the port that was asked for.
//   - An endpoint that can't be told (no UTF-8, too long) is a bare address.
//
// Decisions about ServiceProfiles:
//
//   - They are translated as they are read, once, and those that can't be are
//     kept with the reason: they are there, but can't be used.
//   - What proxies could not decode (depth, size) can't be used. A timeout that
//     is no duration is left out alone, and reported.
package clusterstore
