// Package pod runs the gateway as the container of a Pod would: by what the Pod's template gives it and nothing else.
//
//	p, err := pod.New(ctx, pod.Config{Template: deployment.Spec.Template, Container: "isthmus", …})
//	...
//	defer p.Close()
//	g, err := gateway.Start(ctx, gateway.Config{Pod: p.Gateway()})
//
// There is no kubelet here, so this package does what one does:
//
//   - Arguments are the container's, with variables filled in. The environment is the container's, HOSTNAME and the address
//     of the API server.
//   - The file system is a folder with the binary, for the image, and the ServiceAccount's token where the template mounts
//     it. Nothing in it can be written if the template asks for that.
//   - The user is the one that the template names.
//
// What it does not know of a template is an error: a test must not pass because something was left out. Addresses are those that
// package gateway chooses; there is no limit of memory, and no /proc.
package pod
