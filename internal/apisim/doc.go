// Package apisim is a light Kubernetes API server for tests. It serves lists and watches of the
// kinds that Isthmus reads, over HTTPS and to clients with known tokens. It can misbehave on
// request. Hundreds of servers fit into one process. Tests write objects with Put and Delete, and
// clients write them if the server takes writes. The server does not otherwise validate, default or
// garbage-collect objects.
//
//	s, err := apisim.Start("east", authority)
//	s.Admit("token")
//	err = s.Put(&corev1.Service{…})
//	kubeconfig, err := s.Kubeconfig(s.Addr(), "token")
//
// Clients may rely on the following behavior, which is that of real API servers. A test compares
// the two.
//
//   - The pages of a list show the same moment, in the order of keys.
//   - A watch continues from a list's version without a gap, or ends because the version has
//     expired. It may begin with all objects, followed by a bookmark.
//   - A deletion event has the last state of the object and the version of the deletion.
//   - Responses are in protobuf or JSON, as the client prefers. They contain whole objects or, on
//     request, only their metadata. Objects of CRDs are in JSON.
//   - With TakeWrites, clients can read, create, update and delete single objects. Creating an
//     existing object fails, and so does a write whose version or UID does not match. A Service
//     gets a ClusterIP when a client creates it, and keeps the IP. Objects of CRDs have a status
//     subresource.
//   - A request that fails gets a Status.
//   - API discovery lists the groups and the resources of each version. It has no aggregated form.
//
// All other requests are refused: label selectors, field selectors other than a Secret's type,
// patches, subresources other than the status of CRDs' objects, and deletions of many objects.
package apisim
