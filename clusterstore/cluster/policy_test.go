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

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

// dear makes a Server's selector have many terms, all of which must be looked at: none
// of these labels is there.
func dear(terms int) func(*crd.Server) {
	return odd(func(s *crd.ServerSpec) {
		for i := range terms {
			s.PodSelector.MatchExpressions = append(s.PodSelector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: fmt.Sprintf("absent-%03d", i), Operator: metav1.LabelSelectorOpDoesNotExist,
			})
		}
	})
}

// TestTooMuchPolicy: Servers beyond what a namespace's policy may cost are ignored, in
// the order of their names, whatever the order they come in. It is reported, and logged
// once. Other namespaces do not notice.
func TestTooMuchPolicy(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		logs, lines := observer.New(zap.WarnLevel)
		w := newWorld(t, func(c *Config) { c.Log = zap.New(logs) })
		w.put(aService("web"), aPod("p", podLabel("app", "web")), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"))
		const used = maxPolicy / 500 // each costs 1 + 499
		port := func(i int) uint16 { return uint16(8000 + i) }
		var all []*crd.Server
		for i := range used + 2 {
			all = append(all, aServer(fmt.Sprintf("s%02d", i), fmt.Sprint(port(i)), "", dear(499)))
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
		if len(unusable) != 1 || !strings.HasPrefix(unusable[0], "Servers of namespace ns: the 22 that make ports opaque cost 11000 ") {
			t.Errorf("reported: %q", unusable)
		}
		w.marked()
		w.del(aServer("s00", "", ""))
		if got := w.marked(); len(got) != 1 {
			t.Errorf("marked: %q", got)
		}
		check("one less", 1, used+1)
		w.put(aServer("s01", "", "", protocol("HTTP/2")))
		check("all are used", 2, used+2)
		if unusable := w.Health().Unusable; len(unusable) != 0 {
			t.Errorf("reported: %q", unusable)
		}
		if n := lines.Len(); n != 1 || lines.All()[0].ContextMap()["namespace"] != "ns" {
			t.Errorf("logged: %v", lines.All())
		}
	}
}

// TestServersChangeMeanwhile: a Server changes while a reader evaluates, without lock,
// what the namespace's Servers were. It reads what they made of ports before, and what
// they make of them now when it reads again.
func TestServersChangeMeanwhile(t *testing.T) {
	w := newWorld(t, nil)
	w.put(aService("web"), aPod("p", podLabel("app", "web")), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"))
	w.put(aServer("s", "8080", "app=web"))
	for _, x := range []struct {
		name   string
		change func()
		before bool // as it was when the reader began
		want   bool
	}{
		{"gone", func() { w.del(aServer("s", "", "")) }, true, false},
		{"none was there", func() { w.put(aServer("s", "8080", "app=web")) }, false, true},
		{"another port", func() { w.put(aServer("s", "8081", "app=web")) }, true, false},
		{"back", func() { w.put(aServer("s", "8080", "app=web")) }, false, true},
		{"the Pod is relabelled", func() { w.put(aPod("p", podLabel("app", "x"))) }, false, false},
	} {
		for _, p := range w.state.policies {
			p.rules = &rules{state: w.state, policy: p} // nobody has asked yet
		}
		r := w.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, 8080).(*reader)
		opaque := func(s federation.Share) bool { return s.Slices[0].Endpoints[0].Opaque }
		q := &r.policy
		during := r.readOnce()
		if q.missing != (len(w.state.policies) > 0) {
			t.Errorf("%s: something is to be evaluated: %v", x.name, q.missing)
		}
		for _, v := range q.views {
			v.rules.evaluate(nil, nil) // it finds the Servers before they change
		}
		x.change()
		for q.evaluate() {
			during = r.readOnce()
		}
		if opaque(during) != x.before {
			t.Errorf("%s: meanwhile opaque: %v", x.name, opaque(during))
		}
		if got := opaque(r.Read()); got != x.want {
			t.Errorf("%s: opaque: %v", x.name, got)
		}
		if same := r.Read(); same.Slices[0] != r.Read().Slices[0] {
			t.Errorf("%s: another pointer", x.name)
		}
	}
}

// TestPodsChangeMeanwhile: a Pod is relabelled each time that a reader evaluates policy. The
// reader comes to an end: only the Pod's slice stays as it was, and the service is marked.
func TestPodsChangeMeanwhile(t *testing.T) {
	w := newWorld(t, nil)
	w.put(aService("web"), aServer("s", "8080", "app=web"))
	w.put(aPod("p"), aSlice("s1", "web", "http=8080", "10.0.0.1 pod=p"))
	w.put(aPod("q"), aSlice("s2", "web", "http=8080", "10.0.0.2 pod=q"))
	r := w.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, 8080).(*reader)
	opaque := func(s federation.Share) (list []bool) {
		for _, l := range s.Slices {
			list = append(list, l.Endpoints[0].Opaque)
		}
		return list
	}
	if got := opaque(r.Read()); !slices.Equal(got, []bool{false, false}) {
		t.Fatalf("at first: %v", got)
	}
	relabel := func(n int) { w.put(aPod("p", podLabel("app", "web"), podLabel("n", fmt.Sprint(n)))) }
	relabel(0)
	w.put(aPod("q", podLabel("app", "web")))
	r.policy = policyReader{}
	share, n := r.readOnce(), 0
	for ; r.policy.evaluate(); share = r.readOnce() {
		if n++; n > 100 {
			t.Fatal("it does not end")
		}
		relabel(n)
		w.marked()
	}
	if got := opaque(share); !slices.Equal(got, []bool{false, true}) {
		t.Errorf("meanwhile: %v", got)
	}
	if got := w.marked(); len(got) != 1 {
		t.Errorf("marked: %q", got)
	}
	if got := opaque(r.Read()); !slices.Equal(got, []bool{true, true}) {
		t.Errorf("afterwards: %v", got)
	}
}

// TestAnswersAreForgotten: what is remembered about Pods that are gone does not add up, and
// neither does that of namespaces, to which one slice may refer.
func TestAnswersAreForgotten(t *testing.T) {
	w := newWorld(t, nil)
	w.put(aService("web"))
	r := w.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, 8080)
	const size, namespaces = 1 << 20, 5
	in := func(namespace string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = namespace } }
	remembered := func() (n int, bytes int64) {
		for _, p := range w.state.policies {
			n, bytes = n+len(p.rules.answers), bytes+p.rules.answered
		}
		return n, bytes
	}
	for i := range 2*maxAnswered/size + 1 {
		namespace := fmt.Sprint("ns", i%namespaces)
		server := aServer("s", "8080", "app=web")
		server.Namespace = namespace
		w.put(server, aPod("p", in(namespace), podLabel("app", "web"), podLabel("x", strings.Repeat("x", size)+fmt.Sprint(i))))
		slice := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p")
		slice.Endpoints[0].TargetRef.Namespace = namespace
		w.put(slice)
		if !r.Read().Slices[0].Endpoints[0].Opaque {
			t.Fatal("not opaque")
		}
		if n, bytes := remembered(); n == 0 || bytes != w.state.answered.Load() || bytes > maxAnswered {
			t.Fatalf("%d answers, %d bytes, %d in all", n, bytes, w.state.answered.Load())
		}
	}
	for i := range namespaces {
		server := aServer("s", "", "")
		server.Namespace = fmt.Sprint("ns", i)
		w.del(server)
	}
	if left := w.state.answered.Load(); left != 0 {
		t.Errorf("%d bytes are left without Servers", left)
	}
}

// BenchmarkDearPolicy: 100 Pods with 500 labels each, and as many Servers as a namespace
// may have with 490 terms. One Server changes, and all Pods are matched again.
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
		w.put(aServer(fmt.Sprint("s", i), "8080", "app=none", dear(489)))
	}
	r := w.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, 8080)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		w.put(aServer("s0", fmt.Sprint(8080+n%2), "", dear(489)))
		r.Read()
	}
}
