package clusterstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/pace"
)

var web = federation.ServiceID{Namespace: "shop", Name: "web"}

// scripted is a cluster that the test controls. It offers one endpoint with an address of its own.
type scripted struct {
	Cluster               // nil, so that any other method panics
	rest                  *rest.Config
	cfg                   cluster.Config
	endpoint              *federation.Endpoint
	listed                chan struct{} // the test may close it before it calls sync
	synced                chan struct{}
	listedAt, askedListed int // like syncAt and asked, for Listed
	syncAt                int // if not 0, the cluster syncs when its link asks for the syncAt-th time
	asked                 int
	failAt                int // if not 0, the cluster fails when Health is called for the failAt-th time
	askedHealth           atomic.Int64
	health                federation.Latest[cluster.Health]
	region                atomic.Pointer[string]
	gateways              atomic.Pointer[[]*cluster.Gateway]
	began                 time.Time     // when Run was called
	running               chan struct{} // closed by Run, unless its context has been cancelled
	stopped               chan struct{} // closed when Run returns
}

func (c *scripted) Run(ctx context.Context) {
	defer close(c.stopped)
	if ctx.Err() != nil {
		return
	}
	c.began = time.Now()
	close(c.running)
	<-ctx.Done()
}

func (c *scripted) Listed() <-chan struct{} {
	if c.askedListed++; c.askedListed == c.listedAt {
		close(c.listed)
	}
	return c.listed
}

func (c *scripted) Synced() <-chan struct{} {
	if c.asked++; c.asked == c.syncAt {
		close(c.synced)
	}
	return c.synced
}

func (c *scripted) Health() cluster.Health {
	if n := c.askedHealth.Add(1); n == int64(c.failAt) {
		c.health.Set(healthOf(follow.Health{Err: errors.New("connection refused")}))
	}
	h, _ := c.health.Get()
	return h
}

func (c *scripted) HealthChanged() <-chan struct{} { _, ch := c.health.Get(); return ch }

func (c *scripted) State(federation.ServiceID) federation.ServiceState { return federation.Present }

func (c *scripted) Declares(federation.ServiceID, uint16) bool { return true }

func (c *scripted) Reader(federation.ServiceID, uint16) federation.Reader { return c }

func (c *scripted) Read() federation.Share {
	return federation.Share{
		State:  federation.Present,
		Slices: []*federation.Slice{{Endpoints: []*federation.Endpoint{c.endpoint}}},
	}
}

func (c *scripted) sync() { close(c.synced); synctest.Wait() }

func (c *scripted) fail(e string) {
	c.health.Set(healthOf(follow.Health{Err: errors.New(e)}))
	synctest.Wait()
}

func (c *scripted) lose(e string) {
	c.health.Set(healthOf(follow.Health{Err: errors.New(e), StaleSince: time.Now()}))
	synctest.Wait()
}

func (c *scripted) recover() {
	c.health.Set(healthOf(follow.Health{LastEvent: time.Now()}))
	synctest.Wait()
}

func (c *scripted) Gateways() (list []*cluster.Gateway, more int) {
	if l := c.gateways.Load(); l != nil {
		return *l, 0
	}
	return nil, 0
}

func (c *scripted) setGateways(list ...*cluster.Gateway) {
	c.gateways.Store(&list)
	c.cfg.LinkChanged()
	time.Sleep(pace.SignalPause) // changes within a second are passed on together
	synctest.Wait()
}

func (c *scripted) Region() (region string, known bool) {
	if r := c.region.Load(); r != nil {
		return *r, true
	}
	return "", false
}

func (c *scripted) move(region string) {
	c.region.Store(&region)
	c.cfg.LinkChanged()
	synctest.Wait()
}

func (c *scripted) isStopped() bool { return closed(c.stopped) }

func healthOf(h follow.Health) cluster.Health { return cluster.Health{Health: h} }

// env is a Store in a synctest bubble, with a fake API and scripted clusters.
type env struct {
	t      *testing.T
	client *fake.Clientset
	table  *federation.Table
	store  *Store
	watch  *federation.Watch[*federation.Set] // of the Service web, federated over east and north
	logs   *observer.ObservedLogs
	cancel context.CancelFunc
	done   chan struct{}

	forbidden atomic.Bool // whether listing Secrets is forbidden
	listedAt  int         // listedAt of new clusters
	syncAt    int         // syncAt of new clusters
	failAt    int         // failAt of new clusters, except those of copies

	mu      sync.Mutex
	made    []*scripted
	links   []string // every Link that differs from its predecessor
	link    federation.Link
	changes []cluster.Change
}

// inBubble runs a test with a Store that starts with the given Secrets. If a Secret is nil, the API
// forbids listing Secrets.
func inBubble(t *testing.T, f func(*env), secrets ...*corev1.Secret) {
	inBubbleWith(t, Options{}, f, secrets...)
}

// inBubbleWith is like inBubble, but the Store has the given options.
func inBubbleWith(t *testing.T, o Options, f func(*env), secrets ...*corev1.Secret) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		e := &env{
			t:      t,
			client: fake.NewClientset(),
			table:  federation.NewTable(federation.Options{}),
			logs:   logs,
			done:   make(chan struct{}),
		}
		e.client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return e.forbidden.Load(), nil, apierrors.NewForbidden(
				schema.GroupResource{Resource: "secrets"},
				"",
				errors.New("no RBAC"),
			)
		})
		for _, s := range secrets {
			if s == nil {
				e.forbidden.Store(true)
			} else {
				e.put(s)
			}
		}
		o.Namespace = "linkerd"
		o.Table = e.table
		o.Log = zap.New(core)
		o.Report = e.report
		store, err := NewStore(&kube.Client{Sources: fakeSources(e.client, nil)}, o)
		if err != nil {
			t.Fatal(err)
		}
		store.create, store.setLink = e.create, e.setLink
		store.filter.Interfaces = func() ([]net.Addr, error) { return nil, nil }
		e.store = store
		e.table.Define(
			web,
			&federation.Definition{
				Federated: true,
				Members:   []federation.Member{{Cluster: "east", Service: web}, {Cluster: "north", Service: web}},
			},
		)
		e.watch = e.table.Watch(federation.Key{Service: web, Port: 80})
		defer e.watch.Close()
		var ctx context.Context
		ctx, e.cancel = context.WithCancel(t.Context())
		go func() {
			defer close(e.done)
			if err := store.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		f(e)
		e.shutdown()
	})
}

func (e *env) shutdown() {
	e.cancel()
	<-e.done
	for _, c := range e.made {
		if closed(c.running) && !c.isStopped() {
			e.t.Errorf("Run has returned, but cluster %v has not stopped", c.cfg.Name)
		}
	}
}

func (e *env) create(from *rest.Config, cfg cluster.Config) (Cluster, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if cfg.TrustDomain == "impossible" {
		return nil, errors.New("can't be made")
	}
	addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(len(e.made) + 1)})
	c := &scripted{
		rest: from, cfg: cfg, listed: make(chan struct{}), synced: make(chan struct{}),
		running: make(chan struct{}), stopped: make(chan struct{}),
		endpoint: &federation.Endpoint{Addr: netip.AddrPortFrom(addr, 80), Cluster: cfg.Name},
		listedAt: e.listedAt, syncAt: e.syncAt,
	}
	if cfg.Copied == nil {
		c.failAt = e.failAt
	}
	e.made = append(e.made, c)
	return c, nil
}

// last returns the newest cluster. n is the number of clusters made so far.
func (e *env) last(n int) *scripted {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.made) != n {
		e.t.Fatalf("%d clusters were made, not %d", len(e.made), n)
	}
	return e.made[n-1]
}

// sync lets the newest cluster sync. n is the number of clusters made so far.
func (e *env) sync(n int) *scripted {
	e.t.Helper()
	c := e.last(n)
	c.sync()
	return c
}

// named returns the first cluster that was made with the given name.
func (e *env) named(name federation.ClusterName) *scripted {
	e.t.Helper()
	i := slices.IndexFunc(e.made, func(c *scripted) bool { return c.cfg.Name == name })
	if i < 0 {
		e.t.Fatalf("no cluster %s was made", name)
	}
	return e.made[i]
}

// secret returns a link Secret that is age seconds old.
func secret(name, cluster, token string, age int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "linkerd",
			CreationTimestamp: metav1.NewTime(time.Date(2000, 1, 1, 0, 0, -age, 0, time.UTC)),
			Labels:            map[string]string{ClusterNameLabel: cluster},
			Annotations: map[string]string{
				TrustDomainAnnotation:   "trust.test",
				ClusterDomainAnnotation: "cluster.test",
			},
		},
		Type: SecretType,
		Data: map[string][]byte{KubeconfigKey: []byte(kubeconfig(token))},
	}
}

func kubeconfig(token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://api.example:6443"}}]
users: [{name: u, user: {token: %q}}]
`, token)
}

// put creates or updates a Secret and waits until the Store has handled it.
func (e *env) put(s *corev1.Secret) {
	e.t.Helper()
	secrets := e.client.CoreV1().Secrets("linkerd")
	_, err := secrets.Update(e.t.Context(), s, metav1.UpdateOptions{})
	if err != nil {
		_, err = secrets.Create(e.t.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		e.t.Fatal(err)
	}
	synctest.Wait()
}

func (e *env) pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

func (e *env) remove(name string) {
	e.t.Helper()
	if err := e.client.CoreV1().Secrets("linkerd").Delete(e.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		e.t.Fatal(err)
	}
	synctest.Wait()
}

// served checks which clusters have endpoints in the set that the table publishes.
func (e *env) served(want ...*scripted) {
	e.t.Helper()
	set, _ := e.watch.Get()
	var addrs []netip.AddrPort
	for _, c := range want {
		addrs = append(addrs, c.endpoint.Addr)
	}
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	if !slices.EqualFunc(
		set.Endpoints,
		addrs,
		func(e *federation.Endpoint, a netip.AddrPort) bool { return e.Addr == a },
	) {
		var got []string
		for _, ep := range set.Endpoints {
			got = append(got, ep.Addr.String())
		}
		e.t.Errorf("served: %v, want %v", got, addrs)
	}
}

// linked checks the states of all links in the table.
func (e *env) linked(want string) {
	e.t.Helper()
	var got []string
	for c, s := range e.table.Linked() {
		got = append(got, c.String()+"="+s.String())
	}
	slices.Sort(got)
	if s := strings.Join(got, " "); s != want {
		e.t.Errorf("linked: %q, want %q", s, want)
	}
}

// status checks the status, which has one line for each Secret, sorted by name.
func (e *env) status(want ...string) {
	e.t.Helper()
	var got []string
	for _, s := range e.store.Status() {
		line := fmt.Sprintf("%s %s %s", s.Secret, cmp.Or(string(s.Cluster), "-"), s.State)
		if s.Reason != "" {
			line += ": " + s.Reason
		}
		for _, w := range s.Warnings {
			line += " !" + w
		}
		got = append(got, line)
	}
	slices.Sort(got)
	if !slices.EqualFunc(got, want, matches) {
		e.t.Errorf("status:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// matches compares two texts. "…" in want matches any text.
func matches(got, want string) bool {
	head, tail, cut := strings.Cut(want, "…")
	return got == want || cut && strings.HasPrefix(got, head) && strings.HasSuffix(got[len(head):], tail)
}

func (e *env) settled(want bool) {
	e.t.Helper()
	if closed(e.store.Settled()) != want {
		e.t.Errorf("settled is %v", !want)
	}
}

// logged checks the messages that were logged since its last call.
func (e *env) logged(want ...string) {
	e.t.Helper()
	var got []string
	for _, l := range e.logs.TakeAll() {
		got = append(got, l.Message)
	}
	if !slices.EqualFunc(got, want, matches) {
		e.t.Errorf("logged %q, want %q", got, want)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
