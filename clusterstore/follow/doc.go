// Package follow keeps a local copy of objects of an API server: it lists and
// watches them until it is stopped, and reports the health of that. It knows nothing
// about the objects themselves.
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
//   - An object that was read stays in its Store until the API reports it as deleted,
//     or no longer has the kind: it answers 404 for an optional resource, and API
//     discovery confirms that there is none ([Calls].Serves). While the API can't be
//     reached, all objects stay. It is watched again within 10 s of its return,
//     however long it was away.
//   - Every failure is in the Group's Health at once, and is retried after less than
//     4 s; a resource that is optional, and forbidden or absent, within 30 s, and
//     within 10 s of the moment that discovery has it; one that is over budget within
//     30 s or, if finding that out takes long, a minute. Four times in a row it may fail
//     then by the first page of a list, if that announces as many objects as were too many:
//     five minutes, if these have become smaller.
//   - What is kept, and lists and answers of API discovery on their way, never take more than
//     [Options].Budget. A list that is too large changes nothing, and an event that makes
//     the objects too many is left out until the next list. The Group is then unhealthy,
//     whether the resource is needed or not, until it has been watched for some seconds;
//     not if the resource is aside ([Kind].Aside).
//   - Of a Group with a Budget no more than 10,000 events a second are handled, after 20,000
//     at once; the others wait at the server.
//   - A list in which nothing comes any more fails within 10 s if it is streamed, and
//     within 30 s if it comes in pages. (Other timeouts are the client's: see
//     clusterstore/kube.)
//   - A watch by which neither an event nor a bookmark has come for 100 s gives way to
//     a new list, which is no failure; so a watch that has fallen silent is noticed
//     within two minutes. A watch ends at the time that was requested, whether or not
//     the server ends it.
//   - [Resource.Relist] makes a watch give way to a list that the API server reads from its
//     storage; that is no failure either, and no object is missing meanwhile.
//   - No answer of a server makes a resource send more than one request a second, after
//     the first five; only a page of a list is requested at once if the one before
//     brought 50 objects. What the server does to be requested so often is in the
//     Health, and is logged once ([Options].Trouble).
//   - After a new list, the objects that are not in it are dropped last, so that
//     their replacements are there before.
//   - Each object is compacted ([Kind].Compact) as it is decoded, lists included.
//
// [Group.Run] starts one goroutine for each Resource, that of its reflector, and one for
// each watch under way, and waits for them all. Health, Synced and HealthChanged are safe for concurrent use. No lock
// of this package is held while a function of the caller's runs.
//
// It drives client-go's reflectors without informers: an informer would hold every
// object twice, and has a fixed backoff.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package follow
