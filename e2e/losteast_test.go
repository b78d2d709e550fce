package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
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
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/internal/adminapi"
)

// lostEast is a local cluster with replicas and their clients. The linked cluster east is behind a
// fault proxy, so that the test can change east while the replicas cannot reach it.
type lostEast struct {
	local      *harness.Cluster
	west, east *kube.Client
	between    *harness.FaultProxy
	replicas   []*harness.Replica
	proxies    []*proxy.Subscriber
	first      []netip.AddrPort // east's addresses before the outage
}

// newLostEast starts and links the clusters, and starts two replicas with six proxies.
func newLostEast(t *testing.T) *lostEast {
	t.Helper()
	l := linkEast(t)
	l.start(t, l.west.Server(), 2)
	l.subscribe(t, 6)
	return l
}

// linkEast starts and links the clusters.
func linkEast(t *testing.T) *lostEast {
	t.Helper()
	servers := startClusters(t, []string{"namespace"}, "west", "east")
	l := &lostEast{local: servers[0], west: client(t, servers[0]), east: client(t, servers[1])}
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
	return l
}

// token returns a token of a replica.
func (l *lostEast) token(t *testing.T) string {
	t.Helper()
	token, err := l.west.Token(t.Context(), "linkerd", "isthmus")
	must(t, err)
	return token
}

// start adds replicas and waits until they have synced with east. The replicas have the permissions
// from manifests/install. The server is the address of the local API server, or of a proxy in front
// of it.
func (l *lostEast) start(t *testing.T, server string, replicas int) {
	t.Helper()
	text, err := l.west.Kubeconfig(server, clientcmdapi.AuthInfo{Token: l.token(t)})
	must(t, err)
	kubeconfig := writeKubeconfig(t, text)
	for range replicas {
		r := startGateway(t, harness.ReplicaConfig{
			Kubeconfig: kubeconfig,
			Hostname:   fmt.Sprint("isthmus-", len(l.replicas)),
			Args:       []string{"-shutdown-delay=0s", "-drain=0s", "-log-level=info"},
		})
		l.replicas = append(l.replicas, r)
		awaitReady(t, r, "east")
	}
}

// subscribe starts proxies and waits until they have the endpoints in east.
func (l *lostEast) subscribe(t *testing.T, proxies int) {
	t.Helper()
	var addrs []string
	for _, r := range l.replicas {
		addrs = append(addrs, r.Addr())
	}
	l.proxies = runSubscribers(t, proxies, func(int) []string { return addrs })
	l.awaitAddrs(t, l.first)
}

// grow creates numbered EndpointSlices without endpoints in east, from first to last-1. Each slice
// adds about 180 KiB to a copy.
func (l *lostEast) grow(t *testing.T, first, last int) {
	t.Helper()
	const writers = 8
	errs := make([]error, writers)
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for number := first + w; number < last; number += writers {
				text := make([]byte, 180<<10)
				_, _ = rand.Read(text) // never fails
				o := kube.Slice("ns", "large", fmt.Sprint(number))
				o.Annotations = map[string]string{
					"mirror.linkerd.io/remote-gateway-identity": base64.StdEncoding.EncodeToString(text),
				}
				_, err := l.east.DiscoveryV1().EndpointSlices("ns").Create(t.Context(), o, metav1.CreateOptions{})
				errs[w] = errors.Join(errs[w], err)
			}
		})
	}
	writing.Wait()
	must(t, errors.Join(errs...))
}

// shrink deletes slices that grow has created.
func (l *lostEast) shrink(t *testing.T, first, last int) {
	t.Helper()
	for number := first; number < last; number++ {
		name := kube.Slice("ns", "large", fmt.Sprint(number)).Name
		must(t, l.east.DiscoveryV1().EndpointSlices("ns").Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
}

// inFront starts a proxy in front of the local API server and returns the URL of the proxy. The
// proxy adds the token of a replica, because clients do not send tokens over HTTP.
func (l *lostEast) inFront(
	t *testing.T, answer func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc),
) string {
	t.Helper()
	config := rest.AnonymousClientConfig(l.local.REST())
	config.BearerToken = l.token(t)
	target, err := url.Parse(config.Host)
	must(t, err)
	transport, err := rest.TransportFor(config)
	must(t, err)
	return harness.Intercept(t, target, transport, answer).URL
}

func (l *lostEast) link(t *testing.T, server string, user clientcmdapi.AuthInfo) {
	t.Helper()
	l.linkAs(t, "east", server, user)
}

func (l *lostEast) linkAs(t *testing.T, name, server string, user clientcmdapi.AuthInfo) {
	t.Helper()
	kubeconfig, err := l.east.Kubeconfig(server, user)
	must(t, err)
	_, err = kube.Put(t.Context(), l.west.CoreV1().Secrets(kube.LinkNamespace), kube.Link(name, kubeconfig))
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
			return errors.New("the replica has not logged the text since its start")
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
	await(t, "the permission is removed", func() error {
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

// awaitRewritten waits until a new generation with the given number of ConfigMaps has replaced the
// incomplete generation.
func (l *lostEast) awaitRewritten(t *testing.T, before map[string][]string, configMaps int) {
	t.Helper()
	must(t, harness.Poll(t.Context(), 3*time.Minute, time.Second, func() error {
		now := l.copies(t)
		for generation, names := range now {
			if len(now) == 1 && before[generation] == nil && len(names) == configMaps {
				return nil
			}
		}
		return fmt.Errorf("generations %v, previously %v", now, before)
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

// leader returns the replica that holds the Lease for writing copies.
func (l *lostEast) leader(t *testing.T) (replica int) {
	t.Helper()
	lease, err := l.west.CoordinationV1().Leases(kube.LinkNamespace).Get(
		t.Context(), "isthmus-cache", metav1.GetOptions{},
	)
	must(t, err)
	_, err = fmt.Sscanf(*lease.Spec.HolderIdentity, "isthmus-%d", &replica)
	must(t, err)
	return replica
}

// awaitNotCopied waits until the first replica reports that it could not copy one cluster, for the
// given reason. The status, the metric of the alert and isthmus check must agree.
func (l *lostEast) awaitNotCopied(t *testing.T, reason string) (cluster string) {
	t.Helper()
	addr := l.replicas[0].MetricsAddr()
	must(t, harness.Poll(t.Context(), 3*time.Minute, time.Second, func() error {
		page, err := harness.ReadClusters(t.Context(), addr)
		if err != nil {
			return err
		}
		if page.Copies == nil || len(page.Copies.Missing) != 1 || page.Copies.Missing[0].Reason != reason {
			return fmt.Errorf("the replica shows %+v, want one missing copy: %s", page.Copies, reason)
		}
		cluster = page.Copies.Missing[0].Cluster
		return nil
	}))
	samples, err := harness.ReadMetrics(t.Context(), addr)
	must(t, err)
	if n, _ := harness.SumSamples(samples, regexp.MustCompile("^isthmus_cluster_copies_missing$")); n != 1 {
		t.Errorf("%v clusters are not copied according to the metric, want 1", n)
	}
	isthmus, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	run := runVerb(t, isthmus, "check", "--admin", addr)
	want := cluster + ": the cache of the stale cluster could not be copied: " + reason
	if !strings.Contains(run.stdout, want) {
		t.Errorf("isthmus check does not print %q:\n%s%s", want, run.stdout, run.stderr)
	}
	return cluster
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
			t.Errorf("proxy %d: endpoints were removed in %d messages and added in %d: %v", i, left, joined, err)
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
	var all []int
	for i, r := range l.replicas {
		all = append(all, i)
		if kill {
			l.kill(t, i)
		} else {
			must(t, r.Restart(t.Context()))
		}
	}
	if kill {
		l.restartAtOnce(t, all...)
	}
}

func (l *lostEast) kill(t *testing.T, replica int) {
	t.Helper()
	must(t, l.replicas[replica].Signal(syscall.SIGKILL))
	<-l.replicas[replica].Exited()
}

func (l *lostEast) restartAtOnce(t *testing.T, replicas ...int) {
	t.Helper()
	errs := make([]error, len(replicas))
	var starting sync.WaitGroup
	for i, replica := range replicas {
		starting.Go(func() { errs[i] = l.replicas[replica].Restart(t.Context()) })
	}
	starting.Wait()
	must(t, errors.Join(errs...))
}
