package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

// lostEast is a local cluster with two replicas and their clients. The linked cluster east is
// behind a fault proxy, so that the test can change east while the replicas cannot reach it.
type lostEast struct {
	west, east *kube.Client
	between    *harness.FaultProxy
	replicas   []*harness.Replica
	proxies    []*proxy.Subscriber
	first      []netip.AddrPort // east's addresses before the outage
}

// newLostEast starts the clusters and waits until all proxies have the endpoints in east. The
// replicas have the permissions from manifests/install.
func newLostEast(t *testing.T) *lostEast {
	t.Helper()
	servers := startClusters(t, []string{"namespace"}, "west", "east")
	l := &lostEast{west: client(t, servers[0]), east: client(t, servers[1])}
	must(t, l.west.Apply(t.Context(), kube.Namespace(kube.LinkNamespace), kube.Namespace("ns"),
		kube.Federated("ns", "web", "", "app@east")))
	applyManifest(t, l.west, "install/rbac.yaml")
	must(t, l.east.Apply(t.Context(), kube.Namespace("ns"), kube.ServiceAccount("ns", "app"), kube.Service("ns", "app"),
		kube.ReplicaSet("ns", "app-1", "app")))
	must(t, l.east.Apply(t.Context(), kube.OpaqueServer("ns", "opaque", "app", kube.Port)))
	l.first = l.deploy(t, 1)

	var err error
	l.between, err = harness.StartFaultProxy(strings.TrimPrefix(l.east.Server(), "https://"))
	must(t, err)
	atEnd(t, l.between.Close)
	l.link(t, "https://"+l.between.Addr(), l.east.Admin())
	kubeconfig := gatewayKubeconfig(t, l.west)
	for i := range 2 {
		l.replicas = append(l.replicas, startGateway(t, harness.ReplicaConfig{
			Kubeconfig: kubeconfig,
			Hostname:   fmt.Sprint("isthmus-", i),
			Args:       []string{"-shutdown-delay=0s", "-drain=0s", "-log-level=info"},
		}))
		awaitReady(t, l.replicas[i], "east")
	}
	addrs := []string{l.replicas[0].Addr(), l.replicas[1].Addr()}
	l.proxies = runSubscribers(t, 6, func(int) []string { return addrs })
	l.awaitAddrs(t, l.first)
	return l
}

func (l *lostEast) link(t *testing.T, server string, user clientcmdapi.AuthInfo) {
	t.Helper()
	kubeconfig, err := l.east.Kubeconfig(server, user)
	must(t, err)
	_, err = kube.Put(t.Context(), l.west.CoreV1().Secrets(kube.LinkNamespace), kube.Link("east", kubeconfig))
	must(t, err)
}

func (l *lostEast) annotate(t *testing.T, key string, value *string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	must(t, err)
	_, err = l.west.CoreV1().Secrets(kube.LinkNamespace).Patch(
		t.Context(), kube.LinkName("east"), types.MergePatchType, patch, metav1.PatchOptions{},
	)
	must(t, err)
}

// rewriteCopy replaces the ConfigMaps of the copy. The change function receives the parts of the
// copy's data and the description of the copy, which is an annotation on each ConfigMap.
func (l *lostEast) rewriteCopy(t *testing.T, change func(parts [][]byte, head map[string]any) [][]byte) {
	t.Helper()
	const headAnnotation, partKey = "isthmus.io/cache", "part"
	api := l.west.CoreV1().ConfigMaps(kube.LinkNamespace)
	var parts [][]byte
	var first *corev1.ConfigMap
	for _, names := range l.copies(t) {
		slices.Sort(names)
		for _, name := range names {
			o, err := api.Get(t.Context(), name, metav1.GetOptions{})
			must(t, err)
			parts = append(parts, o.BinaryData[partKey])
			if first == nil {
				first = o
			}
			must(t, api.Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
	}

	head := make(map[string]any)
	must(t, json.Unmarshal([]byte(first.Annotations[headAnnotation]), &head))
	parts = change(parts, head)
	text, err := json.Marshal(head)
	must(t, err)
	prefix := strings.TrimSuffix(first.Name, "01")
	for i, part := range parts {
		o := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: first.Namespace, Name: fmt.Sprintf("%s%02d", prefix, i+1), Labels: first.Labels,
				Annotations: map[string]string{headAnnotation: string(text)},
			},
			BinaryData: map[string][]byte{partKey: part},
		}
		_, err := api.Create(t.Context(), o, metav1.CreateOptions{})
		must(t, err)
	}
}

// replaceFirst restarts the first replica, waits until it logs the text again, and checks that the
// other replica still serves east.
func (l *lostEast) replaceFirst(t *testing.T, text string, args ...string) {
	t.Helper()
	logged := func() int { return strings.Count(l.replicas[0].Log(math.MaxInt), text) }
	before := logged()
	must(t, l.replicas[0].Restart(t.Context(), args...))
	await(t, fmt.Sprintf("the replica logs %q", text), func() error {
		if logged() == before {
			return errors.New("it has not logged the text since it started")
		}
		return nil
	})
	if got := l.firstAddrs(t, 1); !slices.Equal(got, l.first) {
		t.Errorf("%q: the other replica serves %v", text, got)
	}
}

func (l *lostEast) setCacheVerbs(t *testing.T, verbs ...string) {
	t.Helper()
	roles := l.west.RbacV1().Roles(kube.LinkNamespace)
	role, err := roles.Get(t.Context(), "isthmus-cache", metav1.GetOptions{})
	must(t, err)
	role.Rules = nil
	if len(verbs) > 0 {
		role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}}
	}
	_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	must(t, err)
}

func (l *lostEast) awaitForbidden(t *testing.T) {
	t.Helper()
	await(t, "the permission is gone", func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:linkerd:isthmus",
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: kube.LinkNamespace, Verb: "list", Resource: "configmaps",
			},
		}}
		review, err := l.west.AuthorizationV1().SubjectAccessReviews().Create(
			t.Context(), review, metav1.CreateOptions{},
		)
		if err == nil && review.Status.Allowed {
			err = errors.New("ConfigMaps may be listed")
		}
		return err
	})
}

// awaitRewritten waits until a new generation has replaced the incomplete generation.
func (l *lostEast) awaitRewritten(t *testing.T, before map[string][]string) {
	t.Helper()
	must(t, harness.Poll(t.Context(), 3*time.Minute, time.Second, func() error {
		now := l.copies(t)
		for generation := range now {
			if len(now) == 1 && before[generation] == nil {
				return nil
			}
		}
		return fmt.Errorf("generations %v, and before %v", now, before)
	}))
}

// deploy replaces the Pods in east by three new ones in a single EndpointSlice, and returns their
// addresses.
func (l *lostEast) deploy(t *testing.T, release int) (addrs []netip.AddrPort) {
	t.Helper()
	var pods []runtime.Object
	var endpoints []discoveryv1.Endpoint
	for i := range 3 {
		ip := netip.AddrFrom4([4]byte{10, 155, byte(100 + release), byte(i + 1)})
		pod := kube.Mesh(kube.Pod("ns", fmt.Sprintf("app-%d-%d", release, i), "app"))
		pod.Labels["app"] = "app"
		pod.OwnerReferences = []metav1.OwnerReference{kube.Owner("ReplicaSet", "app-1")}
		pods = append(pods, pod)
		e := kube.PodEndpoint(ip.String(), "ns", pod.Name)
		e.Zone = new("zone-1")
		endpoints = append(endpoints, e)
		addrs = append(addrs, netip.AddrPortFrom(ip, kube.Port))
	}
	must(t, l.east.Apply(t.Context(), pods...))
	_, err := kube.Put(
		t.Context(), l.east.DiscoveryV1().EndpointSlices("ns"), kube.Slice("ns", "app", "1", endpoints...),
	)
	must(t, err)
	return addrs
}

func (l *lostEast) lose(t *testing.T) time.Time {
	t.Helper()
	lost := time.Now()
	must(t, l.between.Set(harness.FaultMode{Refuse: true}))
	l.between.ResetAll()
	return lost
}

// copies returns the names of the copies' ConfigMaps by generation.
func (l *lostEast) copies(t *testing.T) map[string][]string {
	t.Helper()
	list, err := l.west.CoreV1().ConfigMaps(kube.LinkNamespace).List(
		t.Context(), metav1.ListOptions{LabelSelector: "isthmus.io/cache-cluster=east"},
	)
	must(t, err)
	all := make(map[string][]string)
	for _, c := range list.Items {
		generation := c.Labels["isthmus.io/cache-generation"]
		all[generation] = append(all[generation], c.Name)
	}
	return all
}

func (l *lostEast) awaitCopy(t *testing.T) {
	t.Helper()
	await(t, "east is copied", func() error {
		if all := l.copies(t); len(all) != 1 {
			return fmt.Errorf("generations %v", all)
		}
		return nil
	})
}

func (l *lostEast) awaitAddrs(t *testing.T, want []netip.AddrPort) {
	t.Helper()
	await(t, fmt.Sprint("all proxies have ", want), func() error {
		for i, one := range l.proxies {
			now := one.Stream().Snapshot()
			if now.Phase != proxy.Open || !slices.Equal(now.Get.Addrs(), want) {
				return fmt.Errorf("proxy %d has %v", i, now.Get.Addrs())
			}
		}
		return nil
	})
}

func (l *lostEast) awaitNoCopy(t *testing.T) {
	t.Helper()
	began := time.Now()
	err := harness.Poll(t.Context(), 2*time.Minute, time.Second, func() error {
		if all := l.copies(t); len(all) > 0 {
			return fmt.Errorf("generations %v", all)
		}
		return nil
	})
	must(t, err)
	t.Logf("the copy was deleted after %v", time.Since(began).Round(time.Second))
}

// firstAddrs returns the addresses in the first message of a new stream, or nil if the replica does
// not know the endpoints in east.
func (l *lostEast) firstAddrs(t *testing.T, replica int) []netip.AddrPort {
	t.Helper()
	conn, err := proxy.Dial(l.replicas[replica].Addr())
	must(t, err)
	defer conn.Close()
	s := proxy.NewStream(proxy.Config{
		Conn: conn, Kind: proxy.Get, Authority: kube.Authority("ns", "web"), MayBeLate: true,
	})
	defer s.Close()
	must(t, s.Open(t.Context()))
	await(t, "a message", func() error {
		if now := s.Status(); now.Messages == 0 && status.Code(now.Err) != codes.Unavailable {
			return fmt.Errorf("no message: %v", now.Err)
		}
		return nil
	})
	if s.Status().Messages == 0 {
		return nil
	}
	return s.Recent()[0].Addrs
}

func (l *lostEast) mark() {
	for _, one := range l.proxies {
		one.Stream().Mark()
	}
}

func (l *lostEast) states(t *testing.T) (all []any) {
	t.Helper()
	for _, one := range l.proxies {
		state, err := one.Stream().Snapshot().JSON()
		must(t, err)
		all = append(all, state)
	}
	return all
}

// expectKept checks that no proxy has lost an endpoint in east since the last mark.
func (l *lostEast) expectKept(t *testing.T, when string) {
	t.Helper()
	l.awaitAddrs(t, l.first)
	for i, one := range l.proxies {
		if err := one.Stream().Flapped(l.first...); err != nil {
			t.Errorf("%s: proxy %d: %v", when, i, err)
		}
		if f := one.Stream().Status().Faults; len(f) > 0 {
			t.Errorf("%s: proxy %d: faults %q", when, i, f)
		}
	}
}

// expectOneStep checks that each proxy has received all new endpoints in one message since the last
// mark, and has lost all old ones in one message.
func (l *lostEast) expectOneStep(t *testing.T) {
	t.Helper()
	for i, one := range l.proxies {
		if left, joined, err := one.Stream().Parts(); err != nil || left != 1 || joined != 1 {
			t.Errorf("proxy %d: endpoints have left in %d messages, and joined in %d: %v", i, left, joined, err)
		}
	}
}

func (l *lostEast) shown(t *testing.T, replica int) adminapi.Cluster {
	t.Helper()
	page, err := harness.ReadClusters(t.Context(), l.replicas[replica].MetricsAddr())
	must(t, err)
	all := harness.ClustersNamed(page, "east")
	if len(all) != 1 {
		t.Fatalf("replica %d shows %+v", replica, page)
	}
	return all[0]
}

// restart replaces all replicas, either one after the other or by killing all of them first.
func (l *lostEast) restart(t *testing.T, kill bool) {
	t.Helper()
	if !kill {
		for _, r := range l.replicas {
			must(t, r.Restart(t.Context()))
		}
		return
	}
	for _, r := range l.replicas {
		must(t, r.Signal(syscall.SIGKILL))
		<-r.Exited()
	}
	errs := make([]error, len(l.replicas))
	var starting sync.WaitGroup
	for i, r := range l.replicas {
		starting.Go(func() { errs[i] = r.Restart(t.Context()) })
	}
	starting.Wait()
	must(t, errors.Join(errs...))
}

// TestCopies makes east's API unreachable and replaces both replicas, first one by one and then by
// killing both. No proxy may lose an endpoint, and no endpoint may change. When east returns with
// new Pods, each proxy must receive them in one step, and the copy must be deleted.
func TestCopies(t *testing.T) {
	t.Parallel()
	l := newLostEast(t)
	before := l.states(t)
	l.mark()
	lost := l.lose(t)
	l.awaitCopy(t)
	if waited := time.Since(lost); waited < 10*time.Second {
		t.Errorf("east was copied after %v", waited)
	}
	generations := l.copies(t)

	for _, kill := range []bool{false, true} {
		l.restart(t, kill)
		when := fmt.Sprintf("replaced, killed: %v", kill)
		l.expectKept(t, when)
		if after := l.states(t); !reflect.DeepEqual(after, before) {
			t.Errorf("%s: the proxies have\n%v\nand had\n%v", when, after, before)
		}
		for i := range l.replicas {
			c := l.shown(t, i)
			if c.State != adminapi.Stale || c.Since.Sub(lost).Abs() > 5*time.Second {
				t.Errorf("%s: replica %d shows %s since %v, want stale since %v", when, i, c.State, c.Since, lost)
			}
		}
	}
	if now := l.copies(t); !reflect.DeepEqual(now, generations) {
		t.Errorf("the copies are %v, and were %v", now, generations)
	}

	second := l.deploy(t, 2)
	l.mark()
	must(t, l.between.Set(harness.FaultMode{}))
	l.awaitAddrs(t, second)
	l.expectOneStep(t)
	l.awaitNoCopy(t)
}

// TestCopyWhileLost changes the link while replicas serve a copy of east. A cordon must remove the
// endpoints until it ends. New credentials that do not work must have no effect, even after a
// restart. New credentials that reach east must replace the copy in one step.
func TestCopyWhileLost(t *testing.T) {
	t.Parallel()
	l := newLostEast(t)
	l.lose(t)
	l.awaitCopy(t)
	l.restart(t, true)
	l.awaitAddrs(t, l.first)

	l.annotate(t, "isthmus.io/cordon", new("true"))
	l.awaitAddrs(t, nil)
	l.annotate(t, "isthmus.io/cordon", nil)
	l.awaitAddrs(t, l.first)

	l.mark()
	l.link(t, "https://"+l.between.Addr(), clientcmdapi.AuthInfo{Token: "new"})
	must(t, harness.Pause(t.Context(), 3*time.Second))
	l.expectKept(t, "rotated to credentials that do not work")
	l.restart(t, false)
	l.expectKept(t, "replaced after the rotation")

	second := l.deploy(t, 2)
	l.mark()
	l.link(t, l.east.Server(), l.east.Admin())
	l.awaitAddrs(t, second)
	l.expectOneStep(t)
}

// TestCopyUnusable restarts a replica while east is unreachable. The replica must not serve a copy
// of another cluster, or one that is damaged, incomplete, unreadable or too old, and it must log
// the reason. A replica that still has east in its cache must continue to serve it, and write the
// copy again. Deletion of the link must delete the copy.
func TestCopyUnusable(t *testing.T) {
	t.Parallel()
	l := newLostEast(t)
	l.lose(t)
	l.awaitCopy(t)
	// unusable restarts the first replica, which must have no endpoints and must log the reason.
	unusable := func(why string, args ...string) {
		t.Helper()
		l.replaceFirst(t, "the copy of a cluster can't be used", args...)
		if got := l.firstAddrs(t, 0); len(got) > 0 {
			t.Errorf("%q: the replica serves %v", why, got)
		}
		if log := l.replicas[0].Log(200); !strings.Contains(log, why) {
			t.Errorf("the log does not contain %q:\n%s", why, log)
		}
	}
	// usable restarts the first replica, which must serve the copy.
	usable := func(when string) {
		t.Helper()
		l.replaceFirst(t, "cluster is served from a copy")
		if got := l.firstAddrs(t, 0); !slices.Equal(got, l.first) {
			t.Errorf("%s: the replica serves %v, want %v", when, got, l.first)
		}
		if c := l.shown(t, 0); c.CopyOf.IsZero() {
			t.Errorf("%s: the replica shows no copy: %s", when, c.Reason)
		}
	}
	usable("unchanged")

	l.link(t, "https://"+l.between.Addr()+"/other", l.east.Admin())
	unusable("it is of another cluster")
	l.link(t, "https://"+l.between.Addr(), l.east.Admin())
	usable("the link is as before")

	// The other replica must not delete or rewrite the copy before the first replica reads it.
	l.setCacheVerbs(t, "get", "list")
	unusable("--cache-max-age", "-cache-max-age=1s")
	damage := func(parts [][]byte, _ map[string]any) [][]byte {
		parts[0][len(parts[0])/2] ^= 1
		return parts
	}
	l.rewriteCopy(t, damage)
	unusable("it is damaged")
	l.rewriteCopy(t, damage)
	usable("repaired")
	l.rewriteCopy(t, func(parts [][]byte, head map[string]any) [][]byte {
		head["parts"] = 2
		half := len(parts[0]) / 2
		return [][]byte{parts[0][:half], parts[0][half:]}
	})
	usable("in two ConfigMaps")
	l.rewriteCopy(t, func(parts [][]byte, head map[string]any) [][]byte {
		head["written"] = time.Now().Add(-2 * time.Minute) // otherwise, a replica could still be writing it
		return parts[:1]
	})
	unusable("it is incomplete")
	incomplete := l.copies(t)
	applyManifest(t, l.west, "install/rbac.yaml")
	l.awaitRewritten(t, incomplete)
	usable("written again by the other replica")

	l.setCacheVerbs(t)
	l.awaitForbidden(t)
	unusable("forbidden")
	await(t, "the replica shows that the permission is missing", func() error {
		page, err := harness.ReadClusters(t.Context(), l.replicas[0].MetricsAddr())
		if err == nil && (page.Copies == nil || !strings.Contains(page.Copies.Error, "forbidden")) {
			err = fmt.Errorf("it shows %+v", page.Copies)
		}
		return err
	})
	applyManifest(t, l.west, "install/rbac.yaml")

	secrets := l.west.CoreV1().Secrets(kube.LinkNamespace)
	must(t, secrets.Delete(t.Context(), kube.LinkName("east"), metav1.DeleteOptions{}))
	l.awaitAddrs(t, nil)
	l.awaitNoCopy(t)
}
