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

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// scripted is a cluster that does what the test sets.
type scripted struct {
	*known
	cfg    cluster.Config
	own    cluster.OwnConfig
	synced chan struct{}
	health federation.Latest[cluster.Health]
	region federation.Latest[string]
	ended  bool
	mu     sync.Mutex // guards the Services of known
}

func (c *scripted) Run(ctx context.Context) {
	<-ctx.Done()
	c.health.Set(cluster.Health{Health: follow.Health{Err: ctx.Err(), StaleSince: time.Now()}}) // as requests that are broken off do
	c.ended = true
}
func (c *scripted) Service(id federation.ServiceID) *cluster.Service {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known.Service(id)
}
func (c *scripted) Synced() <-chan struct{}                               { return c.synced }
func (c *scripted) Health() cluster.Health                                { h, _ := c.health.Get(); return h }
func (c *scripted) HealthChanged() <-chan struct{}                        { _, ch := c.health.Get(); return ch }
func (c *scripted) Region() string                                        { region, _ := c.region.Get(); return region }
func (c *scripted) Gateways() ([]*cluster.Gateway, int)                   { return nil, 0 }
func (c *scripted) Exposed(netip.Addr) string                             { return "" }
func (c *scripted) State(federation.ServiceID) federation.ServiceState    { return federation.Present }
func (c *scripted) Reader(federation.ServiceID, uint16) federation.Reader { return c }
func (c *scripted) Read() federation.Share                                { return federation.Share{State: federation.Present} }

// writtenTable is a table that keeps what was last written to it.
type writtenTable struct {
	*federation.Table
	mu          sync.Mutex
	link        federation.Link
	definitions map[federation.ServiceID]*federation.Definition
}

func (w *writtenTable) SetLink(c federation.ClusterName, l federation.Link) {
	w.Table.SetLink(c, l)
	w.mu.Lock()
	defer w.mu.Unlock()
	if c == federation.Local {
		w.link = l
	}
}

func (w *writtenTable) Define(id federation.ServiceID, d *federation.Definition) {
	w.Table.Define(id, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.definitions[id] = d
}

func (w *writtenTable) definition(id federation.ServiceID) *federation.Definition {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.definitions[id]
}

func (w *writtenTable) localLink() federation.Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.link
}

type env struct {
	*testing.T
	local   *Local
	cluster *scripted
	table   *federation.Table
	written *writtenTable // the same table
	logs    *observer.ObservedLogs
}

func inBubble(t *testing.T, f func(*env)) { inBubbleWith(t, Options{}, f) }

// inBubbleWith runs f with a Local that has these options, and a table and log of its own.
func inBubbleWith(t *testing.T, o Options, f func(*env)) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		e := &env{T: t, table: federation.NewTable(federation.Options{}), logs: logs}
		e.written = &writtenTable{Table: e.table, definitions: make(map[federation.ServiceID]*federation.Definition)}
		o.Table, o.Log, o.TrustDomain = e.table, zap.New(core), "trust.test"
		var err error
		e.local, err = create(o, func(cfg cluster.Config, own cluster.OwnConfig) (localCluster, error) {
			e.cluster = &scripted{known: &known{}, cfg: cfg, own: own, synced: make(chan struct{})}
			return e.cluster, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		e.local.table = e.written
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
			t.Errorf("Run returned %v, the cluster ended: %v", err, e.cluster.ended)
		}
		if now := e.table.Linked()[federation.Local]; now != before {
			t.Errorf("linked as %v, before the end %v", now, before)
		}
		e.logged()
	})
}

// service changes a Service, and waits until it is defined.
func (e *env) service(id federation.ServiceID, svc *cluster.Service) {
	e.change(id, svc)
	synctest.Wait()
}

// change changes a Service; nil: it is deleted.
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
func (e *env) sync()                   { close(e.cluster.synced); synctest.Wait() }

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
			t.Error("synced")
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
		e.logged("cluster is stale: its API is not followed, and its endpoints stay as they were", "cluster is back")
	})
}

// A Service's definition follows it from kind to kind, and out of existence.
func TestServiceChangesKind(t *testing.T) {
	inBubble(t, func(e *env) {
		w := e.table.Watch(federation.Key{Service: shopWeb, Port: 80})
		defer w.Close()
		set := func(want federation.Set) {
			t.Helper()
			if got, _ := w.Get(); got.Exists != want.Exists || got.Reason != want.Reason {
				t.Errorf("exists %v, reason %v; want %v, %v", got.Exists, got.Reason, want.Exists, want.Reason)
			}
		}
		service := func(labels, annotations map[string]string) {
			e.service(shopWeb, &cluster.Service{Labels: labels, Annotations: annotations})
		}
		e.sync()
		set(federation.Set{Reason: federation.Undefined})
		service(nil, nil)
		set(federation.Set{Exists: true})
		service(map[string]string{remoteDiscovery: "east", remoteService: "web"}, nil)
		set(federation.Set{Reason: federation.NotLinked})
		service(map[string]string{remoteDiscovery: "east"}, nil)
		set(federation.Set{Exists: true, Reason: federation.NoRemoteService})
		service(nil, map[string]string{remoteDiscovery: "web@east"})
		set(federation.Set{Exists: true})
		e.service(shopWeb, nil)
		set(federation.Set{Reason: federation.Undefined})
	})
}

func TestProblemsAreReportedOnce(t *testing.T) {
	inBubble(t, func(e *env) {
		put := func(annotation string) {
			e.service(shopWeb, &cluster.Service{Annotations: map[string]string{remoteDiscovery: annotation}})
		}
		const line = "annotations or labels of the Service can't be used"
		e.sync()
		e.logged("cluster ready")
		put("a@b@c,bb@east")
		put("a@b@c,bb@east,bb@north") // other members, the same problem
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
			t.Errorf("problems of a Service that is gone: %v", p)
		}
	})
}

func TestClusterIsMadeAsLocal(t *testing.T) {
	inBubble(t, func(e *env) {
		if c := e.cluster.cfg; c.Name != federation.Local || c.TrustDomain != "trust.test" {
			t.Errorf("made from %+v", c)
		}
	})
	if _, err := New(Options{}); err == nil {
		t.Error("made without a table")
	}
	_, err := create(Options{Table: federation.NewTable(federation.Options{})}, func(cluster.Config, cluster.OwnConfig) (localCluster, error) { return nil, errors.New("no") })
	if err == nil {
		t.Error("made without a cluster")
	}
}
