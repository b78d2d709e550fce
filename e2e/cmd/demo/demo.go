package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
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

// names are the clusters in the order of the table's columns.
var names = []string{west, east, north}

// demo is what is running, and what should be seen of it.
type demo struct {
	options options
	screen  *screen
	dir     string
	fail    context.CancelCauseFunc // ends the demo because something in the background broke
	began   time.Time

	servers map[string]*harness.Cluster // the clusters as processes
	shops   map[string]*shop.Cluster    // the same clusters, with the shop
	isthmus string                      // the program's path
	gateway *harness.Replica
	stream  *proxy.Stream // of the federated Service, open all along

	want     endpoints              // what the proxy should see by now
	tiers    func(endpoints) string // that the table shows; nil: it shows none
	gateways []*playedGateway       // north's
	undo     []func() error
}

// endpoints are addresses by cluster, sorted.
type endpoints map[string][]netip.AddrPort

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

// later notes what is to be done at the end; the last noted comes first.
func (d *demo) later(undo func() error) { d.undo = append(d.undo, undo) }

func (d *demo) close() error {
	var errs []error
	for _, undo := range slices.Backward(d.undo) {
		errs = append(errs, undo())
	}
	d.undo = nil
	return errors.Join(errs...)
}

// background runs a loop until the end of the demo, which a panic in it is too.
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

// play is the whole demo.
func (d *demo) play(ctx context.Context) error {
	d.screen.print("Isthmus demo: one federated Service over three Kubernetes clusters\n")
	for _, act := range []func(context.Context) error{d.setUp, d.story, d.preference, d.networks, d.exports, d.compare} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	d.screen.print("\nAll as it should be, in %.0f s.\n", time.Since(d.began).Seconds())
	if d.options.keep {
		d.lookAround(ctx)
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return cause // something has failed meanwhile
		}
	}
	return nil
}
