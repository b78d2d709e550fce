package faults

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/e2e/bench/proc"
	"isthmus/e2e/gateway"
	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
	"isthmus/internal/apisim"
)

const (
	// endlessMemory is the memory limit for Go that a gateway has in an HA install of Linkerd: 90 % of 250 MiB. It lets garbage
	// grow up to that. endlessPeak is what the process may take: also the program itself, of which the kernel can drop
	// pages, and what the collector is late with on a busy machine.
	endlessMemory, endlessPeak = "225MiB", 320 << 20
	// endlessRecovery is how long a cluster that was over budget may take to be followed again: 30 s are promised.
	endlessRecovery = 90 * time.Second
)

// endlessCluster is a cluster that answers without end while it is bad.
type endlessCluster struct {
	*apisim.Server
	name   string
	number byte
	how    apisim.Endless
}

// TestEndlessAnswers: clusters that answer without end, each in another way and all at the same time, with one more that
// does so from the beginning. Each keeps what it had, and shows what is wrong: it is over budget by what it offers, or its
// resources have why what it sends is not read; the gateway takes no more memory than its container
// has; other clusters do not notice; and clusters that are well again are followed.
func TestEndlessAnswers(t *testing.T) {
	inTurn(t)
	authority, err := apisim.NewAuthority()
	must(t, err)
	start := func(name string, number byte, how apisim.Endless) *endlessCluster {
		s, err := apisim.Start(name, authority)
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		s.Admit("good")
		return &endlessCluster{s, name, number, how}
	}
	west, well := start("west", 1, ""), start(calm, 2, "")
	bad := []*endlessCluster{
		start("event", 3, apisim.EndlessEvent),
		start("pages", 5, apisim.EndlessPages), start("lists", 6, apisim.EndlessLists),
		start("elements", 8, apisim.EndlessElements), start("object", 9, apisim.EndlessObject),
		start("repeats", 10, apisim.EndlessRepeats), start("blanks", 11, apisim.EndlessBlanks),
	}
	late := start("late", 7, apisim.EndlessLists)
	members, mirrored := []string{}, append([]*endlessCluster{well}, bad...)
	for _, c := range mirrored {
		must(t, c.Put(object.Service("shop", "web")))
		must(t, c.offer(1))
		must(t, c.link(west))
		members = append(members, "web@"+c.name)
	}
	must(t, west.Put(object.Federated("shop", "all", "", members...)))

	w := startBeside(t, west)
	for _, c := range mirrored {
		w.awaitState(t, c.name, "ready", recovery)
	}
	w.watch(t)
	stream := w.subscribe(t, proxy.Get, "all", "shop")
	arrived := func(addrs ...netip.AddrPort) {
		t.Helper()
		await(t, endlessRecovery, func() error {
			for _, a := range addrs {
				if now := stream.Snapshot(); !now.Get.Has(a) {
					return fmt.Errorf("the proxy has no %v but %v (%v)", a, now.Get.Addrs(), now.Err)
				}
			}
			return nil
		})
	}
	var first []netip.AddrPort
	for _, c := range mirrored {
		first = append(first, c.addr(1))
	}
	arrived(first...)
	stream.Mark()

	must(t, late.bad())
	must(t, late.link(west))
	for _, c := range bad {
		must(t, c.bad())
	}
	var shown sync.WaitGroup // all at the same time: one whose pages come to an end is soon well again
	for _, c := range bad {
		shown.Go(func() {
			if err := within(t.Context(), endlessRecovery, func() error { return w.showsEndless(t.Context(), c) }); err != nil {
				t.Error(err)
			}
		})
	}
	shown.Wait()
	w.awaitState(t, late.name, "unreachable", notice)
	for turn := byte(2); turn < either[byte](4, 40); turn++ { // while they try again and again
		must(t, well.offer(turn))
		arrived(append(first, well.addr(turn))...)
		for _, c := range append(bad, late) {
			await(t, endlessRecovery, func() error { return w.showsEndless(t.Context(), c) })
		}
		select {
		case <-time.After(either(time.Second, 5*time.Second)):
		case <-t.Context().Done():
		}
	}

	var healing sync.WaitGroup
	for _, c := range append(bad, late) {
		c.Misbehave(apisim.Faults{})
		c.CutWatches()
		must(t, c.offer(9))
		healing.Go(func() { w.awaitState(t, c.name, "ready", endlessRecovery) })
	}
	healing.Wait()
	for _, c := range bad {
		arrived(c.addr(9))
	}
	if err := stream.Flapped(first[0]); err != nil {
		t.Error(err)
	}
}

// startBeside starts a gateway beside a cluster, with the memory that it has in an HA install of Linkerd.
func startBeside(t *testing.T, here *endlessCluster) *world {
	t.Helper()
	kubeconfig, err := here.Kubeconfig(here.Addr(), "good")
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, kubeconfig, 0o600))
	g, err := gateway.Start(t.Context(), gateway.Config{Kubeconfig: path, Env: []string{"GOMEMLIMIT=" + endlessMemory}})
	must(t, err)
	t.Cleanup(func() {
		peak, err := proc.Peak(g.Pid())
		if err != nil || peak > endlessPeak {
			t.Errorf("the gateway took %d MiB (%v)", peak>>20, err)
		}
		t.Logf("the gateway took %d MiB at most", peak>>20)
		must(t, g.Stop())
	})
	return &world{gateway: g}
}

// link links the cluster at another, which the gateway is local to.
func (c *endlessCluster) link(at *endlessCluster) error {
	kubeconfig, err := c.Kubeconfig(c.Addr(), "good")
	if err != nil {
		return err
	}
	return at.Put(object.Link(c.name, kubeconfig))
}

// bad lets the cluster answer without end from now on, watches under way included.
func (c *endlessCluster) bad() error {
	c.Misbehave(apisim.Faults{Endless: c.how})
	if err := c.Put(object.Service("shop", "later")); err != nil {
		return err
	}
	c.Compact() // or watches would just go on, as those do that have had a bookmark of the newest version
	c.CutWatches()
	return nil
}

// offer sets the addresses of the cluster's Service to the first and that of a number.
func (c *endlessCluster) offer(numbers ...byte) error {
	var endpoints []discoveryv1.Endpoint
	for _, n := range append([]byte{1}, numbers...) {
		endpoints = append(endpoints, object.Endpoint(c.addr(n).Addr().String()))
	}
	return c.Put(object.Slice("shop", "web", "0", endpoints...))
}

func (c *endlessCluster) addr(number byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 200, c.number, number}), object.Port)
}

// showsEndless returns an error unless it is to be seen that a cluster answers without end.
func (w *world) showsEndless(ctx context.Context, of *endlessCluster) error {
	switch of.how {
	case apisim.EndlessPages, apisim.EndlessLists:
		if w.overBudget(ctx, of.name) == nil {
			return nil // on a busy machine what it sends may be given up for the time it takes, before it is too much
		}
	}
	c, err := w.cluster(ctx, of.name)
	if err != nil {
		return err
	}
	if of.how == apisim.EndlessObject && len(c.ObjectWarnings) > 0 {
		return nil // on a busy machine the watches that it ends last too long to be a trouble
	}
	for _, r := range c.Resources {
		if r.Err+r.Trouble != "" {
			return nil
		}
	}
	return fmt.Errorf("cluster %s is %+v: nothing is wrong", of.name, c)
}

// overBudget returns an error unless the gateway shows that a cluster is over budget, and charges it no more than that.
func (w *world) overBudget(ctx context.Context, name string) error {
	c, err := w.cluster(ctx, name)
	if err == nil && !strings.Contains(c.Reason, "over budget: ") {
		err = fmt.Errorf("cluster %s is %+v, not over budget", name, c)
	}
	used, err2 := w.metric(ctx, `isthmus_cluster_memory_bytes\{cluster="`+name+`"\}`)
	limit, err3 := w.metric(ctx, `isthmus_cluster_memory_limit_bytes\{cluster="`+name+`"\}`)
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	if limit == 0 || used > 2*limit { // what is kept, and a list beside it
		return fmt.Errorf("cluster %s is charged %v bytes of %v", name, used, limit)
	}
	return nil
}
