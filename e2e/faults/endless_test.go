package faults

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/internal/apisim"
)

const (
	// endlessMemory is the memory limit for Go: 90 % of the container's memory. The garbage
	// collector lets garbage grow up to this limit.
	endlessMemory = "450MiB"
	// endlessPeak is the maximum memory of the process. It includes the program, whose pages the
	// kernel can drop, and garbage from a late collection on a busy machine.
	endlessPeak = 512 << 20
	// endlessCap is the value of --cluster-memory for nine hostile clusters according to
	// docs/operations.md, Sizing: twice the sum of all caps is less than half of endlessMemory.
	endlessCap = "12Mi"
	// endlessRecovery limits the time until Isthmus resumes watching a cluster that was over
	// budget. The documented limit is 30 s.
	endlessRecovery = 90 * time.Second
)

// endlessCluster is a simulated cluster that can send endless responses.
type endlessCluster struct {
	*apisim.Server
	name   string
	number byte
	how    apisim.Endless
}

// TestEndlessAnswers links clusters that send endless responses at the same time, each of a
// different kind, and one that does so from the start. Isthmus must keep the earlier cache of each
// cluster and show the problem. The replica must stay within its container's memory, other clusters
// must not be affected, and Isthmus must watch the clusters again when they are healthy.
func TestEndlessAnswers(t *testing.T) {
	inTurn(t)
	authority, err := apisim.NewAuthority()
	must(t, err)
	start := func(name string, number byte, how apisim.Endless) *endlessCluster {
		return startEndless(t, authority, name, number, how)
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
		must(t, c.Put(kube.Service("shop", "web")))
		must(t, c.offer(1))
		must(t, c.link(west))
		members = append(members, "web@"+c.name)
	}
	must(t, west.Put(kube.Federated("shop", "all", "", members...)))

	w := startBeside(t, west, "-cluster-memory="+endlessCap)
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
					return fmt.Errorf("the proxy has %[2]v, want %[1]v (%[3]v)", a, now.Get.Addrs(), now.Err)
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
	var shown sync.WaitGroup // checked at the same time, because a cluster with endless pages soon recovers
	for _, c := range bad {
		shown.Go(func() {
			if err := within(
				t.Context(),
				endlessRecovery,
				func() error { return w.showsEndless(t.Context(), c) },
			); err != nil {
				t.Error(err)
			}
		})
	}
	shown.Wait()
	w.awaitState(t, late.name, "unreachable", notice)
	for turn := byte(2); turn < either[byte](4, 40); turn++ { // while Isthmus keeps retrying
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

// TestFullBesideLarge links a cluster with endless lists and a cluster that needs 73 MiB, with the
// default memory caps. The first cluster fills its cap and is over budget. The second cluster is
// cached completely.
func TestFullBesideLarge(t *testing.T) {
	const pods, label, needs = 7300, 10 << 10, 73 << 20
	inTurn(t)
	authority, err := apisim.NewAuthority()
	must(t, err)
	west := startEndless(t, authority, "west", 1, "")
	large := startEndless(t, authority, calm, 2, "")
	full := startEndless(t, authority, "full", 3, apisim.EndlessPages)
	for i := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop",
			Name:      fmt.Sprint("large-", i),
			Labels:    map[string]string{"x": strings.Repeat("x", label)},
		}}
		must(t, large.Put(pod))
	}
	for _, c := range []*endlessCluster{large, full} {
		must(t, c.Put(kube.Service("shop", "web")))
		must(t, c.offer(1))
		must(t, c.link(west))
	}
	must(t, west.Put(kube.Federated("shop", "all", "", "web@"+large.name, "web@"+full.name)))

	w := startBeside(t, west)
	limit, err := w.metric(t.Context(), "go_gc_gomemlimit_bytes")
	if err != nil || limit != 450<<20 {
		t.Errorf("the memory limit for Go is %v (%v): the alert IsthmusLinkedClustersMemory needs it", limit, err)
	}
	w.awaitState(t, large.name, "ready", endlessRecovery)
	w.awaitState(t, full.name, "ready", endlessRecovery)
	w.watch(t)
	stream := w.subscribe(t, proxy.Get, "all", "shop")
	must(t, full.bad())
	for turn := byte(2); turn < either[byte](5, 40); turn++ {
		await(t, endlessRecovery, func() error { return w.overBudget(t.Context(), full.name) })
		must(t, large.offer(turn))
		for _, a := range []netip.AddrPort{full.addr(1), large.addr(1), large.addr(turn)} {
			await(t, endlessRecovery, func() error {
				if now := stream.Snapshot(); !now.Get.Has(a) {
					return fmt.Errorf("the proxy has %[2]v, want %[1]v (%[3]v)", a, now.Get.Addrs(), now.Err)
				}
				return nil
			})
		}
	}
	c, err := w.cluster(t.Context(), large.name)
	must(t, err)
	listed := 0
	for _, r := range c.Resources {
		if r.Resource == "pods" {
			listed = r.Objects
		}
	}
	if c.Memory.Used < needs || c.Memory.Used > c.Memory.Limit || listed != pods {
		t.Errorf("cluster %s has %d Pods, and uses %+v", large.name, listed, c.Memory)
	}
	t.Logf("%s uses %d MiB of %d MiB", large.name, c.Memory.Used>>20, c.Memory.Limit>>20)
}

func startEndless(
	t *testing.T, authority *apisim.Authority, name string, number byte, how apisim.Endless,
) *endlessCluster {
	t.Helper()
	s, err := apisim.Start(name, authority)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	s.Admit("good")
	return &endlessCluster{s, name, number, how}
}

// startBeside starts a replica in a cluster, with the given flags and endlessMemory.
func startBeside(t *testing.T, here *endlessCluster, flags ...string) *world {
	t.Helper()
	kubeconfig, err := here.Kubeconfig(here.Addr(), "good")
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, kubeconfig, 0o600))
	g, err := harness.StartReplica(t.Context(), harness.ReplicaConfig{
		Kubeconfig: path, Args: flags, Env: []string{"GOMEMLIMIT=" + endlessMemory},
	})
	must(t, err)
	t.Cleanup(func() {
		peak, err := harness.PeakMemory(g.Pid())
		if err != nil || peak > endlessPeak {
			t.Errorf("the replica used %d MiB (%v)", peak>>20, err)
		}
		t.Logf("the replica used at most %d MiB", peak>>20)
		must(t, g.Stop())
	})
	return &world{gateway: g}
}

// link writes a link to c into the replica's local cluster.
func (c *endlessCluster) link(at *endlessCluster) error {
	kubeconfig, err := c.Kubeconfig(c.Addr(), "good")
	if err != nil {
		return err
	}
	return at.Put(kube.Link(c.name, kubeconfig))
}

// bad makes the cluster send endless responses from now on, including on open watches.
func (c *endlessCluster) bad() error {
	c.Misbehave(apisim.Faults{Endless: c.how})
	if err := c.Put(kube.Service("shop", "later")); err != nil {
		return err
	}
	c.Compact() // otherwise watches with a recent bookmark would simply resume
	c.CutWatches()
	return nil
}

// offer sets the addresses of the cluster's Service to the first one and the given ones.
func (c *endlessCluster) offer(numbers ...byte) error {
	var endpoints []discoveryv1.Endpoint
	for _, n := range append([]byte{1}, numbers...) {
		endpoints = append(endpoints, kube.Endpoint(c.addr(n).Addr().String()))
	}
	return c.Put(kube.Slice("shop", "web", "0", endpoints...))
}

func (c *endlessCluster) addr(number byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 200, c.number, number}), kube.Port)
}
