package local

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/spec"
)

var shopWeb = federation.ServiceID{Namespace: "shop", Name: "web"}

// render formats a definition as "federated" or "single" and its members.
func render(d *federation.Definition) string {
	words := []string{"single"}
	if d.Federated {
		words[0] = "federated"
	}
	for _, m := range d.Members {
		words = append(words, m.String())
	}
	return strings.Join(words, " ")
}

func TestDefine(t *testing.T) {
	annotations := func(local, remote string) *cluster.Service {
		return &cluster.Service{Annotations: map[string]string{localDiscovery: local, remoteDiscovery: remote}}
	}
	only := func(key, value string) *cluster.Service {
		return &cluster.Service{Annotations: map[string]string{key: value}}
	}
	labels := func(kv ...string) *cluster.Service {
		s := &cluster.Service{Labels: map[string]string{}}
		for i := 0; i < len(kv); i += 2 {
			s.Labels[kv[i]] = kv[i+1]
		}
		return s
	}
	both := annotations("bb", "")
	both.Labels = map[string]string{remoteDiscovery: "east", remoteService: "x"}

	for name, tt := range map[string]struct {
		svc      *cluster.Service
		want     string
		problems int
	}{
		"plain":             {&cluster.Service{}, "single shop/web@local", 0},
		"other annotations": {only("multicluster.linkerd.io/else", "x@east"), "single shop/web@local", 0},
		"local only":        {only(localDiscovery, "bb"), "federated shop/bb@local", 0},
		"local with spaces": {only(localDiscovery, " bb "), "federated shop/bb@local", 0},
		"local empty":       {only(localDiscovery, ""), "federated", 0},
		"local invalid":     {only(localDiscovery, "bb,cc"), "federated", 1},
		"remote only":       {only(remoteDiscovery, "bb@east"), "federated shop/bb@east", 0},
		"remote empty":      {only(remoteDiscovery, ""), "federated", 0},
		"remote spaces":     {only(remoteDiscovery, "  "), "federated", 0},
		"local first, then in order": {
			annotations("bb", "bb@north,bb@east"), "federated shop/bb@local shop/bb@north shop/bb@east", 0,
		},
		"spaces around items": {
			only(remoteDiscovery, " bb@east , bb@north "), "federated shop/bb@east shop/bb@north", 0,
		},
		"duplicates count once": {
			only(remoteDiscovery, "bb@east,bb@north, bb@east"), "federated shop/bb@east shop/bb@north", 0,
		},
		"two services, one cluster": {
			only(remoteDiscovery, "bb@east,cc@east"), "federated shop/bb@east shop/cc@east", 0,
		},
		"invalid ones between": {
			annotations("bb", "a@b@c,,bb,@,a@,@b,bb@east"), "federated shop/bb@local shop/bb@east", 6,
		},
		"blanks inside":              {only(remoteDiscovery, "bb @east,bb@ east"), "federated", 2},
		"other namespace":            {only(remoteDiscovery, "ns/bb@east"), "federated", 1},
		"upper case":                 {only(remoteDiscovery, "BB@east,bb@East"), "federated shop/bb@East", 1},
		"local is no remote cluster": {only(remoteDiscovery, "bb@local"), "federated", 1},
		"itself":                     {only(localDiscovery, "web"), "federated shop/web@local", 0},
		"annotations win":            {both, "federated shop/bb@local", 0},
		"mirror":                     {labels(remoteDiscovery, "east", remoteService, "bb"), "single shop/bb@east", 0},
		"mirror of nothing":          {labels(remoteDiscovery, "east"), "single", 1},
		"mirror of an empty name":    {labels(remoteDiscovery, "east", remoteService, ""), "single", 1},
		"mirror of no cluster":       {labels(remoteDiscovery, "", remoteService, "bb"), "single shop/web@local", 1},
		"remote-service alone":       {labels(remoteService, "bb"), "single shop/web@local", 0},
	} {
		d, problems := define(shopWeb, tt.svc, &federation.Preference{})
		if got := render(d); got != tt.want || len(problems) != tt.problems {
			t.Errorf(
				"%s: %q, want %q; %d problems, want %d: %q",
				name,
				got,
				tt.want,
				len(problems),
				tt.problems,
				problems,
			)
		}
	}
}

// TestDefineReference compares the definitions of Services with random labels and annotations with
// package spec.
func TestDefineReference(t *testing.T) {
	drawName := rapid.SampledFrom([]string{"bb", "cc", " bb ", "BB", "b b", "", "-b", "b.b", "bb,cc"})
	drawCluster := rapid.SampledFrom([]string{"east", "East", "local", "", "e@st", " west ", "a b"})
	drawItem := rapid.Custom(func(t *rapid.T) string {
		return drawName.Draw(t, "service") + rapid.SampledFrom([]string{"@", "@", "@", ""}).Draw(t, "separator") +
			drawCluster.Draw(t, "cluster")
	})
	rapid.Check(t, func(t *rapid.T) {
		svc := &cluster.Service{Labels: map[string]string{}, Annotations: map[string]string{}}
		maybe := func(all map[string]string, key, value string) {
			if rapid.Bool().Draw(t, key) {
				all[key] = value
			}
		}
		maybe(svc.Annotations, localDiscovery, drawName.Draw(t, "local"))
		maybe(svc.Annotations, remoteDiscovery, strings.Join(rapid.SliceOfN(drawItem, 0, 4).Draw(t, "items"), ","))
		maybe(svc.Labels, remoteDiscovery, rapid.SampledFrom([]string{"east", ""}).Draw(t, "of cluster"))
		maybe(svc.Labels, remoteService, rapid.SampledFrom([]string{"bb", ""}).Draw(t, "of service"))
		want := spec.Define(shopWeb.Name, svc.Labels, svc.Annotations)
		d, _ := define(shopWeb, svc, &federation.Preference{})
		got := spec.Definition{Federated: d.Federated}
		for _, m := range d.Members {
			got.Members = append(got.Members, spec.MemberName{Cluster: string(m.Cluster), Service: m.Service.Name})
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q and %q: %+v, want %+v", svc.Labels, svc.Annotations, got, want)
		}
	})
}

func TestManyProblemsAreCut(t *testing.T) {
	items := make([]string, 1000)
	for i := range items {
		items[i] = strings.Repeat("x", 200+i)
	}
	_, problems := defineFederated("shop", "", strings.Join(items, ","))
	total := 0
	for _, p := range problems {
		total += len(p)
	}
	if total > 10_000 {
		t.Errorf("%d problems take %d bytes", len(problems), total)
	}
}

// FuzzDefineFederated checks that members are well-formed, in order and without duplicates for any
// annotations. A well-formed list is used unchanged.
func FuzzDefineFederated(f *testing.F) {
	f.Add("bb", "bb@east,bb@north")
	f.Add("", " a@b , c@d@e,,@,x@")
	f.Add("a b", "a@\x00,\xff@b,a@local")
	f.Fuzz(func(t *testing.T, local, remote string) {
		d, problems := defineFederated("shop", local, remote)
		if !d.Federated {
			t.Fatal("not federated")
		}
		var items []string
		for i, m := range d.Members {
			if slices.Contains(d.Members[:i], m) {
				t.Fatalf("member %v is duplicated", m)
			}
			if m.Service.Namespace != "shop" || m.Service.Name == "" ||
				strings.ContainsAny(m.Service.Name+string(m.Cluster), "@, ") {
				t.Fatalf("member %q", m)
			}
			if m.Cluster == federation.Local {
				if i > 0 || m.Service.Name != strings.TrimSpace(local) {
					t.Fatalf("local member %v at %d", m, i)
				}
				continue
			}
			items = append(items, m.Service.Name+"@"+string(m.Cluster))
			if !strings.Contains(remote, items[len(items)-1]) {
				t.Fatalf("%v is not in %q", m, remote)
			}
		}
		if len(problems) == 0 && strings.TrimSpace(local) != "" &&
			(len(d.Members) == 0 || d.Members[0].Cluster != federation.Local) {
			t.Fatal("the local member is missing without a problem")
		}
		again, more := defineFederated("shop", local, strings.Join(items, ","))
		if !slices.Equal(again.Members, d.Members) || len(more) > len(problems) {
			t.Fatalf("parsed again: %v, want %v", again.Members, d.Members)
		}
	})
}

// TestTooManyMembers checks that an annotation with thousands of members yields bounded lists of
// members and problems.
func TestTooManyMembers(t *testing.T) {
	for name, item := range map[string]func(int) string{
		"members":        func(i int) string { return fmt.Sprintf("web@c%d", i) },
		"the same":       func(int) string { return "web@east" },
		"nothing usable": func(int) string { return "-" },
	} {
		var items []string
		for i := range 30_000 {
			items = append(items, item(i))
		}
		d, problems := defineFederated("shop", "web", strings.Join(items, ","))
		if len(d.Members) > maxMembers || len(problems) == 0 || len(problems) > 11 {
			t.Errorf("%s: %d members, %d problems", name, len(d.Members), len(problems))
		}
		if last := problems[len(problems)-1]; !slices.ContainsFunc(
			problems,
			func(p string) bool { return strings.Contains(p, "the rest is ignored") },
		) {
			t.Errorf("%s: no problem reports the ignored rest; the last is %s", name, last)
		}
	}
}

// TestDefineStrict checks that a Service with the full mark is strict, and imported if it is
// derived from a ServiceImport. A copy of such a Service is neither.
func TestDefineStrict(t *testing.T) {
	for name, tt := range map[string]struct {
		by, as string
		want   bool
	}{
		"written":          {"linkerd", "Service shop/web", true},
		"of another one":   {"other", "Service shop/web", true},
		"label alone":      {"linkerd", "", false},
		"annotation alone": {"", "Service shop/web", false},
		"copied":           {"linkerd", "Service shop/api", false},
		"other kind":       {"linkerd", "ServiceImport shop/web", false},
	} {
		d, _ := define(shopWeb, &cluster.Service{
			Labels: map[string]string{
				remoteDiscovery:         "east",
				remoteService:           "web",
				"isthmus.io/written-by": tt.by,
			},
			Annotations: map[string]string{"isthmus.io/written-as": tt.as},
		}, &federation.Preference{})
		if d.Strict != tt.want || d.Imported {
			t.Errorf("%s: strict is %v, imported %v", name, d.Strict, d.Imported)
		}
		derived := federation.ServiceID{Namespace: "shop", Name: "web-clusterset"}
		d, _ = define(derived, &cluster.Service{
			Labels: map[string]string{
				"multicluster.kubernetes.io/service-name": "web",
				"isthmus.io/written-by":                   tt.by,
			},
			Annotations: map[string]string{
				"isthmus.io/written-as": strings.Replace(tt.as, "shop/web", "shop/web-clusterset", 1),
			},
		}, &federation.Preference{})
		if d.Imported != tt.want {
			t.Errorf("%s: imported is %v", name, d.Imported)
		}
	}
}

// slowReader is a source whose reads take a while.
type slowReader struct {
	time.Duration
	slices []*federation.Slice
	mu     sync.Mutex
	reads  int
}

func (s *slowReader) State(federation.ServiceID) federation.ServiceState { return federation.Present }

func (s *slowReader) Declares(federation.ServiceID, uint16) bool { return true }

func (s *slowReader) Reader(federation.ServiceID, uint16) federation.Reader {
	return s
}

func (s *slowReader) Read() federation.Share {
	time.Sleep(s.Duration)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return federation.Share{State: federation.Present, Slices: s.slices}
}

// TestDefinedBeforeReady checks that all Services are defined once the cluster is synced.
func TestDefinedBeforeReady(t *testing.T) {
	inBubble(t, func(e *env) {
		w := e.table.Watch(federation.Key{Service: shopWeb, Port: 80})
		defer w.Close()
		e.service(shopWeb, &cluster.Service{})
		close(e.cluster.synced)
		<-e.local.Synced()
		if set, _ := w.Get(); !set.Exists {
			t.Error("a Service is not defined")
		}
	})
}

// TestDefinitionsCollapse checks a Service that changes ten times a second while its definition
// takes a second. Changes are collapsed, the newest definition wins, and Services of other
// namespaces do not wait.
func TestDefinitionsCollapse(t *testing.T) {
	inBubble(t, func(e *env) {
		slow := &slowReader{Duration: time.Second}
		e.table.Link("far", federation.Ready, slow)
		e.table.Link("farther", federation.Ready, slow)
		e.sync()
		w := e.table.Watch(federation.Key{Service: shopWeb, Port: 80})
		defer w.Close()
		other := federation.ServiceID{Namespace: "other", Name: "web"}
		defined := e.table.Watch(federation.Key{Service: other, Port: 80})
		defer defined.Close()
		for i := range 101 { // 10 s
			item := []string{"web@far", "web@farther"}[i%2]
			e.change(shopWeb, &cluster.Service{Annotations: map[string]string{remoteDiscovery: item}})
			time.Sleep(100 * time.Millisecond)
		}
		e.service(other, &cluster.Service{})
		if set, _ := defined.Get(); !set.Exists {
			t.Error("a Service of another namespace is not defined")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if members := membersOf(e, shopWeb); len(members) != 1 || members[0].Member.Cluster != "far" ||
			slow.reads > 12 {
			t.Errorf("members %+v, after %d definitions", members, slow.reads)
		}
	})
}

// TestOwnersChange checks that an address assigned to a local object is removed from linked
// clusters. The owner is looked up only if it may have changed.
func TestOwnersChange(t *testing.T) {
	inBubble(t, func(e *env) {
		addr := netip.MustParseAddrPort(podAddr)
		e.table.Link(
			"far",
			federation.Ready,
			&slowReader{slices: []*federation.Slice{{Endpoints: []*federation.Endpoint{{Addr: addr, Cluster: "far"}}}}},
		)
		e.service(shopWeb, &cluster.Service{Annotations: map[string]string{remoteDiscovery: "web@far"}})
		e.sync()
		w := e.table.Watch(federation.Key{Service: shopWeb, Port: 80})
		defer w.Close()
		e.cluster.owners = map[netip.Addr]string{addr.Addr(): "Pod shop/web-1"}
		for _, owner := range []bool{false, true} {
			e.cluster.asked = 0
			e.cluster.own.ProfileChanged(cluster.Topic{IP: addr.Addr(), AddressOwner: owner}, time.Now())
			synctest.Wait()
			if set, _ := w.Get(); (e.cluster.asked > 0) != owner || (len(set.Endpoints) == 0) != owner {
				t.Errorf("owner changed: %v; %d lookups, %d endpoints", owner, e.cluster.asked, len(set.Endpoints))
			}
		}
	})
}

// membersOf returns the members of a watched Service.
func membersOf(e *env, id federation.ServiceID) []federation.WatchedMember {
	for _, port := range e.table.Watched() {
		if port.Service == id {
			return port.Members
		}
	}
	return nil
}
