// Package apisim provides a lightweight Kubernetes API server for tests. A server handles list and
// watch requests for the kinds that Isthmus reads. The requests use HTTPS and must contain a known
// token. Tests can make a server misbehave. One process can run hundreds of servers. Tests change
// objects with Put and Delete. Clients can also change objects if the test has called TakeWrites.
// Except for the behavior below, servers do not validate objects, set default values or collect
// garbage.
//
//	s, err := apisim.Start("east", authority)
//	s.Admit("token")
//	err = s.Put(&corev1.Service{…})
//	kubeconfig, err := s.Kubeconfig(s.Addr(), "token")
//
// Clients may rely on the following behavior. A test verifies that real API servers behave in the
// same way.
//
//   - All pages of a list reflect the state at the same point in time. Objects are sorted by key.
//   - A watch that starts at the version of a list either delivers every later event or ends
//     because the version has expired.
//   - A watch may begin with all existing objects, followed by a bookmark.
//   - A DELETED event contains the last state of the object and the version of the deletion.
//   - Responses are encoded in protobuf or JSON, as the client requests. Custom resources are
//     always encoded in JSON. If the client requests only metadata, responses do not contain whole
//     objects.
//   - After a call to TakeWrites, clients can read, create, update and delete individual objects.
//   - A request to create an object fails if the object already exists. A write fails if its
//     version or UID does not match that of the existing object.
//   - When a client creates a Service, the server assigns a permanent ClusterIP.
//   - Custom resources have a status subresource.
//   - The response to a failed request contains a Status.
//   - API discovery lists the API groups, and the resources in each version. Aggregated discovery
//     is not supported.
//
// The server rejects all other requests, such as patches and requests to delete several objects.
// The only supported field selector is the type of a Secret, and the only subresource is the status
// of a custom resource.
package apisim
