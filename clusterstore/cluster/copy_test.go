package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/internal/clustertest"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// lostAt is the time at which the copied clusters of these tests were lost.
var lostAt = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

func copyOf(t fataler, c *Cluster) *Copied {
	lists, err := c.Copy(1 << 30)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return &Copied{Lost: lostAt, Lists: lists}
}

// fataler is implemented by testing.T and rapid.T.
type fataler interface {
	Fatalf(format string, args ...any)
}

// inCopy calls f with a cluster that has loaded a copy.
func inCopy(t fataler, cfg Config, from *Copied, f func(*Cluster)) {
	cfg.Copied = from
	c, err := New(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	defer func() { stop(); <-done }()
	select {
	case <-c.Synced():
	case <-time.After(time.Minute):
		t.Fatalf("the copy is not synced: %+v", c.Health())
	}
	f(c)
}

// newCopied returns the world of a cluster whose kinds have all been listed.
func newCopied(t testing.TB, endpointSlices bool) *world {
	w := newWorld(t, func(c *Config) { c.Rules.EndpointSlices = endpointSlices })
	for _, r := range w.resources {
		r.Feed().Replace()
	}
	return w
}

// TestCopySame checks that a copied object compacts to the same cached value as the original. Only
// malformed Servers and invalid ExternalWorkloads are missing from a copy.
func TestCopySame(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { compareCopies(t, rt) }) }

// FuzzCopySame is TestCopySame with objects chosen by the fuzzer.
func FuzzCopySame(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) { rapid.MakeFuzz(func(rt *rapid.T) { compareCopies(t, rt) })(t, data) })
}

func compareCopies(t *testing.T, rt *rapid.T) {
	w := newCopied(t, rapid.Bool().Draw(rt, "EndpointSlices"))
	m := clustertest.Maker{Rand: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(rt, "seed")))}
	for range rapid.IntRange(1, 20).Draw(rt, "n") {
		w.make(m)
	}
	w.evaluate()
	inCopy(rt, w.cfg, copyOf(rt, w.Cluster), func(c *Cluster) {
		sameKind(rt, serviceKind(w.Cluster), serviceKind(c), nil)
		sameKind(rt, podKind(w.Cluster), podKind(c), nil)
		if c.cfg.Rules.EndpointSlices {
			sameKind(rt, endpointSliceKind(w.Cluster), endpointSliceKind(c), nil)
		} else {
			sameKind(rt, endpointsKind(w.Cluster), endpointsKind(c), nil)
		}
		sameKind(rt, replicaSetKind(w.Cluster), replicaSetKind(c), nil)
		sameKind(rt, jobKind(w.Cluster), jobKind(c), nil)
		sameKind(rt, linkedNodeKind(w.Cluster), linkedNodeKind(c), nil)
		sameKind(rt, serverKind(w.Cluster), serverKind(c), func(f *serverFacts) bool {
			return f.invalid != "" && f.spec.ProxyProtocol == ""
		})
		sameKind(rt, workloadKind(w.Cluster), workloadKind(c), func(p compactedPod) bool {
			return p.facts.template.Value().invalid != ""
		})
		sameJoins(rt, w.Cluster, c)
	})
}

// sameKind compares the cached values of a kind, except those that are not copied.
func sameKind[O decode.Object, T any](t *rapid.T, from, to follow.Kind[O, T], missing func(T) bool) {
	same := from.Into.(store[T]).same
	var keys []string
	for _, key := range slices.Sorted(from.Into.Keys) {
		value, _ := from.Into.Get(key)
		if missing != nil && missing(value) {
			continue
		}
		keys = append(keys, key)
		if copied, ok := to.Into.Get(key); !ok || !same(value, copied) {
			t.Fatalf("%s %s: got %v\n%s\nwant\n%s", from.Name, key, ok, describeCached(copied), describeCached(value))
		}
	}
	if got := slices.Sorted(to.Into.Keys); !slices.Equal(got, keys) {
		t.Fatalf("%s: copied %q, want %q", from.Name, got, keys)
	}
}

// describeCached renders a cached value and the values of its handles.
func describeCached(cached any) string {
	switch v := cached.(type) {
	case *slice:
		text := fmt.Sprintf("%v %+v", v.service, v.mirror)
		for _, sub := range v.subsets {
			text += fmt.Sprintf("\n%v, %d ready", sub.ports, sub.ready)
			for _, a := range sub.addresses {
				text += fmt.Sprintf("\n%v %q %q %+v", a.ip, a.target, value(a.hostname), a.facts.Value())
			}
		}
		return text
	case compactedPod:
		return fmt.Sprintf("%+v on %q", v.facts.fullTemplate(), v.facts.node.Value())
	}
	return fmt.Sprintf("%+v", cached)
}

// sameJoins compares all that a link and its readers get from two clusters.
func sameJoins(t *rapid.T, from, to *Cluster) {
	for id := range from.cache.services.byID {
		for _, port := range []uint16{25, 53, 54, 80, 81, 4142, 4143, 4191} {
			want := from.Reader(id, port).Read()
			if got := to.Reader(id, port).Read(); !equalShares(got, want) {
				t.Fatalf("%v:%d: got %v\nwant %v", id, port, describeShare(got), describeShare(want))
			}
			if got, want := explained(to, id, port), explained(from, id, port); !slices.Equal(got, want) {
				t.Fatalf("%v:%d: got\n%s\nwant\n%s", id, port, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	got, gotMore := to.Gateways()
	want, wantMore := from.Gateways()
	if gotMore != wantMore || !slices.EqualFunc(got, want, (*Gateway).equal) {
		t.Fatalf("gateways %v and %d, want %v and %d", got, gotMore, want, wantMore)
	}
	region, known := to.Region()
	if wanted, wasKnown := from.Region(); region != wanted || known != wasKnown {
		t.Fatalf("region %q %v, want %q %v", region, known, wanted, wasKnown)
	}
	if got, want := to.Health().MalformedProxies, from.Health().MalformedProxies; got != want {
		t.Fatalf("%d malformed proxies, want %d", got, want)
	}
}

func describeShare(s federation.Share) (list []string) {
	for _, l := range s.Slices {
		list = append(list, describeAll(l)...)
	}
	return list
}

// explained renders the verdicts on all addresses of a Service. It hides times and invalid
// ExternalWorkloads, which differ in a copy.
func explained(c *Cluster, id federation.ServiceID, port uint16) (list []string) {
	for x := range c.Explain(id, port) {
		if x.Verdict == federation.Unusable {
			x.Verdict = federation.PodUnknown
			x.Detail = ""
		}
		x.Changed = time.Time{}
		list = append(list, fmt.Sprintf("%+v", x))
	}
	return list
}

// TestCopyJoins checks after random events that the endpoints of a copy equal those of the original
// cluster.
func TestCopyJoins(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newCopied(t, true)
		e := events{world: w, all: make(objects), draw: draw, resources: []string{
			"endpointslices", "pods", "services", "replicasets", "servers", "externalworkloads",
		}}
		e.run(rt, func(rt *rapid.T) {
			if rapid.IntRange(0, 11).Draw(rt, "copy") == 0 { // about twice in each run: a copy is expensive
				inCopy(rt, w.cfg, copyOf(rt, w.Cluster), func(c *Cluster) { sameJoins(rt, w.Cluster, c) })
			}
		})
	})
}

// runCopied calls f with a running cluster that reads a copy, in a synctest bubble. The copied
// cluster has one endpoint. change may replace the copied lists.
func runCopied(t *testing.T, change func(*Config), f func(*Cluster)) {
	t.Helper()
	w := newCopied(t, true)
	w.put(aService("web", "http=80"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"), aPod("p", meshed))
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Copied = copyOf(t, w.Cluster)
		delete(cfg.Copied.Lists, "servers")
		if change != nil {
			change(&cfg)
		}
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		synctest.Wait()
		f(c)
		before := time.Now()
		stop()
		running.Wait()
		if d := time.Since(before); d > 0 {
			t.Errorf("Run returned %v after its context ended", d)
		}
	})
}

// TestCopied checks that a cluster that reads a copy is synced at once. The cluster counts as stale
// from the time of the loss.
func TestCopied(t *testing.T) {
	runCopied(t, nil, func(c *Cluster) {
		if !closedNow(c.Synced()) {
			t.Fatalf("not synced: %+v", c.Health())
		}
		if len(c.cfg.Copied.Lists) > 0 {
			t.Error("the lists are still in memory")
		}
		c.RelistServices()
		for range 2 {
			h := c.Health()
			if !errors.Is(h.Err, errCopied) || h.StaleSince != lostAt || h.LastEvent != lostAt || h.Failed {
				t.Errorf("health %+v", h)
			}
			for _, r := range h.Resources {
				absent := r.Resource == "servers"
				if r.Synced == absent || (r.Failure == adminapi.Absent) != absent {
					t.Errorf("%+v", r)
				}
			}
			if got := addrs(c.Reader(web80.Service, 80).Read()); got != "10.0.0.1:8080" {
				t.Errorf("addresses %q", got)
			}
			if c.Exports() != nil {
				t.Error("the exports are known")
			}
			time.Sleep(24 * time.Hour)
		}
	})
}

// TestCopiedUnusable checks that a cluster whose copy is damaged, incomplete or too large is not
// synced. The health gives the reason.
func TestCopiedUnusable(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"cut off", func(c *Config) {
			pods := c.Copied.Lists["pods"]
			c.Copied.Lists["pods"] = pods[:len(pods)/2]
		}, "truncated"},
		{"not zipped", func(c *Config) { c.Copied.Lists["pods"] = []byte("pods") }, "damaged"},
		{"of another kind", func(c *Config) {
			c.Copied.Lists["pods"] = c.Copied.Lists["services"]
		}, "whose kind is not"},
		{"no Pods", func(c *Config) { delete(c.Copied.Lists, "pods") }, "pods: the server could not find"},
		{"other mode", func(c *Config) { c.Rules.EndpointSlices = false }, "endpoints: the server could not find"},
		{"over the memory cap", func(c *Config) { c.Memory = follow.NewMemoryCap(100) }, "over budget"},
	} {
		t.Run(c.name, func(t *testing.T) {
			runCopied(t, c.change, func(r *Cluster) {
				h := r.Health()
				if h.Err == nil || !strings.Contains(h.Err.Error(), c.want) {
					t.Errorf("health %v, want %q", h.Err, c.want)
				}
				if closedNow(r.Synced()) {
					t.Errorf("synced: %+v", h)
				}
			})
		})
	}
}

// TestCopyLimit checks that a copy is rejected only if it is larger than the limit.
func TestCopyLimit(t *testing.T) {
	w := newCopied(t, true)
	for i := range 1000 {
		w.put(aPod(fmt.Sprintf("p%x", sha256.Sum256([]byte{byte(i), byte(i >> 8)})), meshed))
	}
	size := 0
	for _, list := range copyOf(t, w.Cluster).Lists {
		size += len(list)
	}
	if _, err := w.Copy(size); err != nil {
		t.Errorf("a limit of %d bytes: %v", size, err)
	}
	for _, limit := range []int{size - 1, size / 2, 0} {
		if _, err := w.Copy(limit); err == nil {
			t.Errorf("a copy of %d bytes was accepted, although the limit is %d", size, limit)
		}
	}
}

func closedNow(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// make adds a random object of each copied kind to the cluster.
func (w *world) make(m clustertest.Maker) {
	service := &corev1.Service{}
	m.Make(service)
	spiceService(m, service)
	spiceCopiedService(m, service)
	pod := &corev1.Pod{}
	m.Make(pod)
	spicePod(m, pod)
	spiceCopiedPod(m, pod)
	w.store("services").Update(service)
	w.store("pods").Update(pod)
	if w.cfg.Rules.EndpointSlices {
		slice := &discoveryv1.EndpointSlice{}
		m.Make(slice)
		spiceSlice(m, slice)
		spiceCopiedSlice(m, slice)
		w.store("endpointslices").Update(slice)
	} else {
		endpoints := &coreEndpoints{}
		m.Make(endpoints)
		spiceEndpoints(m, endpoints)
		w.store("endpoints").Update(endpoints)
	}
	for _, resource := range []string{"replicasets", "jobs", "nodes"} {
		o := &metav1.PartialObjectMetadata{}
		m.Make(o)
		if m.IntN(2) == 0 {
			o.Labels = map[string]string{zoneLabel: "z1", regionLabel: "r1"}
			o.OwnerReferences = []metav1.OwnerReference{{Kind: "Deployment", Name: "web"}}
		}
		w.store(resource).Update(o)
	}
	server := &decode.Server{}
	m.Make(server)
	if m.IntN(2) == 0 {
		server.Spec.ProxyProtocol = decode.ProtocolOpaque
		server.Spec.Port = []intstr.IntOrString{
			intstr.FromInt32(80), intstr.FromString("http"), intstr.FromInt32(70000), intstr.FromString(""),
		}[m.IntN(4)]
		server.Spec.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		server.Spec.ExternalWorkloadSelector = &metav1.LabelSelector{}
		if m.IntN(4) == 0 {
			server.Spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Odd"}}
		}
	}
	sent := asSent(server)
	if m.IntN(4) == 0 {
		sent.Invalid = "malformed"
	}
	w.store("servers").Update(sent)
	workload := &decode.ExternalWorkload{}
	m.Make(workload)
	workload.Spec.Ports = append(workload.Spec.Ports, decode.PortSpec{Name: proxyPortName, Port: int32(m.IntN(9999))})
	workload = asSent(workload)
	if m.IntN(4) == 0 {
		workload.Invalid = "malformed"
	}
	w.store("externalworkloads").Update(workload)
}

// asSent encodes a custom resource as JSON and decodes it again.
func asSent[T any](o *T) *T {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	decoded := new(T)
	if err := json.Unmarshal(data, decoded); err != nil {
		panic(err)
	}
	return decoded
}

// spiceCopiedService adds other probes and addresses to gateways.
func spiceCopiedService(m clustertest.Maker, o *corev1.Service) {
	if o.Annotations[gatewayAnnotation] == "true" {
		o.Annotations[periodAnnotation] = []string{"", "7", "1m30s", "900"}[m.IntN(4)]
		o.Annotations[identityAnnotation] = []string{"", "gateway.id", "no identity"}[m.IntN(3)]
	}
	hosts := []corev1.LoadBalancerIngress{
		{IP: "10.0.3.1"}, {IP: "fd00::1"}, {IP: "::ffff:10.0.3.2"}, {IP: "127.0.0.1"}, {Hostname: "gateway.example"},
		{Hostname: "-"}, {},
	}
	for range m.IntN(20) {
		o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, hosts[m.IntN(len(hosts))])
	}
	if m.IntN(2) == 0 {
		o.Status.LoadBalancer.Ingress = nil
		o.Spec.ExternalIPs = []string{"10.0.3.3", "0.0.0.0"}
	}
}

// spiceCopiedPod adds lists of opaque ports, and ports whose names look like numbers.
func spiceCopiedPod(m clustertest.Maker, o *corev1.Pod) {
	lists := []string{"", "25,3306", "25", "0025", "0-65535", "1-2, http ,25-30", "8080"}
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, opaqueAnnotation, lists[m.IntN(len(lists))])
	if m.IntN(2) == 0 {
		delete(o.Annotations, opaqueAnnotation)
	}
	o.Spec.Containers = append(o.Spec.Containers, corev1.Container{Name: "app", Ports: []corev1.ContainerPort{
		{Name: "25", ContainerPort: 8080}, {Name: "025", ContainerPort: 8081}, {Name: "http", ContainerPort: 80},
	}[m.IntN(4):]})
}

// spiceCopiedSlice adds endpoints with each verdict, with several addresses, and with other
// targets.
func spiceCopiedSlice(m clustertest.Maker, o *discoveryv1.EndpointSlice) {
	words := []string{
		"",
		"pod=web-1",
		"ew=web-1",
		"kind=Node",
		"kind=Pod",
		"zone=z1",
		"hint=z1+z2",
		"host=h",
		"node=n1",
		"unready",
		"unready terminating",
	}
	ips := []string{"10.0.2.1", "10.0.2.2+10.0.2.3", "10.0.2.4+127.0.0.1+10.0.2.5", "no-ip", "127.0.0.1",
		strings.Repeat("long", 30), "::ffff:10.0.2.6"}
	for range 4 {
		text := ips[m.IntN(len(ips))]
		for range 3 {
			text += " " + words[m.IntN(len(words))]
		}
		o.Endpoints = append(o.Endpoints, anEndpoint(text))
	}
	switch m.IntN(4) {
	case 0:
		o.Ports = nil
	case 1:
		o.Ports = o.Ports[len(o.Ports)-1:] // the UDP port
	}
}
