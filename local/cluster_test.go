package local

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
)

// scripted is a cluster whose contents the test sets.
type scripted struct {
	clusterstore.Cluster // nil, so other methods panic
	*known
	cfg    cluster.Config
	own    cluster.LocalConfig
	synced chan struct{}
	health federation.Latest[cluster.Health]
	ended  bool
	mu     sync.Mutex // guards the Services of known
	cursed federation.ServiceID
}

func (c *scripted) Run(ctx context.Context) {
	<-ctx.Done()
	c.health.Set(
		cluster.Health{Health: follow.Health{Err: ctx.Err(), StaleSince: time.Now()}},
	) // like a cluster whose requests were canceled
	c.ended = true
}

func (c *scripted) Service(id federation.ServiceID) *cluster.Service {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == c.cursed {
		panic("cursed")
	}
	return c.known.Service(id)
}

func (c *scripted) Listed() <-chan struct{} { return c.synced }

func (c *scripted) Synced() <-chan struct{} { return c.synced }

func (c *scripted) Health() cluster.Health { h, _ := c.health.Get(); return h }

func (c *scripted) HealthChanged() <-chan struct{} { _, ch := c.health.Get(); return ch }

func (c *scripted) AddressConflicts() ([]adminapi.AddressConflict, int) { return nil, 0 }

func (c *scripted) Region() (string, bool) { return "", true }

func (c *scripted) LinkerdMirrors() map[string][]federation.ServiceID { return nil }

func (c *scripted) AssignedTo(netip.Addr) string { return "" }

func (c *scripted) State(federation.ServiceID) federation.ServiceState { return federation.Present }

func (c *scripted) Declares(federation.ServiceID, uint16) bool { return true }

func (c *scripted) Reader(federation.ServiceID, uint16) federation.Reader { return c }

func (c *scripted) Read() federation.Share { return federation.Share{State: federation.Present} }

type env struct {
	*testing.T
	local   *Cluster
	cluster *scripted
	table   *federation.Table
	logs    *observer.ObservedLogs

	supervisor *panics.Supervisor
}

// inBubble runs f with a Cluster that has its own table and log.
func inBubble(t *testing.T, f func(*env)) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		e := &env{T: t, table: federation.NewTable(federation.Options{}), logs: logs, supervisor: startSupervisor(t)}
		var err error
		e.local, err = create(Options{
			REST:        &rest.Config{},
			Table:       e.table,
			Log:         zap.New(core),
			TrustDomain: "trust.test",
			Preference:  new(DefaultPreference()),
			Report:      func(cluster.Change) {},
			Supervisor:  e.supervisor,
		}, func(cfg cluster.Config, own cluster.LocalConfig) (localCluster, error) {
			e.cluster = &scripted{known: &known{}, cfg: cfg, own: own, synced: make(chan struct{})}
			return e.cluster, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.local.Run(ctx) }()
		synctest.Wait()
		f(e)
		synctest.Wait()
		e.logs.TakeAll()
		before := e.table.Linked()[federation.Local]
		cancel()
		if err := <-done; err != nil || !e.cluster.ended {
			t.Errorf("Run returned %v; Run of the cluster returned: %v", err, e.cluster.ended)
		}
		if now := e.table.Linked()[federation.Local]; now != before {
			t.Errorf("the link changed at the end to %v, from %v", now, before)
		}
		e.logged()
	})
}

// service changes a Service, and waits until the change is processed.
func (e *env) service(id federation.ServiceID, svc *cluster.Service) {
	e.change(id, svc)
	synctest.Wait()
}

// change changes a Service, or deletes it if svc is nil.
func (e *env) change(id federation.ServiceID, svc *cluster.Service) {
	e.cluster.mu.Lock()
	if e.cluster.services == nil {
		e.cluster.services = make(map[federation.ServiceID]*cluster.Service)
	}
	e.cluster.services[id] = svc
	e.cluster.mu.Unlock()
	e.cluster.own.ServiceChanged(id)
}

func (e *env) health(h cluster.Health) { e.cluster.health.Set(h); synctest.Wait() }

func (e *env) sync() { close(e.cluster.synced); synctest.Wait() }

func (e *env) state(link federation.LinkState, state cluster.State, reason string) {
	e.Helper()
	if got := e.table.Linked()[federation.Local]; got != link {
		e.Errorf("linked as %v, want %v", got, link)
	}
	if st := e.local.Status(); st.Cluster != "local" || st.State != state || st.Reason != reason || st.Since.IsZero() {
		e.Errorf("status %+v, want %v %q", st, state, reason)
	}
}

func (e *env) logged(want ...string) {
	e.Helper()
	var got []string
	for _, l := range e.logs.TakeAll() {
		got = append(got, l.Message)
	}
	if !slices.Equal(got, want) {
		e.Errorf("logged %q, want %q", got, want)
	}
}

func TestLife(t *testing.T) {
	inBubble(t, func(e *env) {
		e.state(federation.Pending, cluster.Pending, "")
		e.health(cluster.Health{Health: follow.Health{Err: errors.New("refused")}})
		e.health(cluster.Health{Health: follow.Health{Err: errors.New("timeout")}})
		e.state(federation.Unreachable, cluster.Unreachable, "timeout")
		select {
		case <-e.local.Synced():
			t.Error("the cluster is synced too early")
		default:
		}
		e.health(cluster.Health{})
		e.sync()
		<-e.local.Synced()
		e.state(federation.Ready, cluster.Ready, "")
		e.logged("cluster unreachable; it is retried", "cluster ready")
		e.health(cluster.Health{Health: follow.Health{Err: errors.New("gone"), StaleSince: time.Now()}})
		time.Sleep(time.Hour)
		e.health(cluster.Health{Health: follow.Health{Err: errors.New("still gone"), StaleSince: time.Now()}})
		e.state(federation.Ready, cluster.Stale, "still gone")
		e.health(cluster.Health{})
		e.state(federation.Ready, cluster.Ready, "")
		e.logged("cluster is stale: its API cannot be watched, and its cached endpoints stay in use", "cluster is back")
	})
}

func TestProblemsAreReportedOnce(t *testing.T) {
	inBubble(t, func(e *env) {
		put := func(annotation string) {
			e.service(shopWeb, &cluster.Service{Annotations: map[string]string{remoteDiscovery: annotation}})
		}
		const line = "annotations or labels of the Service are invalid"
		e.sync()
		e.logged("cluster ready")
		put("a@b@c,bb@east")
		put("a@b@c,bb@east,bb@north") // other members with the same problem
		e.logged(line)
		if p := e.local.Problems(); len(p) != 1 || p[0].Service != "shop/web" || len(p[0].Problems) != 1 {
			t.Errorf("problems: %v", p)
		}
		put("a@b@c,nonsense")
		e.logged(line)
		put("bb@east")
		e.logged()
		if p := e.local.Problems(); len(p) != 0 {
			t.Errorf("problems: %v", p)
		}
		put("nonsense")
		e.service(shopWeb, nil)
		if p := e.local.Problems(); len(p) != 0 {
			t.Errorf("problems of a deleted Service: %v", p)
		}
	})
}

// TestPanicOfDefinition checks that a Service whose definition panics does not change until a retry
// succeeds. The broken Service delays neither the start nor other Services of its namespace.
func TestPanicOfDefinition(t *testing.T) {
	inBubble(t, func(e *env) {
		bad := federation.ServiceID{Namespace: "shop", Name: "bad"}
		good := federation.ServiceID{Namespace: "shop", Name: "good"}
		e.cluster.cursed = bad
		e.change(bad, &cluster.Service{})
		e.change(good, &cluster.Service{})
		e.sync()
		check := func(defined bool, failures int) {
			e.Helper()
			if e.table.Defined(bad) != defined || !e.table.Defined(good) {
				e.Errorf("defined: %v and %v", e.table.Defined(bad), e.table.Defined(good))
			}
			if list := e.supervisor.Failures(); len(list) != failures || failures > 0 && list[0].Service != bad {
				e.Errorf("failures %+v", list)
			}
		}
		check(false, 1)
		e.cluster.mu.Lock()
		e.cluster.cursed = federation.ServiceID{}
		e.cluster.mu.Unlock()
		time.Sleep(panics.MinPause)
		synctest.Wait()
		check(true, 0)
	})
}

// TestOwnerOf checks the owners of addresses and the ports of a Service.
func TestOwnerOf(t *testing.T) {
	k := aShop()
	service := netip.MustParseAddr("10.1.0.1")
	pod := netip.MustParseAddr("10.0.0.1")
	several := netip.MustParseAddr("10.1.0.9")
	k.found[netip.AddrPortFrom(several, 0)] = cluster.Found{Claimed: "2 Services"}
	k.found[netip.AddrPortFrom(service, 0)] = cluster.Found{ID: shopWeb, Service: k.services[shopWeb]}
	k.owners = map[netip.Addr]string{service: "Service shop/web", pod: "Pod shop/web-1", several: "Service shop/web"}
	l := &Cluster{cluster: &scripted{known: k}}
	for ip, want := range map[netip.Addr]struct {
		owner   string
		service bool
		claimed string
	}{
		service:                         {owner: "Service shop/web", service: true},
		pod:                             {owner: "Pod shop/web-1"},
		several:                         {owner: "Service shop/web", claimed: "2 Services"},
		netip.MustParseAddr("10.9.9.9"): {},
	} {
		got := l.AddressOwner(ip)
		isService := got.Service != nil
		if got.Name != want.owner || got.Claimed != want.claimed || isService != want.service ||
			isService && *got.Service != shopWeb {
			t.Errorf("%v: %+v", ip, got)
		}
	}
	if got := l.Ports(shopWeb); !slices.Equal(got, []uint16{80, 3306}) {
		t.Errorf("ports %v", got)
	}
	if got := l.Ports(federation.ServiceID{Namespace: "shop", Name: "none"}); got != nil {
		t.Errorf("ports of a missing Service: %v", got)
	}
}

// TestServiceOfImport checks that only a Service with the mark and the label of a ServiceImport
// counts as its derived Service.
func TestServiceOfImport(t *testing.T) {
	id := federation.ServiceID{Namespace: "shop", Name: "cart-clusterset"}
	const mark, as, label = "isthmus.io/written-by", "isthmus.io/written-as", "multicluster.kubernetes.io/service-name"
	written := map[string]string{as: "Service shop/cart-clusterset"}
	for name, test := range map[string]struct {
		service *cluster.Service
		want    bool
	}{
		"no Service": {},
		"written": {
			&cluster.Service{Labels: map[string]string{mark: "linkerd", label: "cart"}, Annotations: written}, true,
		},
		"somebody else's": {&cluster.Service{Labels: map[string]string{label: "cart"}, Annotations: written}, false},
		"of another import": {
			&cluster.Service{Labels: map[string]string{mark: "linkerd", label: "web"}, Annotations: written}, false,
		},
	} {
		k := aShop()
		if test.service != nil {
			k.services[id] = test.service
		}
		l := &Cluster{cluster: &scripted{known: k}}
		got, ok := l.ServiceOfImport(federation.ServiceID{Namespace: "shop", Name: "cart"})
		if ok != test.want || ok && got != id {
			t.Errorf("%s: %v %t", name, got, ok)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
