// Package follow lists and watches the objects of an API server, caches them in the caller's
// Stores, and reports failures. The package does not interpret the objects.
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
// The following rules apply to the cache:
//
//   - An object stays in its Store until the API server reports its deletion. If API discovery
//     confirms that an optional kind no longer exists, all objects of the kind are dropped
//     ([Kind].Serves).
//   - While the API server is unreachable, all objects stay in the cache.
//   - Each object is compacted as soon as it is decoded ([Kind].Compact). While a list is being
//     read, only objects that differ from the cached ones are staged in memory.
//   - After a list, new objects are added to the Store before missing objects are dropped.
//   - If an object cannot be decoded, its previous version stays in the cache, and [Group.Health]
//     reports the object as refused.
//   - The first sync waits up to 25 s for optional resources. The first sync does not wait for an
//     optional resource that is forbidden, absent or over budget, or whose [Kind].Unawaited is
//     true.
//
// The following rules apply to retries:
//
//   - [Group.Health] shows every failure immediately. Most failed requests are retried within 4 s.
//   - If Isthmus has permission to list a required resource but not to watch it, the resource is
//     listed again within 30 s.
//   - If an optional resource is forbidden or absent, Isthmus tries to list the resource again
//     within 30 s. Once an absent optional resource appears in API discovery, Isthmus tries to list
//     the resource within 10 s.
//   - If a resource is over budget, Isthmus pauses for about four times the duration of the last
//     list, and then lists the resource again. The pause is at least 5 s and at most 34 s.
//   - All resources are watched again within 10 s after the API server becomes reachable, however
//     long the outage was.
//   - After an outage of less than a minute, a watch resumes from its last version. If the server's
//     current version is lower than the watch's last version, the server must have been restored
//     from a backup, so the resource is listed again.
//   - After an outage of more than a minute, resources are always listed again, because the version
//     of a restored server may have caught up with the watch's last version.
//   - If the server sends Retry-After, the resource waits that long before its next request, up to
//     60 s after a 429 and up to 10 s after other codes. While a resource waits, [Group.Health]
//     shows when the wait ends.
//   - The backoff is reset once a watch has lasted 30 s.
//
// The following limits hold even if the server is hostile:
//
//   - The cache and the list that is being read each stay within the memory cap in
//     [Options].Memory. A separate limit of the same size applies to staged objects, which are held
//     outside the cache until their list is complete.
//   - A list that exceeds the memory cap changes nothing. An event that exceeds the cap is not
//     applied, and the resource is listed again. Until a list fits within the cap, the Group is
//     unhealthy, even if the resource is optional. A resource for which [Kind].Aside is true never
//     makes its Group unhealthy.
//   - A Group with a memory cap handles at most 10,000 events per second, after a burst of 20,000.
//     The objects in a list count as events, except those in a resource's first list. While the
//     rate limit delays a Group, further events remain on the server.
//   - Lists are read in pages of 500 objects. A page times out after 30 s, and a list after 5 min.
//     Package kube sets the other timeouts.
//   - If a list repeats objects, it soon exceeds the memory cap, because each repetition counts
//     against the cap.
//   - If a watch receives neither an event nor a bookmark for 100 s, the resource is listed and
//     watched again. A silent watch is not a failure. If the server no longer responds at all, the
//     list request that follows a silent watch fails within 30 s.
//   - Every watch ends soon after its requested timeout, even if the server keeps the watch open.
//   - After a burst of five requests, at most one request per second is sent for each resource,
//     regardless of the server's responses. This rate limit does not apply to the request for the
//     next page of a list if the previous page had at least 50 objects.
//   - If unusual behavior of the API server, such as closing watches early, makes Isthmus repeat
//     requests, [Group.Health] describes the behavior. [Options].Trouble is called once for each
//     kind of unusual behavior, and again only if the behavior recurs after several minutes.
//
// [Group.Run] starts one goroutine per Resource, and waits for all of them to end. The methods
// Health, Synced and HealthChanged are safe for concurrent use. Callbacks may call Health, Synced
// and HealthChanged, because the package does not hold a lock during a callback.
//
// The list-and-watch loop in resource.go replaces client-go's Reflector, which holds whole lists of
// complete objects in memory. A Reflector also needs two more goroutines per watch, and its fixed
// rules for failures do not cover memory caps or silent servers.
//
// ARCHITECTURE.md in the module's root shows how the packages work together.
package follow
