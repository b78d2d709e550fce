package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// expensive gives a Server's selector many requirements. No Pod has the labels, so all requirements
// must be checked.
func expensive(terms int) func(*decode.Server) {
	return odd(func(s *decode.ServerSpec) {
		for i := range terms {
			s.PodSelector.MatchExpressions = append(s.PodSelector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: fmt.Sprintf("absent-%03d", i), Operator: metav1.LabelSelectorOpDoesNotExist,
			})
		}
	})
}

// TestTooMuchPolicy checks that Servers beyond the maximum cost of a namespace's policy are
// ignored. Servers count in the order of their names, not of their arrival. The problem is
// reported, and logged once whenever it begins. Other namespaces are not affected.
func TestTooMuchPolicy(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		logs, lines := observer.New(zap.WarnLevel)
		w := newWorld(t, func(c *Config) { c.Log = zap.New(logs) })
		w.put(aService("web"), aPod("p", podLabel("app", "web")), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"))
		const used = maxPolicy / 500 // each Server costs 1 + 499
		port := func(i int) uint16 { return uint16(8000 + i) }
		var all []*decode.Server
		for i := range used + 2 {
			all = append(all, aServer(fmt.Sprintf("s%02d", i), fmt.Sprint(port(i)), "", expensive(499)))
		}
		if reverse {
			slices.Reverse(all)
		}
		for _, s := range all {
			w.put(s)
		}
		check := func(what string, first, last int) {
			t.Helper()
			for i := range used + 2 {
				if got, want := w.opaqueAt(port(i)) != "", first <= i && i < last; got != want {
					t.Errorf("reverse %v, %s: port of Server %d is opaque: %v", reverse, what, i, got)
				}
			}
		}
		check("two too many", 0, used)
		w.put(aServer("s", "8080", "", in("other")))
		unusable := w.Health().Unusable
		if len(unusable) != 1 ||
			!strings.HasPrefix(
				unusable[0],
				"Servers of namespace ns: evaluating the 22 Servers that make ports opaque "+
					"would have a total cost of 11000 ",
			) {
			t.Errorf("reported: %q", unusable)
		}
		w.marked()
		w.del(aServer("s00", "", ""))
		if got := w.marked(); len(got) != 1 {
			t.Errorf("marked: %q", got)
		}
		check("one too many", 1, used+1)
		w.put(aServer("s01", "", "", protocol("HTTP/2")))
		check("all are used", 2, used+2)
		if unusable := w.Health().Unusable; len(unusable) != 0 {
			t.Errorf("reported: %q", unusable)
		}
		if n := lines.Len(); n != 1 || lines.All()[0].ContextMap()["namespace"] != "ns" {
			t.Errorf("logged: %v", lines.All())
		}
		w.put(aServer("s01", fmt.Sprint(port(1)), "", expensive(499)))
		w.put(aServer("s02", fmt.Sprint(port(2)), "", expensive(498)))
		if n := lines.Len(); n != 2 {
			t.Errorf("logged after the problem has begun again: %v", lines.All())
		}
	}
}

// TestTooMuchPolicyAtStart checks that Servers beyond the maximum cost are logged once, even if
// they exist before the first sync.
func TestTooMuchPolicyAtStart(t *testing.T) {
	logs, lines := observer.New(zap.WarnLevel)
	cfg := testConfig()
	cfg.Log = zap.New(logs)
	w := &world{t: t, Local: newOn(newFakeAPI(), cfg)}
	for i := range maxPolicy/500 + 1 {
		s := aServer(fmt.Sprintf("s%02d", i), "8080", "", expensive(499))
		w.feed(s).Update(s)
	}
	w.goLive()
	w.evaluate()
	if w.evaluate(); lines.Len() != 1 {
		t.Errorf("logged: %v", lines.All())
	}
}

// TestPolicyMeanwhile checks that Pods keep their opaque ports until a worker has evaluated a
// change of Servers. A changed Pod is evaluated before readers see the change.
func TestPolicyMeanwhile(t *testing.T) {
	w := newWorld(t, nil)
	w.put(
		aService("web"),
		aPod("p", podLabel("app", "web")),
		aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 pod=q"),
	)
	w.marked()
	const p, q = "10.0.0.1:8080", "10.0.0.2:8080"
	put := func(o metav1.Object) func() { return func() { w.feed(o).Update(o) } }
	for _, x := range []struct {
		name     string
		change   func()
		at, then string // opaque ports at first and at the end
	}{
		{"the first Server", put(aServer("s", "8080", "app=web")), "", p},
		{"another port", put(aServer("s", "8081", "app=web")), p, ""},
		{"a new Pod", put(aPod("q", podLabel("app", "web"))), "", ""},
		{"back", put(aServer("s", "8080", "app=web")), "", p + " " + q},
		{"relabelled", put(aPod("p")), q, q},
		{"labelled as before", put(aPod("p", podLabel("app", "web"))), p + " " + q, p + " " + q},
		{"another annotation",
			put(aPod("p", podLabel("app", "web"),
				func(o *corev1.Pod) { o.Annotations = with(nil, opaqueAnnotation, "1") })), p + " " + q, p + " " + q},
		{"another node", put(aPod("q", podLabel("app", "web"), func(o *corev1.Pod) { o.Spec.NodeName = "node-2" })),
			p + " " + q, p + " " + q},
		{"gone", func() { w.store("servers").Delete(aServer("s", "", "")) }, "", ""},
	} {
		x.change()
		if got := w.opaqueAt(8080); got != x.at {
			t.Errorf("%s: at first, %q is opaque, want %q", x.name, got, x.at)
		}
		if w.marked(); w.opaqueAt(8080) != x.then {
			t.Errorf("%s: at the end, %q is opaque, want %q", x.name, w.opaqueAt(8080), x.then)
		}
	}
}

// TestPolicyBeforeSync checks that objects read before the first sync are evaluated at the sync.
func TestPolicyBeforeSync(t *testing.T) {
	w := &world{t: t, Local: newOn(newFakeAPI(), testConfig())}
	for _, o := range []metav1.Object{
		aService("web"), aServer("s", "8080", "app=web"), aPod("p", podLabel("app", "web")),
		aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"),
	} {
		w.feed(o).Update(o)
	}
	w.goLive()
	if got := w.opaqueAt(8080); got != "10.0.0.1:8080" {
		t.Errorf("%q is opaque", got)
	}
}

// manyPorts returns a cluster with a Service of Pods that each have their own labels. Each Server
// makes one odd port of all Pods opaque.
func manyPorts(t testing.TB, servers int, pods ...*corev1.Pod) *world {
	w := newWorld(t, nil)
	var list []string
	for i, p := range pods {
		w.put(p)
		list = append(list, fmt.Sprintf("10.0.%d.%d pod=%s", i/250, i%250, p.Name))
	}
	w.put(aService("web"), aSlice("s", "web", "http=8080", list...))
	for i := range servers {
		s := aServer(fmt.Sprintf("s%04d", i), fmt.Sprint(1+2*i), "", forAll)
		w.feed(s).Update(s)
	}
	w.evaluate()
	return w
}

var forAll = odd(func(s *decode.ServerSpec) { s.PodSelector = &metav1.LabelSelector{} })

// distinct returns n Pods that each have their own labels.
func distinct(n int, options ...func(*corev1.Pod)) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(
			pods,
			aPod(fmt.Sprint("p", i), append(options, podLabel("app", "web"), podLabel("pod", fmt.Sprint(i)))...),
		)
	}
	return pods
}

// TestManyPorts checks that Pods with different labels share the list of the many ports that
// Servers make opaque.
func TestManyPorts(t *testing.T) {
	const pods, servers = 20, 1000
	w := manyPorts(t, servers, distinct(pods)...)
	if p := w.cache.policies.byNamespace["ns"]; len(p.sets) != pods || len(p.lists) != 1 {
		t.Errorf("%d lists of ports for %d Pods", len(p.lists), len(p.sets))
	}
	for _, port := range []uint16{1, 3, 2*servers - 1, 2, 2 * servers, 2*servers + 1} {
		want := port%2 == 1 && port < 2*servers
		for _, e := range w.read("web", port).Slices[0].Endpoints {
			if e.Opaque != want {
				t.Errorf("%v is opaque: %v", e.Addr, e.Opaque)
			}
		}
	}
}

// meanwhile is a selector of all Pods that runs a function while Pods are evaluated.
type meanwhile struct {
	labels.Selector
	do func()
}

func (m meanwhile) Matches(l labels.Labels) bool {
	m.do()
	return m.Selector.Matches(l)
}

// TestPolicyWhileItIsMade checks that Pods that arrive during the first evaluation of a namespace's
// Servers are evaluated too.
func TestPolicyWhileItIsMade(t *testing.T) {
	w := newWorld(t, nil)
	w.put(aService("web"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 pod=late"), aPod("p"))
	f, _ := compactServer(aServer("s", "8080", "", forAll))
	f.pods = meanwhile{f.pods, func() {
		late := aPod("late", podLabel("app", "late"))
		w.feed(late).Update(late)
	}}
	mapStore(w.cache, w.cache.policies.servers, (*serverFacts).equal, w.cache.policies.setServer).Put("ns/s", f)
	w.marked()
	if got := w.opaqueAt(8080); got != "10.0.0.1:8080 10.0.0.2:8080" {
		t.Errorf("%q is opaque", got)
	}
}

// ownPort adds an annotation that makes one port of a Pod opaque.
func ownPort(port int) func(*corev1.Pod) {
	return func(o *corev1.Pod) { o.Annotations = with(o.Annotations, opaqueAnnotation, fmt.Sprint(port)) }
}

// TestRemembered checks that the memory for results of Servers is bounded. Pods beyond the bound
// keep only the opaque ports of their own annotations. This is reported while such Pods exist.
// Results of deleted Pods are dropped. Pods beyond the bound are evaluated again when there is room
// or a Server changes. No other Pod loses its result then.
func TestRemembered(t *testing.T) {
	const servers = 5000
	const fit = maxOpaqueBytes / (4*servers + 4 + 64)
	var pods []*corev1.Pod
	for i := range 2 * (fit + 5) { // two Pods each have the same even port of their own
		pods = append(pods, aPod(fmt.Sprint("p", i), ownPort(20_000+i&^1)))
	}
	w := manyPorts(t, servers, pods...)
	policy := w.cache.policies.byNamespace["ns"]
	check := func(what string) string {
		t.Helper()
		w.marked()
		opaque := w.opaqueAt(3)
		if n := len(strings.Fields(opaque)); n != 2*fit || policy.size > maxOpaqueBytes {
			t.Errorf("%s: Servers apply to %d Pods, %d bytes", what, n, policy.size)
		}
		return opaque
	}
	first := check("at first")
	if list := w.Health().Unusable; len(list) != 1 ||
		!strings.Contains(list[0], "for Pods beyond the limit, Isthmus ignores the Servers") {
		t.Errorf("reported: %q", list)
	}
	fits := slices.IndexFunc(
		pods,
		func(p *corev1.Pod) bool { return !policy.pods[w.cache.pods.get("ns/"+p.Name)].lacks },
	)
	w.put(aPod("more", ownPort(60_000)))
	if has := check("one more"); has != first {
		t.Errorf("after another Pod, Servers apply to %s\nand before to %s", has, first)
	}
	w.del(aPod("more"))
	w.put(aPod(pods[fits].Name, ownPort(1)))
	if w.marked(); len(strings.Fields(w.opaqueAt(3))) != 2*fit-1 {
		t.Errorf("after a change of one of two Pods, Servers apply to %s", w.opaqueAt(3))
	}
	w.put(aPod(pods[fits+1].Name, ownPort(1)))
	had := check("after a change of the other Pod")
	w.put(aServer("s0000", "65001", "", forAll)) // there is room for the new lists of all Pods at once
	if has := check("another port"); has != had || policy.changed {
		t.Errorf("Servers apply to %s\nand before to %s\nall will be evaluated again: %v", has, had, policy.changed)
	}
	for _, p := range pods {
		if set := policy.pods[w.cache.pods.get("ns/"+p.Name)]; set.lacks {
			w.del(p)
		}
	}
	w.marked()
	if list := w.Health().Unusable; len(list) != 0 {
		t.Errorf("reported: %q", list)
	}
	for _, x := range []struct {
		own      string
		reported int
	}{{"60000", 1}, {"1-65535", 0}} { // the first Pod does not fit; to the second, no Server adds a port
		w.put(aPod("more", func(o *corev1.Pod) { o.Annotations = with(nil, opaqueAnnotation, x.own) }))
		if list := w.Health().Unusable; len(list) != x.reported {
			t.Errorf("for a Pod with the opaque ports %s: reported %q", x.own, list)
		}
	}
	w.store("servers").Replace()
	if len(w.cache.policies.byNamespace) != 0 {
		t.Error("results are still cached without Servers")
	}
}

// BenchmarkDearPolicy measures a change of one Server that matches all Pods again. The namespace
// has 100 Pods with 500 labels each, and as many Servers with 490 terms as allowed.
func BenchmarkDearPolicy(b *testing.B) {
	w := newWorld(b, nil)
	var list []string
	for i := range 100 {
		p := aPod(fmt.Sprint("p", i), podLabel("app", fmt.Sprint(i)))
		for l := range 499 {
			podLabel(fmt.Sprintf("label-%03d", l), fmt.Sprint(i))(p)
		}
		w.put(p)
		list = append(list, fmt.Sprintf("10.0.0.%d pod=p%d", i, i))
	}
	w.put(aService("web"), aSlice("s", "web", "http=8080", list...))
	for i := range 100 {
		w.put(aServer(fmt.Sprint("s", i), "8080", "app=none", expensive(489)))
	}
	r := w.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, 8080)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		w.put(aServer("s0", fmt.Sprint(8080+n%2), "", expensive(489)))
		r.Read()
	}
}
