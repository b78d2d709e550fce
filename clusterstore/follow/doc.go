// Package follow caches objects of an API server. The package lists and watches kinds of objects
// until the caller stops it, and reports failures. The package does not interpret the objects.
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
// Callers may rely on the following for the cache:
//
//   - An object stays in its Store until the API reports the object's deletion or drops the
//     object's kind. A kind counts as dropped if it is optional, the API returns 404, and API
//     discovery confirms that the kind does not exist ([Kind].Serves).
//   - While the API is unreachable, all objects stay in the cache.
//   - [Kind].Compact compacts each object as soon as the object is decoded. While a list is being
//     read, only objects that differ from the cached ones are staged in memory.
//   - After a list, the package adds new objects to the Store before it drops missing objects.
//   - If an object cannot be decoded, its previous version stays in the cache, and the Health
//     reports the object's name.
//   - The first sync waits at most 25 s for optional resources. The first sync does not wait for
//     resources that are forbidden, absent or over budget, or whose kind is [Kind].Unawaited.
//
// Callers may rely on the following for retries:
//
//   - The Health shows every failure immediately. Failed requests are usually retried within 4 s.
//   - A needed resource that may be listed but not watched is retried within 30 s.
//   - An optional resource that is forbidden or absent is retried within 30 s. An absent resource
//     is also retried within 10 s after API discovery finds it.
//   - A resource that is over budget is retried after four times the duration of its last list, but
//     after 30 s at most.
//   - All resources are watched again within 10 s after the API becomes reachable, however long the
//     outage was.
//   - After an outage of less than a minute, a watch resumes from its last version, unless the
//     server's version is lower. A lower version means that the server was restored from a backup,
//     so the resource is listed again.
//   - After an outage of a minute or longer, resources are always listed again. After such an
//     outage, a restored server could already have reached the last version again.
//   - If a server sends Retry-After, the resource waits that long before its next request, but at
//     most 60 s after a 429 and 10 s after other codes. The Health shows when the wait ends.
//   - The backoff is reset once a watch has lasted 30 s.
//
// Callers may rely on the following for limits and hostile servers:
//
//   - Neither the cache nor a list that is being read exceeds the memory cap in [Options].Memory.
//     In addition to the cache, lists may stage objects of at most the same total size.
//   - A list that exceeds the memory cap changes nothing. An event that exceeds the cap is not
//     applied, and the resource is listed again. Until a list fits into the cap, the Group is
//     unhealthy, even if the resource is optional. The only exceptions are kinds for which
//     [Kind].Aside is true.
//   - A Group with a memory cap handles at most 10,000 events a second, after a burst of 20,000.
//     Listed objects count as events, except for those of a resource's first list. The server holds
//     back further events.
//   - Lists are read in pages of 500 objects. A page times out after 30 s, and a list times out
//     after 5 min. Package kube sets the other timeouts.
//   - A list that repeats objects soon exceeds the memory cap, because an object counts each time
//     it is listed.
//   - If a watch receives neither an event nor a bookmark for 100 s, the resource is listed and
//     watched again, which does not count as a failure. If the server no longer responds at all,
//     the list fails at most 30 s later.
//   - Every watch ends soon after the requested time, even if the server keeps the watch open.
//   - Whatever a server responds, a resource sends at most one request a second after a burst of
//     five requests. After a page with at least 50 objects, the request for the next page is exempt
//     from this limit.
//   - If a server's behavior causes repeated requests without failures, the Health describes the
//     behavior, and [Options].Trouble is called once.
//
// [Group.Run] starts one goroutine for each Resource, and waits until all of them have ended. The
// methods Health, Synced and HealthChanged are safe for concurrent use. Functions that the caller
// provides may call these three methods, because the package holds no lock during such calls.
//
// Each goroutine runs the same loop as client-go's Reflector (resource.go): the goroutine lists,
// watches, resumes and backs off. The package does not use a Reflector, because a Reflector holds
// whole lists of complete objects in memory. A Reflector also has fixed rules for failures, which
// cannot be extended for memory caps and silent servers. A Reflector also needs two more goroutines
// for each watch.
//
// ARCHITECTURE.md in the module's root shows how the packages work together.
package follow
