// Package follow reads objects of an API server and keeps up with their changes:
// it lists and watches, for as long as it takes, and says how that goes. It knows
// nothing of what the objects are about.
//
//	pods := follow.New(follow.Kind[*corev1.Pod, string]{
//		Name: "pods", Needed: true,
//		Calls:   follow.CallsOf(client.CoreV1().Pods("")),
//		Compact: func(o *corev1.Pod) (string, bool) { return o.Status.PodIP, true },
//		Into:    ips, // a follow.Store[string]
//	})
//	follow.NewGroup(follow.Options{}, pods).Run(ctx, nil)
//
// What callers may rely on:
//
//   - What has been read stays in its Store until the API says that it is gone. A
//     lost API takes nothing away, and is followed again within 10 s of its return,
//     however long that took.
//   - Every failure is in the Group's Health at once, and is tried again after less
//     than 4 s; a resource that is not needed, and forbidden or absent, within 30 s.
//   - A list that falls silent is a failure within 10 s if it is streamed, and
//     within 30 s if it comes in pages. (Other silences are for the client to find:
//     see clusterstore/kube.)
//   - Of a new list, what is not in it is dropped last: what takes its place is
//     there before.
//   - Each object is made small as it is decoded, lists included.
//
// Each Resource has one goroutine, that of its reflector, and all are those of
// [Group.Run], which waits for them. Health is safe for concurrent use. A lock of
// this package is never held while a function of the caller's runs.
//
// It drives client-go's reflectors without informers: an informer on top would
// hold every object twice, and fix how long failures back off.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package follow
