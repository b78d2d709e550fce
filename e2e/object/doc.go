// Package object builds the Kubernetes objects that tests, the simulator, the benchmark and the demo write: plain functions
// that return a new object with what nearly everybody needs. Callers set the rest on the object itself:
//
//	pod := object.Mesh(object.Pod("shop", "web-1", "web"))
//	pod.Annotations = map[string]string{"config.linkerd.io/opaque-ports": "8080"}
//	slice := object.Slice("shop", "web", "1", object.PodEndpoint("10.1.0.1", "shop", pod.Name))
//
// The objects are valid for a real API server. Labels, annotations, the proxy's container and link Secrets have the names
// that Linkerd gives them. Services have port 80, called http, and their EndpointSlices port 8080 of that name.
//
// Kinds that client-go has no types for are unstructured. Nothing is shared between two objects.
package object
