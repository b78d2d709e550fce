package cluster

import (
	"slices"
	"strings"
	"testing"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// TestSliceEqual checks that slices are equal only if their addresses have the same hostnames and
// places.
func TestSliceEqual(t *testing.T) {
	data := func(address string) *slice {
		d, ok := compactSlice(aSlice("s", "web", "http=80", address), false, "")
		if !ok {
			t.Fatalf("%s is omitted", address)
		}
		return d
	}
	for _, address := range []string{"10.0.0.1", "10.0.0.1 host=a", "10.0.0.1 zone=a"} {
		if !data(address).alike(data(address), true) {
			t.Errorf("%s is not equal to itself", address)
		}
		if other := data("10.0.0.1 host=b zone=b"); other.alike(data(address), true) ||
			data(address).alike(other, true) {
			t.Errorf("%s is equal to another", address)
		}
	}
	if data("10.0.0.1").alike(data("10.0.0.1 host=a"), true) {
		t.Error("a slice without a hostname is equal to one with a hostname")
	}
}

// TestUnreadyAlone checks that an address that is not ready is not joined with its Pod. Changes of
// the Pod are not reported.
func TestUnreadyAlone(t *testing.T) {
	w := newWorld(t, nil)
	last := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p node=n unready")
	w.put(aService("web", "http=80"), last)
	w.marked()
	w.put(last, aPod("p"), aPod("p", meshed), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p node=n unready hint=a"))
	w.del(aPod("p"))
	if marked := w.marked(); len(marked) > 0 || w.cache.size() != 2 {
		t.Errorf("reported %q, %d objects are cached", marked, w.cache.size())
	}
}

// watching calls look after each object of one kind that is added to the cache.
func watching[O decode.Object, T any](w *world, k follow.Kind[O, T], look func()) {
	k.Changed, k.Same = func(string, T, bool) { look() }, k.Into.(store[T]).same
	r := follow.New(k)
	follow.NewGroup(follow.Options{}, r)
	at := slices.IndexFunc(w.resources, func(r *follow.Resource) bool { return r.Name() == k.Name })
	w.resources[at] = r
}

// TestReplaceAddresses checks that no address becomes ambiguous while a new list replaces the
// cache. The previous object of an address may not have been dropped yet. Objects that the list
// lacks are dropped.
//
// Behaviours: E-24, E-26, E-28, E-31.
func TestReplaceAddresses(t *testing.T) {
	w := newWorld(t, withAddresses)
	looks := 0
	look := func() {
		looks++
		for _, addr := range []string{"10.0.0.1:80", "10.1.0.1:80", "10.2.0.1:80", "192.168.0.1:7777"} {
			if got := w.at(addr); strings.HasPrefix(got, "claimed") {
				t.Errorf("%s is %s", addr, got)
			}
		}
	}
	watching(w, podKind(w.Cluster), look)
	watching(w, serviceKind(w.Cluster), look)
	watching(w, workloadKind(w.Cluster), look)
	for _, name := range []string{"b", "a", "c"} {
		w.store("pods").Replace(aPod(name, at("10.0.0.1"), onHost("192.168.0.1"), namedPort("", 80, 7777)))
		w.store("services").Replace(clusterIP(aService(name), "10.1.0.1"))
		w.store("externalworkloads").Replace(workloadAt(aWorkload(name, "http=80"), "10.2.0.1"))
	}
	if want := "Service ns/c"; looks != 15 || w.at("10.1.0.1:80") != want {
		t.Errorf("look was called %d times; at the end, %s", looks, w.at("10.1.0.1:80"))
	}
	w.store("pods").Replace()
	w.store("services").Replace()
	w.store("externalworkloads").Replace()
	if n := w.cache.size() + w.cache.local.size(); n != 0 {
		t.Errorf("%d objects are still cached", n)
	}
}

// TestReplaceKeeps checks that a new list adds replacements before it drops the old objects.
func TestReplaceKeeps(t *testing.T) {
	const profile = "web.ns.svc.cluster.local"
	w := newWorld(t, withAddresses)
	theirs, mine := aProfile("web.ns", `{}`), aProfile("web.ns", `{}`)
	mine.Namespace = "client"
	w.put(aService("web", "http=80"), aPod("p", at("10.0.0.1")), aServer("s", "8080", ""), mine,
		aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 pod=q", "10.0.0.3 ew=v", "10.0.0.4 ew=w"))
	looks := 0
	look := func() {
		looks++
		share := w.read("web", 80)
		if len(share.Slices) == 0 {
			t.Fatal("the share has no endpoints")
		}
		for _, e := range share.Slices[0].Endpoints {
			if e.Kind == federation.Pod && !e.Opaque {
				t.Errorf("%v is not opaque", e.Addr)
			}
		}
		_, hasMine := w.ServiceProfile("client", profile)
		if _, hasTheirs := w.ServiceProfile("ns", profile); !hasMine && !hasTheirs {
			t.Error("the ServiceProfile is missing")
		}
	}
	watching(w, podKind(w.Cluster), look)
	watching(w, serverKind(w.Cluster), look)
	watching(w, workloadKind(w.Cluster), look)
	watching(w, profileKind(w.Cluster), look)
	w.store("pods").Replace(aPod("q", at("10.0.0.2")))
	w.store("servers").Replace(aServer("t", "8080", ""))
	w.store("externalworkloads").Replace(aWorkload("v"))
	w.store("pods").Replace()
	w.store("externalworkloads").Replace(aWorkload("w"))
	w.store("serviceprofiles").Replace(theirs)
	if looks != 10 {
		t.Errorf("look was called %d times", looks)
	}
}

// TestReplaceMoved checks that an address is served without interruption when a new list moves the
// address to another slice.
func TestReplaceMoved(t *testing.T) {
	w := newWorld(t, nil)
	w.put(
		aService("web", "http=80"),
		aSlice("a", "web", "http=8080", "10.0.0.1"),
		aSlice("b", "web", "http=8080", "10.0.0.2"),
	)
	looks := 0
	watching(w, endpointSliceKind(w.Cluster), func() {
		looks++
		for _, want := range []string{"10.0.0.1:8080", "10.0.0.2:8080"} {
			if !slices.ContainsFunc(w.read("web", 80).Slices, func(s *federation.Slice) bool {
				return slices.ContainsFunc(
					s.Endpoints,
					func(e *federation.Endpoint) bool { return e.Addr.String() == want },
				)
			}) {
				t.Errorf("%s is missing", want)
			}
		}
	})
	w.store("endpointslices").
		Replace(aSlice("a", "web", "http=8080"), aSlice("c", "other", "http=8080"),
			aSlice("b", "web", "http=8080", "10.0.0.2", "10.0.0.1"))
	w.store("endpointslices").
		Replace(aSlice("a", "web", "http=8080", "10.0.0.1", "10.0.0.2"), aSlice("b", "web", "http=8080"))
	if looks != 6 { // one of them when a slice is dropped
		t.Errorf("look was called %d times", looks)
	}
}
