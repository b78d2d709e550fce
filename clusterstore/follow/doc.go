// Package follow caches objects of an API server. It lists and watches kinds of objects until it is
// stopped, and reports whether it can. The objects themselves are opaque to this package.
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
// What callers may rely on about the cache:
//
//   - An object stays in its Store until the API reports its deletion or drops its kind. An
//     optional kind counts as dropped if the API returns 404 and API discovery confirms that the
//     kind does not exist ([Kind].Serves).
//   - While the API can't be reached, all objects stay.
//   - Each object is compacted ([Kind].Compact) as it is decoded. While a list is being read, only
//     the objects that differ from the Store are staged.
//   - After a list, missing objects are dropped last, so that their replacements are there before.
//   - If an object can't be decoded, its previous version stays, and the Health names the object.
//   - The first sync waits for optional resources until 25 s after [Group.Run]. It does not wait
//     for resources that are forbidden, absent or over budget, or whose kind is [Kind].Unawaited.
//
// About retries:
//
//   - The Health shows every failure immediately. The failed request is retried within 4 s.
//   - A needed resource that may be listed but not watched is retried within 30 s. An optional
//     resource that is forbidden or absent is also retried within 30 s, and within 10 s after API
//     discovery finds it.
//   - A resource that is over budget is retried after four times the duration of its last list, 30
//     s at most.
//   - Once the API can be reached again, all resources are watched within 10 s, however long the
//     outage was.
//   - After an outage of less than a minute, a watch resumes from its last version. A list of one
//     object must first show that the server's version is not lower. A lower version means that the
//     server was restored from a backup, and the objects are listed.
//   - After a longer outage, the objects are always listed, because a restored server could have
//     passed the last version again.
//   - If a server sends Retry-After, the resource sends no request during the pause: up to 60 s for
//     429, and up to 10 s for other codes. The Health shows the end of the pause.
//   - The backoff starts over once a watch has lasted 30 s.
//
// About limits and hostile servers:
//
//   - The larger of the cache and the list that is being read never exceeds the memory cap,
//     [Options].Memory. The same limit applies separately to what lists stage beside the cache.
//   - A list that exceeds the memory cap changes nothing. An event that exceeds the cap is dropped
//     until the next list. Until a list fits, the Group is unhealthy, even if the resource is
//     optional, unless the resource is aside ([Kind].Aside).
//   - A Group with a memory cap handles at most 10,000 events a second, after a burst of 20,000.
//     Objects of lists count as events, except those of a resource's first list. Excess events wait
//     at the server.
//   - Lists are read in pages of 500 objects. A page times out after 30 s, and a list after 5 min.
//     A list that repeats objects soon exceeds the memory cap, because repeated objects count each
//     time. Package kube has the other timeouts.
//   - A watch without an event or a bookmark for 100 s is replaced by a new list and watch, which
//     is not a failure. If the server no longer responds at all, the list fails at most 30 s later.
//   - A watch ends after the requested time, even if the server does not end it.
//   - No response makes a resource send more than one request a second, after the first five. The
//     only exception is a page of a list after a page with at least 50 objects. The Health shows
//     which behavior of the server causes repeated requests, and [Options].Trouble is called once.
//
// [Group.Run] starts one goroutine for each Resource, and waits for all of them. Health, Synced and
// HealthChanged are safe for concurrent use. This package never calls a caller's function while it
// holds a lock that one of these methods needs.
//
// Each goroutine runs the same loop as client-go's Reflector: list, watch, resume, back off
// (resource.go). The package does not use a Reflector, because a Reflector needs lists and events
// as complete objects. A Reflector also decides by itself how to handle each failure, so that
// memory caps and silent servers would have to look like other errors. Each watch of a Reflector
// takes two more goroutines.
//
// ARCHITECTURE.md in the module's root shows how the packages work together.
package follow
