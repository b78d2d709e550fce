package clusterstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

// wholeCluster is what clients see of servedAPI while all kinds are listed.
const wholeCluster = "10.1.0.1 opaque deployment=web; 10.1.0.2"

// servedAPI is a fake of one cluster's API. Its Service shop/web has an ExternalWorkload and a Pod
// of a Deployment. A Server makes the Pod's port opaque. A Node has the region north.
type servedAPI struct {
	objects map[string][]decode.Object // by resource
	ended   federation.Latest[struct{}]

	mu   sync.Mutex
	errs map[string]error // errors of requests by "TOKEN RESOURCE", where either may be *
}

func newServedAPI() *servedAPI {
	return &servedAPI{errs: make(map[string]error), objects: map[string][]decode.Object{
		"services": {&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}},
		"endpointslices": {&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1",
				Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.1.0.1"},
					TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1-a"}},
				{Addresses: []string{"10.1.0.2"},
					TargetRef: &corev1.ObjectReference{Kind: "ExternalWorkload", Namespace: "shop", Name: "vm"}},
			},
		}},
		"pods": {&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web-1-a", Labels: map[string]string{"app": "web"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1"}},
			},
			Status: corev1.PodStatus{PodIP: "10.1.0.1", Phase: corev1.PodRunning},
		}},
		"externalworkloads": {&decode.ExternalWorkload{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "vm"},
			Spec:       decode.ExternalWorkloadSpec{WorkloadIPs: []decode.WorkloadIP{{IP: "10.1.0.2"}}},
		}},
		"servers": {&decode.Server{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec: decode.ServerSpec{
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				Port:        intstr.FromInt32(8080), ProxyProtocol: decode.ProtocolOpaque,
			},
		}},
		"replicasets": {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1",
			OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: "web"}},
		}}},
		"nodes": {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "node", Labels: map[string]string{"topology.kubernetes.io/region": "north"},
		}}},
	}}
}

// answer sets the error of requests. A nil error lets them succeed. about is a key of errs.
func (a *servedAPI) answer(about string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errs[about] = err
}

// cut ends all watches, as a restart of the server does.
func (a *servedAPI) cut() { a.ended.Set(struct{}{}) }

func (a *servedAPI) find(token, resource string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.errs["* *"], a.errs[token+" *"], a.errs["* "+resource], a.errs[token+" "+resource])
}

func (a *servedAPI) sources(token string) decode.Sources {
	return decode.Sources{
		Serves: func(_ context.Context, resource string, _ ...schema.GroupVersion) (bool, error) {
			return !apierrors.IsNotFound(a.find(token, resource)), a.find(token, "discovery")
		},
		Services:       servedKind[*corev1.Service]{a, token, "services"},
		EndpointSlices: servedKind[*discoveryv1.EndpointSlice]{a, token, "endpointslices"},
		Pods:           servedKind[*corev1.Pod]{a, token, "pods"},
		Workloads:      servedKind[*decode.ExternalWorkload]{a, token, "externalworkloads"},
		Servers:        servedKind[*decode.Server]{a, token, "servers"},
		ReplicaSets:    servedKind[*metav1.PartialObjectMetadata]{a, token, "replicasets"},
		Jobs:           servedKind[*metav1.PartialObjectMetadata]{a, token, "jobs"},
		NodeMetadata:   servedKind[*metav1.PartialObjectMetadata]{a, token, "nodes"},
		Document:       func(context.Context, string, any) error { return nil },
	}
}

// servedKind is a Source of one kind for clients with the given token.
type servedKind[O decode.Object] struct {
	api             *servedAPI
	token, resource string
}

func (k servedKind[O]) List(
	_ context.Context, _ metav1.ListOptions, each func(O, *decode.Refused) error,
) (meta metav1.ListMeta, err error) {
	if err := k.api.find(k.token, k.resource); err != nil {
		return meta, err
	}
	for _, o := range k.api.objects[k.resource] {
		if err := each(o.(O), nil); err != nil {
			return meta, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "1"}, nil
}

func (k servedKind[O]) Watch(ctx context.Context, _ metav1.ListOptions) (decode.Events[O], error) {
	if err := k.api.find(k.token, k.resource); err != nil {
		return nil, err
	}
	_, ended := k.api.ended.Get()
	return servedEvents[O]{ctx, ended}, nil
}

// servedEvents is a watch without events.
type servedEvents[O decode.Object] struct {
	ctx   context.Context
	ended <-chan struct{}
}

func (e servedEvents[O]) Next(func(decode.Event[O]) error) error {
	select {
	case <-e.ctx.Done():
		return e.ctx.Err()
	case <-e.ended:
		return io.EOF
	}
}

func (e servedEvents[O]) Close() error { return nil }

// Errors that servedAPI returns.
var (
	errRefused  = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no RBAC"))
	errBroken   = apierrors.NewInternalError(errors.New("conversion webhook failed"))
	errNoKind   = apierrors.NewNotFound(schema.GroupResource{}, "")
	errRevoked  = apierrors.NewUnauthorized("token")
	errNoServer = errors.New("connection refused")
)

// rotating is a Store with the link east. The Secret of the link begins with the token t1.
type rotating struct {
	*env
	api  *servedAPI
	made []*cluster.Cluster

	mu   sync.Mutex
	seen []string // what clients of a live stream have seen, without repetitions
}

// onServedAPI runs a test on one API. before prepares the start with token t1, which takes at most
// 25 s.
func onServedAPI(t *testing.T, before func(*rotating), f func(*rotating)) {
	inBubble(t, func(e *env) {
		r := &rotating{env: e, api: newServedAPI()}
		e.store.rules = cluster.Rules{EndpointSlices: true}
		e.store.create = r.create
		stop := r.watchSets()
		defer stop()
		if before != nil {
			before(r)
		}
		e.put(secret("s", "east", "t1", 0))
		e.pass(optionalTime)
		f(r)
	})
}

// optionalTime is how long a start waits for optional kinds, plus one pause after a failure.
const optionalTime = 29 * time.Second

func (r *rotating) create(from *rest.Config, cfg cluster.Config) (Cluster, error) {
	cfg.Client = &kube.Client{Sources: r.api.sources(from.BearerToken)}
	cfg.Memory = follow.NewMemoryCap(r.store.opts.Memory)
	c, err := cluster.New(cfg)
	r.made = append(r.made, c)
	return c, err
}

// watchSets records the published sets until stop is called.
func (r *rotating) watchSets() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			set, changed := r.watch.Get()
			r.note(set)
			select {
			case <-changed:
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (r *rotating) note(set *federation.Set) {
	var all []string
	for _, e := range set.Endpoints {
		text := e.Addr.Addr().String()
		if e.Opaque {
			text += " opaque"
		}
		for _, l := range e.Common.Get().Labels {
			if l.Name == "deployment" {
				text += " deployment=" + l.Value
			}
		}
		all = append(all, text)
	}
	text := strings.Join(all, "; ")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 || r.seen[len(r.seen)-1] != text {
		r.seen = append(r.seen, text)
	}
}

// saw checks what clients have seen since the last call. It ignores the empty set that begins every
// stream.
func (r *rotating) saw(want ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := slices.DeleteFunc(r.seen, func(s string) bool { return s == "" })
	if !slices.Equal(got, want) {
		r.t.Errorf("clients saw\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	r.seen = nil
	if len(got) > 0 {
		r.seen = got[len(got)-1:]
	}
}

// rotate writes the Secret with another token.
func (r *rotating) rotate(token string) { r.t.Helper(); r.put(secret("s", "east", token, 0)) }

// inUse checks which token serves the cluster, and what the new credentials wait for.
func (r *rotating) inUse(token, waiting string) {
	r.t.Helper()
	synctest.Wait()
	v := r.store.publishedLinks()["east"]
	if v.serving == nil {
		r.t.Errorf("no endpoint is served: %+v", r.store.Status())
		return
	}
	st := r.store.Status()[0]
	got := fmt.Sprintf("%s %s, waits for %s", v.serving.creds.rest.BearerToken, st.State, strings.Join(st.Awaited, " "))
	if want := token + " ready, waits for " + waiting; got != want {
		r.t.Errorf("in use: %q, want %q; %q", got, want, st.Warnings)
	}
}

// lateness lists how long a kind cannot be listed.
var lateness = []time.Duration{6 * time.Second, 20 * time.Second, 40 * time.Second}

// without has what clients see while a kind is not cached.
var without = map[string]string{
	"externalworkloads": "10.1.0.1 opaque deployment=web",
	"servers":           "10.1.0.1 deployment=web; 10.1.0.2",
	"replicasets":       "10.1.0.1 opaque; 10.1.0.2",
	"jobs":              wholeCluster,
	"nodes":             wholeCluster,
}

// alwaysAwaited has the kinds with cached objects that a successor must list, even if they are
// refused.
var alwaysAwaited = map[string]string{
	"externalworkloads": "externalworkloads.workload.linkerd.io",
	"servers":           "servers.policy.linkerd.io",
}

// TestRotationRefused checks that new credentials that may not list a kind remove no endpoint,
// opaque port or region. The status names the missing permission until it is granted.
//
// Behaviours: N-13.
func TestRotationRefused(t *testing.T) {
	for resource := range without {
		t.Run(resource, func(t *testing.T) {
			onServedAPI(t, nil, func(r *rotating) {
				r.saw(wholeCluster)
				r.api.answer("t2 "+resource, errRefused)
				r.rotate("t2")
				name := alwaysAwaited[resource]
				if name == "" {
					r.pass(time.Second)
					r.inUse("t2", "")
				} else {
					r.pass(time.Hour)
					r.saw(wholeCluster)
					r.inUse("t1", name)
					want := "new credentials do not work; the old credentials stay in use: " +
						"the new credentials lack the permission to list and watch " + name +
						", but the cluster has 1 of these objects; " +
						"a restarted replica would serve the cluster without these objects"
					st := r.store.Status()[0]
					if st.NewCredentials != want || len(st.Warnings) != 1 || st.Warnings[0] != want {
						t.Errorf("the status says %q, %q", st.NewCredentials, st.Warnings)
					}
					r.logged("cluster linked", "cluster ready",
						"new credentials do not work; the old credentials stay in use")
					r.api.answer("t2 "+resource, nil)
					r.pass(optionalTime)
					r.inUse("t2", "")
				}
				if region := r.store.Status()[0].Region; region != "north" {
					t.Errorf("the region is %q", region)
				}
				switch resource {
				case "replicasets": // only labels depend on these, and a refusal is final
					r.saw(wholeCluster, without[resource])
				default:
					r.saw(wholeCluster)
				}
			})
		})
	}
}

// TestRotationLate checks that new credentials replace the old ones once each kind with cached
// objects is listed.
func TestRotationLate(t *testing.T) {
	for resource := range without {
		for _, late := range lateness {
			t.Run(fmt.Sprintf("%s/%v", resource, late), func(t *testing.T) {
				onServedAPI(t, nil, func(r *rotating) {
					r.api.answer("t2 "+resource, errBroken)
					r.rotate("t2")
					r.pass(late - time.Second)
					r.inUseAny("t1", resource, late)
					r.api.answer("t2 "+resource, nil)
					r.pass(awaitedPause)
					r.inUse("t2", "")
					r.saw(wholeCluster)
					if region := r.store.Status()[0].Region; region != "north" {
						t.Errorf("the region is %q", region)
					}
				})
			})
		}
	}
}

// inUseAny checks that the old credentials are in use while a kind is late. Kinds that no endpoint
// depends on are awaited for only 25 s.
func (r *rotating) inUseAny(token, resource string, late time.Duration) {
	r.t.Helper()
	now := r.store.publishedLinks()["east"].serving.creds.rest.BearerToken
	optional := without[resource] == wholeCluster
	if (now == token) == (optional && late > 25*time.Second) {
		r.t.Errorf("in use: %s, after %v without %s", now, late, resource)
	}
}

// TestStart checks that a cluster is served once each kind is listed, refused or 25 s late. A
// cluster counts as unreachable only after that.
func TestStart(t *testing.T) {
	for resource, partly := range without {
		for _, late := range lateness {
			t.Run(fmt.Sprintf("%s/%v", resource, late), func(t *testing.T) {
				var began time.Time
				prepare := func(r *rotating) {
					began = time.Now()
					r.api.answer("* "+resource, errBroken)
					time.AfterFunc(late, func() { r.api.answer("* "+resource, nil) })
				}
				onServedAPI(t, prepare, func(r *rotating) {
					switch {
					case late < 25*time.Second:
						r.saw(wholeCluster)
					default:
						r.saw(partly)
					}
					if st := r.store.Status()[0]; st.State != "ready" || st.Since.Sub(began) > 25*time.Second ||
						late < 25*time.Second && st.Since.Sub(began) < late {
						t.Errorf("%s after %v", st.State, st.Since.Sub(began))
					}
					r.pass(late)
					if want := []string{partly, wholeCluster}; late > 25*time.Second && partly != wholeCluster {
						r.saw(want...)
					} else {
						r.saw(wholeCluster)
					}
				})
			})
		}
		t.Run(resource+"/refused", func(t *testing.T) {
			began := time.Now()
			prepare := func(r *rotating) {
				began = time.Now()
				r.api.answer("* "+resource, errRefused)
			}
			onServedAPI(t, prepare, func(r *rotating) {
				r.saw(partly)
				if took := r.store.Status()[0].Since.Sub(began); took > time.Second {
					t.Errorf("ready after %v", took)
				}
			})
		})
	}
}

// TestKindsGivenUp checks when new credentials are used although they may not list
// ExternalWorkloads.
//
// Behaviours: N-13.
func TestKindsGivenUp(t *testing.T) {
	const kind, partly = "externalworkloads", "10.1.0.1 opaque deployment=web"
	named := func(token, cluster string) *corev1.Secret {
		s := secret("s", "east", token, 0)
		s.Annotations[LinkedClusterAnnotation] = cluster
		return s
	}
	for name, x := range map[string]struct {
		err    error // of the kind, with the new credentials
		before func(*rotating)
		secret *corev1.Secret // with the new credentials
		after  func(*rotating)
		waits  time.Duration // minimum time that the old credentials stay in use
		within time.Duration // the new credentials are used within this time after that
	}{
		"the kind is absent": {err: errNoKind, within: time.Second},
		"another cluster": {err: errRefused, before: func(r *rotating) { r.put(named("t1", "one")) },
			secret: named("t2", "two"), within: time.Second},
		"the same cluster": {err: errRefused, before: func(r *rotating) { r.put(named("t1", "one")) },
			secret: named("t2", "one"), waits: time.Hour},
		"one cluster is not named": {err: errRefused, secret: named("t2", "two"), waits: time.Hour},
		"the old credentials are revoked": {err: errRefused,
			after: func(r *rotating) { r.api.answer("t1 *", errRevoked); r.api.cut() },
			waits: lastingTime, within: 10 * time.Second},
		"the old credentials may not list the kind either": {err: errRefused,
			after: func(r *rotating) { r.api.answer("t1 "+kind, errRefused); r.api.cut() },
			waits: lastingTime, within: optionalTime},
		"the cluster is stale for a minute": {err: errRefused,
			after: func(r *rotating) { r.api.answer("t1 *", errNoServer); r.api.cut() },
			waits: time.Minute, within: 10 * time.Second},
		"the cluster is stale, and the new credentials do not work": {err: errRefused,
			after: func(r *rotating) { r.api.answer("* *", errNoServer); r.api.cut() }, waits: time.Hour},
		"another kind is refused": {err: errRefused,
			after: func(r *rotating) { r.api.answer("t1 servers", errRefused); r.api.cut() }, waits: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			onServedAPI(t, nil, func(r *rotating) {
				if x.before != nil {
					x.before(r)
				}
				r.api.answer("t2 "+kind, x.err)
				if x.secret == nil {
					x.secret = secret("s", "east", "t2", 0)
				}
				r.put(x.secret)
				if x.after != nil {
					r.pass(time.Minute)
					x.after(r)
				}
				inUse := func() string { return r.store.publishedLinks()["east"].serving.creds.rest.BearerToken }
				r.pass(x.waits)
				if x.waits > 0 {
					r.saw(wholeCluster)
					if inUse() != "t1" {
						t.Fatal("the new credentials are in use")
					}
				}
				if x.within == 0 {
					return
				}
				r.pass(x.within)
				if inUse() != "t2" {
					t.Fatalf("the old credentials are in use: %q", r.store.Status()[0].Warnings)
				}
				r.saw(wholeCluster, partly)
			})
		})
	}
}

// lastingTime is shorter than the time after which a refusal of the old credentials counts.
const lastingTime = 9 * time.Second

// TestRegionOfAnotherCluster checks that a successor for another cluster has no region until its
// Nodes are listed.
func TestRegionOfAnotherCluster(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		s := secret("s", "east", "t1", 0)
		s.Annotations[LinkedClusterAnnotation] = "one"
		r.put(s)
		r.api.answer("t2 nodes", errRefused)
		s = secret("s", "east", "t2", 0)
		s.Annotations[LinkedClusterAnnotation] = "two"
		r.put(s)
		r.pass(time.Second)
		r.inUse("t2", "")
		if region := r.store.Status()[0].Region; region != "" {
			t.Errorf("the region is %q", region)
		}
	})
}

// TestRegionIsRead checks that the region follows the Nodes as soon as the new credentials may list
// Nodes.
func TestRegionIsRead(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		r.api.answer("t2 nodes", errRefused)
		r.rotate("t2")
		r.pass(time.Second)
		region := func() string { return r.store.Status()[0].Region }
		if region() != "north" {
			t.Errorf("the region is %q", region())
		}
		r.api.objects["nodes"] = nil
		r.api.answer("t2 nodes", nil)
		r.pass(optionalTime)
		if region() != "" {
			t.Errorf("without Nodes, the region is %q", region())
		}
	})
}

// TestRestartDuringRotation checks that a restart of the API server neither promotes nor drops the
// waiting credentials. A starting API server may refuse all requests for a moment.
func TestRestartDuringRotation(t *testing.T) {
	for name, refusal := range map[string]error{"403": errRefused, "401": errRevoked, "404": errNoKind} {
		t.Run(name, func(t *testing.T) {
			onServedAPI(t, nil, func(r *rotating) {
				r.api.answer("t2 servers", errRefused)
				r.rotate("t2")
				for range 3 {
					r.pass(time.Minute)
					r.api.answer("* *", errNoServer)
					r.api.cut()
					r.pass(20 * time.Second)
					r.api.answer("* discovery", errNoServer)
					r.api.answer("* *", refusal)
					r.pass(5 * time.Second)
					r.api.answer("* *", nil)
					r.api.answer("* discovery", nil)
				}
				r.pass(time.Minute)
				r.inUse("t1", "servers.policy.linkerd.io")
				r.api.answer("t2 servers", nil)
				r.pass(optionalTime)
				r.inUse("t2", "")
				r.saw(wholeCluster)
			})
		})
	}
}

// TestOutageDuringRotation checks that waiting credentials stay unused even if they are the first
// to reach the API server after a long outage.
func TestOutageDuringRotation(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		r.api.answer("t2 servers", errRefused)
		r.rotate("t2")
		r.pass(time.Minute)

		r.api.answer("* *", errNoServer)
		r.api.cut()
		r.pass(2 * time.Minute)
		r.api.answer("t1 *", errNoServer)
		r.api.answer("* *", nil)
		r.pass(30 * time.Second)
		r.saw(wholeCluster)
		r.api.answer("t1 *", nil)
		r.pass(10 * time.Second)
		r.inUse("t1", "servers.policy.linkerd.io")

		r.api.answer("t1 *", errNoServer)
		r.api.cut()
		r.pass(50 * time.Second)
		r.saw(wholeCluster)
		if st := r.store.Status()[0]; st.State != "stale" || len(st.Awaited) != 1 {
			t.Errorf("the link is %s and waits for %q", st.State, st.Awaited)
		}
	})
}

// TestAllRefusedDuringRotation checks that waiting credentials are not used while the API server
// refuses all credentials.
func TestAllRefusedDuringRotation(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		r.api.answer("t2 servers", errRefused)
		r.rotate("t2")
		r.pass(time.Minute)
		r.api.answer("* *", errRevoked)
		r.api.cut()
		r.pass(40 * time.Second)
		r.api.answer("* *", nil)
		r.pass(10 * time.Second)
		r.inUse("t1", "servers.policy.linkerd.io")
		r.saw(wholeCluster)
	})
}

// TestKindDeletedDuringRotation checks that new credentials stop waiting for a kind once its
// objects or the kind itself are deleted.
func TestKindDeletedDuringRotation(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		r.api.answer("t2 servers", errRefused)
		r.rotate("t2")
		r.pass(time.Minute)
		r.inUse("t1", "servers.policy.linkerd.io")
		r.api.answer("* servers", errNoKind)
		r.api.cut()
		r.pass(2 * optionalTime)
		r.inUse("t2", "")
		r.saw(wholeCluster, without["servers"])
	})
}

// TestTwentyRotations checks that the last of many rotations in a row wins. No endpoint is lost
// meanwhile.
//
// Behaviours: N-13.
func TestTwentyRotations(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, time.Minute} {
		t.Run(pause.String(), func(t *testing.T) {
			onServedAPI(t, nil, func(r *rotating) {
				for i := range 20 {
					token := fmt.Sprintf("n%d", i)
					if i%2 == 0 {
						r.api.answer(token+" externalworkloads", errRefused)
						r.api.answer(token+" servers", errBroken)
					}
					r.rotate(token)
					r.pass(pause)
				}
				r.pass(time.Second)
				r.inUse("n19", "")
				r.saw(wholeCluster)
				if len(r.made) != 21 {
					t.Errorf("%d clusters were made", len(r.made))
				}
			})
		})
	}
}

// TestRotationNearCap rotates the credentials of a cluster that takes 90 % of its memory cap. The
// successor has a cap of its own, so it lists all kinds beside the serving cluster.
func TestRotationNearCap(t *testing.T) {
	onServedAPI(t, nearCap(t, 90), func(r *rotating) {
		near := func() {
			t.Helper()
			if m := r.store.Status()[0].Memory; m.Used*100/m.Limit != 90 {
				t.Errorf("the clusters take %+v", m)
			}
		}
		near()
		r.saw(wholeCluster)
		r.rotate("t2")
		r.pass(time.Minute)
		r.inUse("t2", "")
		r.saw(wholeCluster)
		near()
	})
}

// TestRotationWithoutRoom checks that a rotation does not lose a kind that no longer fits into the
// memory cap.
func TestRotationWithoutRoom(t *testing.T) {
	onServedAPI(t, nearCap(t, 100), func(r *rotating) {
		r.saw(wholeCluster)
		for i := range 500 { // the ExternalWorkloads alone exceed the cap, whichever kind is listed first
			r.api.objects["externalworkloads"] = append(r.api.objects["externalworkloads"], largeWorkload(500+i))
		}
		r.rotate("t2")
		r.pass(time.Minute)
		r.inUse("t1", "externalworkloads.workload.linkerd.io")
		r.pass(10 * time.Minute)
		if st := r.store.Status()[0]; len(st.Awaited) != 1 {
			t.Errorf("after ten minutes, the link is %s and waits for %q", st.State, st.Awaited)
		}
		if why := r.store.Status()[0].NewCredentials; !strings.Contains(why, "over budget") {
			t.Errorf("the status says %q", why)
		}
		r.saw(wholeCluster)
	})
}

// nearCap returns a function that prepares an API with 500 large ExternalWorkloads. They take the
// given percentage of the memory cap.
func nearCap(t *testing.T, percent int64) func(*rotating) {
	limit := int64(1 << 30)
	prepare := func(r *rotating) {
		r.store.opts.Memory = limit
		for i := range 500 {
			r.api.objects["externalworkloads"] = append(r.api.objects["externalworkloads"], largeWorkload(i))
		}
	}
	onServedAPI(t, prepare, func(r *rotating) {
		limit = r.store.Status()[0].Memory.Used * 100 / percent
	})
	return prepare
}

func largeWorkload(i int) *decode.ExternalWorkload {
	return &decode.ExternalWorkload{ObjectMeta: metav1.ObjectMeta{
		Namespace: "more", Name: fmt.Sprintf("vm-%d", i),
		Labels: map[string]string{"x": strings.Repeat("x", 1000) + fmt.Sprint(i)},
	}}
}

// TestRotationAgain checks that a solved problem of new credentials is no longer shown. If the
// problem returns, it is logged again.
func TestRotationAgain(t *testing.T) {
	onServedAPI(t, nil, func(r *rotating) {
		r.logged("cluster linked", "cluster ready")
		r.api.answer("t2 servers", errBroken)
		r.api.answer("t2 pods", errNoServer)
		r.rotate("t2")
		r.status("s east ready !new credentials do not work; the old credentials stay in use: pods: connection refused")
		r.api.answer("t2 pods", nil)
		r.pass(5 * time.Second)
		r.status("s east ready !new credentials are being tried; the old credentials stay in use")
		r.pass(30 * time.Second)
		r.status("s east ready !new credentials do not work; the old credentials stay in use: " +
			"the new credentials cannot list servers.policy.linkerd.io, but the cluster has 1 of these objects: …")
		r.logged("new credentials do not work; the old credentials stay in use",
			"new credentials do not work; the old credentials stay in use")
	})
}
