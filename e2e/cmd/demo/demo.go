package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
	"isthmus/internal/adminapi"
)

const (
	west, east, north = "west", "east", "north"

	federated = "web-federated.shop.svc.cluster.local:80"
	mirror    = "cart-east.shop.svc.cluster.local:80"

	// seenLimit is the timeout for a change to reach the proxy on a busy machine. The documented
	// limit for a cluster after an outage is ten seconds. Other changes are much faster, as the
	// table shows.
	seenLimit = 30 * time.Second
	// calm is the time for which the result of a step must not change.
	calm = 300 * time.Millisecond
)

// names lists the clusters in the order of the table's columns.
var names = []string{west, east, north}

// demo contains all running parts of the demo and the expected state of its stream. Its methods are
// what several acts need.
type demo struct {
	options options
	screen  *screen
	dir     string
	fail    context.CancelCauseFunc // ends the demo after a failure in the background
	began   time.Time

	servers map[string]*harness.Cluster // processes of the clusters
	shops   map[string]*shop.Cluster    // the same clusters with the shop
	isthmus string                      // path of the isthmus command
	gateway *harness.Replica
	stream  *proxy.Stream // stream for the federated Service during the whole demo

	want  endpoints              // expected endpoints of the proxy
	tiers func(endpoints) string // returns the tiers for the table; nil if the table has no such column
	undo  []func() error
}

// act is one part of the demo. Each act has a file and a type of its own, which embeds the demo.
type act interface {
	play(context.Context) error
}

func newDemo(o options, s *screen) (*demo, error) {
	d := &demo{
		options: o, screen: s, dir: o.dir, began: time.Now(),
		servers: map[string]*harness.Cluster{}, shops: map[string]*shop.Cluster{}, want: endpoints{},
	}
	var err error
	if o.dir == "" {
		if d.dir, err = os.MkdirTemp("", "isthmus-demo-"); err == nil {
			d.later(func() error { return os.RemoveAll(d.dir) })
		}
	} else if d.dir, err = filepath.Abs(o.dir); err == nil {
		err = os.MkdirAll(d.dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("a folder for the state: %w", err)
	}
	return d, nil
}

// later registers a cleanup function. The functions run in reverse order.
func (d *demo) later(undo func() error) { d.undo = append(d.undo, undo) }

func (d *demo) close() error {
	var errs []error
	for _, undo := range slices.Backward(d.undo) {
		errs = append(errs, undo())
	}
	d.undo = nil
	return errors.Join(errs...)
}

// background runs a loop until the end of the demo. A panic in the loop ends the demo.
func (d *demo) background(ctx context.Context, loop func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				d.fail(fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
			}
		}()
		loop(ctx)
	})
	d.later(func() error {
		cancel()
		wg.Wait()
		return nil
	})
}

func (d *demo) run(ctx context.Context) error {
	d.screen.print("Isthmus demo: one federated Service over three Kubernetes clusters\n")
	acts := []act{setUp{d}, story{d}, preference{d}}
	if d.options.networks {
		acts = append(acts, &networks{demo: d})
	}
	acts = append(acts, exports{d}, compare{d})
	for _, a := range acts {
		if err := a.play(ctx); err != nil {
			return err
		}
	}
	d.screen.print("\nEverything worked, in %.0f s.\n", time.Since(d.began).Seconds())
	if d.options.keep {
		return lookAround{d}.play(ctx)
	}
	return nil
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// subscribe opens a stream like the proxy of a Pod in west.
func (d *demo) subscribe(
	ctx context.Context,
	kind proxy.Kind,
	authority string,
) (stream *proxy.Stream, closes func() error, err error) {
	conn, err := proxy.Dial(d.gateway.Addr())
	if err != nil {
		return nil, nil, err
	}
	stream = proxy.NewStream(proxy.Config{
		Conn: conn, Kind: kind, Authority: authority,
		Token: fmt.Sprintf(`{"ns":"shop","nodeName":%q,"pod":"demo"}`, d.shops[west].Node()),
	})
	// The stream outlives ctx, so that Ctrl-C does not look like a fault of Isthmus.
	if err := stream.Open(context.WithoutCancel(ctx)); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return stream, func() error {
		stream.Close()
		return conn.Close()
	}, nil
}

// linkBy links a cluster with the token of the given name, which it creates if necessary. It
// returns the time of the write.
func (d *demo) linkBy(ctx context.Context, remote, token string) (time.Time, error) {
	kubeconfig, err := d.shops[remote].RemoteAccess(ctx, token)
	if err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	return now, d.shops[west].Link(ctx, remote, kubeconfig)
}

// expectPods makes the current Pods of a cluster expected endpoints.
func (d *demo) expectPods(ctx context.Context, name string) error {
	addrs, err := d.shops[name].Ready(ctx, "web")
	if err != nil {
		return err
	}
	d.want[name] = addrs
	return nil
}

// expectOnly makes the current Pods of these clusters the only expected endpoints.
func (d *demo) expectOnly(ctx context.Context, clusters ...string) error {
	clear(d.want)
	for _, name := range clusters {
		if err := d.expectPods(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// kill kills a cluster's API server and waits until Isthmus detects the outage.
func (d *demo) kill(ctx context.Context, name string) (note string, err error) {
	if err := d.servers[name].Kill(); err != nil {
		return "", err
	}
	gone := time.Now()
	if err := d.awaitLink(ctx, name, "stale"); err != nil {
		return "", err
	}
	text := fmt.Sprintf("after %s Isthmus reports the cluster as stale; its endpoints stay in use",
		short(time.Since(gone)))
	return text, nil
}

// restart restarts API servers and waits until Isthmus has synced with them. It returns the time of
// the last start.
func (d *demo) restart(ctx context.Context, clusters ...string) (started time.Time, err error) {
	for _, name := range clusters {
		started = time.Now()
		if err := d.servers[name].Restart(ctx); err != nil {
			return started, err
		}
	}
	for _, name := range clusters {
		if err := d.awaitLink(ctx, name, adminapi.Ready); err != nil {
			return started, err
		}
	}
	return started, nil
}

// awaitLink waits until Isthmus shows a linked cluster in the given state.
func (d *demo) awaitLink(ctx context.Context, name string, state adminapi.ClusterState) error {
	err := harness.Poll(ctx, seenLimit, 50*time.Millisecond, func() error {
		page, err := harness.ReadClusters(ctx, d.gateway.MetricsAddr())
		if links := harness.ClustersNamed(page, name); err == nil && (len(links) == 0 || links[0].State != state) {
			err = fmt.Errorf("not %s: %+v", state, links)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cluster %s on /debug/clusters: %w", name, err)
	}
	return nil
}

type part struct {
	what string
	do   func(context.Context) error
}

func (d *demo) parts(ctx context.Context, list []part) error {
	for _, p := range list {
		start := time.Now()
		if err := p.do(ctx); err != nil {
			return d.explain(p.what, err)
		}
		d.screen.done(p.what, time.Since(start))
	}
	return nil
}

// step is one row of the table.
type step struct {
	title string
	do    deed
}

// deed makes a change and sets the expected endpoints. It returns a remark and the time of the
// change, or the zero time if the proxy should see no change.
type deed func(context.Context) (changed time.Time, note string, err error)

func (d *demo) steps(ctx context.Context, list []step) error {
	for _, s := range list {
		if err := d.step(ctx, s); err != nil {
			return d.explain(s.title, err)
		}
	}
	return nil
}

func (d *demo) step(ctx context.Context, s step) error {
	from := maps.Clone(d.want)
	d.stream.Mark()
	r := row{title: s.title, before: from.counts()}
	stop := d.drawLive(r)
	when, note, err := d.take(ctx, s, from)
	stop()
	d.fill(&r)
	r.when, r.verdict = when, "none"
	switch {
	case ctx.Err() != nil:
		r.when, r.verdict = "", "interrupted"
	case err != nil:
		r.when, r.verdict = "", "FAILED"
	}
	d.screen.finish(r)
	if err == nil && note != "" {
		d.screen.note(note)
	}
	return err
}

// take performs a step. It returns the delay until the proxy saw the change, and a remark.
func (d *demo) take(ctx context.Context, s step, from endpoints) (when, note string, err error) {
	changed, note, err := s.do(ctx)
	if err != nil {
		return "", "", err
	}
	seen, err := await(ctx, d.stream, d.want, seenLimit)
	if err != nil {
		return "", "", err
	}
	if err := hold(ctx, d.stream, d.want, calm); err != nil {
		return "", "", err
	}
	when = "no change"
	if !changed.IsZero() {
		when = short(seen.Sub(changed))
	}
	return when, note, d.stream.Flapped(from.kept(d.want)...)
}

func (d *demo) fill(r *row) {
	now := byCluster(d.stream.Snapshot().Get)
	r.now = now.counts()
	if d.tiers != nil {
		r.tiers = d.tiers(now)
	}
}

// drawLive redraws the row on each change of the stream until stop is called.
func (d *demo) drawLive(r row) (stop func()) {
	began := time.Now()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			changed := d.stream.Changed()
			d.fill(&r)
			r.when = short(time.Since(began)) + " …"
			d.screen.live(r)
			select {
			case <-changed:
			case <-tick.C:
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

func (d *demo) explain(title string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if d.stream == nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	text := "the newest messages on the stream:\n"
	recent := d.stream.Recent()
	for _, m := range recent[max(0, len(recent)-8):] {
		text += "  " + m.String() + "\n"
	}
	return fmt.Errorf("%s: %w\n\n%s\nthe log of Isthmus ends with:\n%s", title, err, text, d.gateway.Log(15))
}

func (d *demo) scale(name string, from, to int) step {
	return step{
		fmt.Sprintf("scale %s from %d to %d", name, from, to),
		func(ctx context.Context) (time.Time, string, error) {
			changed, err := d.shops[name].Scale(ctx, "web", to)
			if err != nil {
				return changed, "", err
			}
			return changed, "", d.expectPods(ctx, name)
		},
	}
}

// annotateNorth returns a deed that sets an annotation on north's link. An empty value removes the
// annotation. The expect function sets the expected endpoints.
func (d *demo) annotateNorth(name, value, note string, expect func(context.Context) error) deed {
	return func(ctx context.Context) (changed time.Time, _ string, err error) {
		if err := expect(ctx); err != nil {
			return changed, "", err
		}
		changed, err = d.shops[west].AnnotateLink(ctx, north, map[string]string{name: value})
		return changed, note, err
	}
}
