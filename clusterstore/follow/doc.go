// Package follow keeps a local copy of objects of an API server: it lists and
// watches them until it is stopped, and reports the health of that. It knows nothing
// about the objects themselves.
//
//	pods := follow.New(follow.Kind[*corev1.Pod, string]{
//		Name: "pods", Needed: true,
//		Source:  client.Sources.Pods,
//		Compact: func(o *corev1.Pod) (string, bool) { return strings.Clone(o.Status.PodIP), true },
//		Same:    func(a, b string) bool { return a == b },
//		Into:    ips, // a follow.Store[string]
//	})
//	follow.NewGroup(follow.Options{}, pods).Run(ctx, nil)
//
// What callers may rely on:
//
//   - An object that was read stays in its Store until the API reports it as deleted,
//     or no longer has the kind: it answers 404 for an optional resource, and API
//     discovery confirms that there is none ([Kind].Serves). While the API can't be
//     reached, all objects stay. It is watched again within 10 s of its return,
//     however long it was away.
//   - Every failure is in the Group's Health at once, and is retried after less than 4 s. A needed
//     resource that may be listed and not watched is retried within 30 s. An optional resource that
//     is forbidden or absent is retried within 30 s, and within 10 s of the moment that discovery
//     has it. A resource that is over budget is retried after four times as long as reading it
//     took, 30 s at most.
//   - After an outage of less than a minute, a watch resumes from its last version if a list of one
//     object shows that the server's version is not lower. If the version is lower, the server was
//     restored from a backup, and the objects are listed. After a longer outage the objects are
//     always listed, since a restored server could have passed the last version again.
//   - A server that asks for a pause by Retry-After gets no request of the resource during the
//     pause: up to 60 s for 429, and up to 10 s otherwise. The Health shows when the pause ends.
//   - The backoff starts over once a watch has lasted for 30 s.
//   - The first sync waits for optional resources that can't be listed, until 25 s after
//     [Group.Run], unless they are forbidden, absent, over budget, or of a kind that is
//     [Kind].Unawaited.
//   - What is cached, or the list that is being read if that is larger, never takes more than the
//     memory cap, [Options].Memory, and what lists stage beside the cache takes no more than that either.
//     A list that is too large changes nothing, and an event that makes
//     the objects too many is left out until the next list. The Group is then unhealthy,
//     whether the resource is needed or not, until a list fits;
//     not if the resource is aside ([Kind].Aside).
//   - Of an object that can't be decoded the version that was read before stays, and the Health has it.
//   - Of a Group with a memory cap no more than 10,000 events a second are handled, after 20,000
//     at once. Objects of lists count as events, except those of a resource's first list. The other events wait at the server.
//   - Lists are read in pages of 500 objects. A page fails after 30 s, and a list after 5 min. A list that repeats
//     objects is over budget before: each object of a list counts each time that it comes. Package kube has the
//     other timeouts.
//   - A watch that brings neither an event nor a bookmark for 100 s is replaced by a new list and
//     watch. That is no failure. If the server no longer answers at all, the list fails at most 30 s
//     later. A watch ends at the time that was requested, whether or not the server ends it.
//   - No answer of a server makes a resource send more than one request a second, after
//     the first five; only a page of a list is requested at once if the one before
//     brought 50 objects. What the server does to be requested so often is in the
//     Health, and is logged once ([Options].Trouble).
//   - After a new list, the objects that are not in it are dropped last, so that
//     their replacements are there before.
//   - Each object is compacted ([Kind].Compact) as it is decoded, lists included: of a list just what differs from
//     the Store is held until its end.
//
// [Group.Run] starts one goroutine for each Resource, and waits for them all. Health, Synced and HealthChanged are safe
// for concurrent use. While a function of the caller runs, this package holds no lock that one of these takes.
//
// The goroutine runs the loop of client-go's Reflector: list, watch, resume, back off (resource.go). The
// package does not use a Reflector, which needs lists and events as complete objects. A Reflector also
// decides by itself which failures are worth a list, a pause or nothing, so that memory caps and silent
// servers would have to look like other errors. It has two more goroutines for each watch.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package follow
