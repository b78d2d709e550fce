package faults

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/kube"
	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
)

// The namespace dear has far more labels, and terms of Servers' selectors, than anybody needs. API servers accept them.
const (
	dear        = "dear"
	dearPods    = 100
	dearLabels  = 500 // of each Pod
	hugeLabels  = 40_000
	dearServers = 100
	dearTerms   = 490 // of each Server
)

// TestDearPolicy lets one namespace have a policy that is as dear as can be, in the gateway's own cluster and in a linked
// one, and change all the time. Proxies of another namespace are sent their first messages and all changes as ever.
func TestDearPolicy(t *testing.T) {
	inTurn(t)
	w := newWorld(t, nil)
	must(t, w.west.apply(t.Context(), dear, object.Mirror(dear, "far", calm, "web")))
	for _, at := range []*site{w.west, w.north} {
		at.enrich(t)
	}
	near, far := newMember(w.west, "modest", "near", 1), newMember(w.north, "modest", "far", 2)
	for _, m := range []*member{near, far} {
		must(t, m.site.apply(t.Context(), "modest", object.Service("modest", m.service)))
		must(t, m.begin(t.Context()))
	}
	must(t, w.west.apply(t.Context(), "modest", object.Federated("modest", "all", "near", "far@"+calm)))
	await(t, recovery, func() error { return w.knows(t.Context(), 2*dearServers) })
	for _, service := range []string{"web", "far"} { // nothing is read that nobody asks for
		w.subscribe(t, proxy.Get, service, dear)
		w.subscribe(t, proxy.GetProfile, service, dear)
	}
	stream := w.served(t, near, far)
	spending := w.spend(t)
	c := &churn{}
	for range either(30, 300) {
		for _, m := range []*member{near, far} {
			must(t, c.follow(t.Context(), m, stream))
		}
	}
	t.Logf("changes of another namespace arrived within %v", c.worst.Round(time.Millisecond))
	began := time.Now()
	w.served(t, near, far)
	t.Logf("a new proxy of another namespace had all after %v", time.Since(began).Round(time.Millisecond))
	spending()
	for _, service := range []string{"web", "far"} {
		served := w.subscribe(t, proxy.Get, service, dear)
		await(t, patience, func() error {
			if n := served.Snapshot().Get.Len(); n != dearPods {
				return fmt.Errorf("%s has %d endpoints", service, n)
			}
			return nil
		})
	}
	page, err := w.page(t.Context(), "/debug/clusters")
	must(t, err)
	// Both clusters show it twice: among their warnings, and among those that are about objects.
	if n := strings.Count(page, "Servers of namespace dear: the 100 that make ports opaque cost "); n != 4 {
		t.Errorf("clusters show %d times that they have too many Servers: %s", n, page)
	}
}

// served subscribes a proxy of the namespace modest, and waits until it has everything.
func (w *world) served(t *testing.T, members ...*member) *proxy.Stream {
	t.Helper()
	stream := w.subscribe(t, proxy.Get, "all", "modest")
	await(t, patience, func() error {
		now := stream.Snapshot()
		for _, m := range members {
			for _, a := range m.now() {
				if !now.Get.Has(a) {
					return fmt.Errorf("a proxy of another namespace has no %v but %v", a, now.Get.Addrs())
				}
			}
		}
		return nil
	})
	return stream
}

// follow writes a member's next turn, and waits until a proxy has it.
func (c *churn) follow(ctx context.Context, m *member, s *proxy.Stream) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	comes, goes, err := m.next(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	err = arrives(ctx, s, comes, goes)
	c.worst = max(c.worst, time.Since(began))
	return err
}

// enrich fills a site's namespace dear.
func (s *site) enrich(t *testing.T) {
	t.Helper()
	ctx, began := t.Context(), time.Now()
	must(t, s.apply(ctx, dear, object.ServiceAccount(dear, "app"), object.Service(dear, "web")))
	slice := object.Slice(dear, "web", "0")
	pods := s.client().CoreV1().Pods(dear)
	for i := range dearPods {
		n := dearLabels
		if i == 0 {
			n = hugeLabels
		}
		must(t, kube.Create(ctx, pods, dearPod(i, 0, n)))
		ip := netip.AddrFrom4([4]byte{10, s.subnet, 250, byte(i)})
		slice.Endpoints = append(slice.Endpoints, object.PodEndpoint(ip.String(), dear, fmt.Sprint("p", i)))
	}
	for i := range dearServers {
		if _, err := s.servers().Create(ctx, dearServer(i), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	must(t, kube.Create(ctx, s.client().DiscoveryV1().EndpointSlices(dear), slice))
	t.Logf("%s has its Pods and Servers after %v", s.cfg.Name, time.Since(began).Round(time.Millisecond))
}

func dearPod(i, turn, labels int) *corev1.Pod {
	o := object.Pod(dear, fmt.Sprint("p", i), "app")
	o.Labels = map[string]string{"turn": fmt.Sprint(turn)}
	for n := range labels {
		o.Labels[fmt.Sprintf("label-%05d", n)] = fmt.Sprint(i)
	}
	return o
}

// dearServer selects nothing in the end, so that all its terms are looked at, and the other Servers, too.
func dearServer(i int) *unstructured.Unstructured {
	o := object.OpaqueServer(dear, fmt.Sprintf("s%03d", i), "", object.Port)
	terms := []any{
		map[string]any{"key": "z", "operator": "Exists"},
		map[string]any{"key": "label-00000", "operator": "NotIn", "values": dearValues(dearTerms / 2)},
	}
	for n := range dearTerms/2 - 3 {
		terms = append(terms, map[string]any{"key": fmt.Sprintf("absent-%03d", n), "operator": "DoesNotExist"})
	}
	o.Object["spec"].(map[string]any)["podSelector"] = map[string]any{"matchExpressions": terms}
	return o
}

func dearValues(count int) (values []any) {
	for n := range count {
		values = append(values, fmt.Sprint("none-", n))
	}
	return values
}

func (s *site) servers() interface {
	Create(context.Context, *unstructured.Unstructured, metav1.CreateOptions, ...string) (*unstructured.Unstructured, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*unstructured.Unstructured, error)
} {
	return s.client().In(schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1beta3", Resource: "servers"}, dear)
}

// knows returns an error unless so many Servers are kept.
func (w *world) knows(ctx context.Context, servers int) error {
	n, err := w.metric(ctx, `server_cache_size\{.*`)
	if err == nil && int(n) != servers {
		err = fmt.Errorf("%v Servers are known, not %d", n, servers)
	}
	return err
}

// spend edits a Server ten times a second and replaces Pods, in both clusters, until what it returns is called.
func (w *world) spend(t *testing.T) (stop func()) {
	life, cancel := context.WithCancel(t.Context())
	var errs [2]error
	var edits [2]int
	done := make(chan struct{}, len(errs))
	for i, at := range []*site{w.west, w.north} {
		go func() {
			defer func() { done <- struct{}{} }()
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for ; errs[i] == nil; edits[i]++ {
				select {
				case <-life.Done():
					return
				case <-tick.C:
				}
				errs[i] = at.edit(context.WithoutCancel(life), edits[i])
			}
		}()
	}
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		cancel()
		for range errs {
			<-done
		}
		for i := range errs {
			must(t, errs[i])
		}
		t.Logf("Servers were edited %v times", edits)
	}
	t.Cleanup(end)
	return end
}

// edit changes a Server, and now and then a Pod.
func (s *site) edit(ctx context.Context, turn int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	patch := fmt.Sprintf(`{"spec":{"port":%d}}`, object.Port+turn%2)
	server := fmt.Sprintf("s%03d", turn%dearServers)
	_, err := s.servers().Patch(ctx, server, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil || turn%5 > 0 {
		return err
	}
	patch = fmt.Sprintf(`{"metadata":{"labels":{"turn":"%d"}}}`, turn)
	pod := fmt.Sprint("p", 1+turn%(dearPods-1))
	_, err = s.client().CoreV1().Pods(dear).Patch(ctx, pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
