package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
)

const (
	west, east, north = "west", "east", "north"

	federated = "web-federated.shop.svc.cluster.local:80"
	mirror    = "cart-east.shop.svc.cluster.local:80"
)

// names lists the clusters in the order of the table's columns.
var names = []string{west, east, north}

// demo contains all running parts of the demo and the expected state of its stream.
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

	want     endpoints              // expected endpoints of the proxy
	tiers    func(endpoints) string // returns the tiers for the table; nil if the table has no such column
	gateways []*playedGateway       // north's multicluster gateways
	undo     []func() error
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

func (d *demo) play(ctx context.Context) error {
	d.screen.print("Isthmus demo: one federated Service over three Kubernetes clusters\n")
	for _, act := range []func(context.Context) error{
		d.setUp,
		d.story,
		d.preference,
		d.networks,
		d.exports,
		d.compare,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	d.screen.print("\nEverything worked, in %.0f s.\n", time.Since(d.began).Seconds())
	if d.options.keep {
		d.lookAround(ctx)
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return cause // a failure in the background
		}
	}
	return nil
}

// lookAround keeps all processes running until ctx ends. It prints how to inspect them, and adds a
// row to the table for each change to the proxy's endpoints.
func (d *demo) lookAround(ctx context.Context) {
	bin := filepath.Dir(d.isthmus)
	d.screen.print("\nEverything keeps running until you press Ctrl-C. To look around, use another terminal:\n\n")
	ways := [][2]string{
		{"what a proxy sees, live", bin + "/isthmus get " + federated + " --addr " + d.gateway.Addr()},
		{"of a remote-discovery mirror", bin + "/isthmus get " + mirror + " --addr " + d.gateway.Addr()},
		{
			"the same by reflection",
			`grpcurl -plaintext -d '{"path":"` + federated + `"}' ` + d.gateway.Addr() +
				" io.linkerd.proxy.destination.Destination/Get",
		},
		{"the links and their states", "curl -s http://" + d.gateway.MetricsAddr() + "/debug/clusters"},
		{"the metrics", "curl -s http://" + d.gateway.MetricsAddr() + "/metrics"},
		{
			"scale east",
			"kubectl --kubeconfig " + d.servers[east].Kubeconfig() + " -n shop scale deployment web --replicas 6",
		},
		{"use the own cluster only, while it is well", "kubectl --kubeconfig " + d.servers[west].Kubeconfig() +
			" -n shop annotate service web-federated isthmus.io/prefer='local, any' isthmus.io/min-ready=50%"},
		{
			"cordon north",
			"kubectl --kubeconfig " + d.servers[west].Kubeconfig() +
				" -n linkerd annotate secret cluster-credentials-north isthmus.io/cordon=true",
		},
		{
			"unlink north",
			"kubectl --kubeconfig " + d.servers[west].Kubeconfig() +
				" -n linkerd delete secret cluster-credentials-north",
		},
		{"hang east's API server", "kill -STOP $(cat " + d.path("east/pid") + ")     (and kill -CONT)"},
		{"the log of Isthmus", "tail -f " + d.path("gateway.log")},
	}
	if d.options.networks {
		ways = append(ways, [2]string{"have north on another network again",
			"kubectl --kubeconfig " + d.servers[west].Kubeconfig() +
				" -n linkerd annotate secret cluster-credentials-north isthmus.io/network=far"})
	}
	for _, way := range ways {
		d.screen.print("  # %s\n  %s\n", way[0], way[1])
	}
	d.screen.print("\nWhat the first proxy sees from now on:\n\n")
	d.follow(ctx)
}

// follow prints a row whenever the number of endpoints changes.
func (d *demo) follow(ctx context.Context) {
	before := byCluster(d.stream.Snapshot().Get).counts()
	for {
		changed := d.stream.Changed()
		snap := d.stream.Snapshot()
		if snap.Phase != proxy.Open {
			d.screen.print("  the stream has ended: %v\n", snap.Err)
			<-ctx.Done()
			return
		}
		now := byCluster(snap.Get).counts()
		if !slices.Equal(now, before) {
			d.screen.finish(row{title: time.Now().Format(time.TimeOnly), before: before, now: now})
			before = now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
