package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

const (
	vmCount     = 1000
	vmNamespace = "vms"
)

type vms struct {
	t      *testing.T
	server *harness.Cluster
	client *kube.Client
	jobs   chan func()
	all    sync.WaitGroup
}

func newVMs(t *testing.T) *vms {
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	v := &vms{t: t, server: server, client: client(t, server)}
	must(t, v.client.Apply(t.Context(), kube.Namespace(kube.LinkNamespace), kube.Namespace(vmNamespace)))
	return v
}

func (v *vms) gateway(name string) *harness.Replica {
	v.t.Helper()
	return startGateway(v.t, harness.ReplicaConfig{Kubeconfig: v.server.Kubeconfig(), Hostname: name})
}

func (v *vms) service(name, label string) {
	v.t.Helper()
	s := kube.Service(vmNamespace, name)
	s.Spec.Selector = map[string]string{label: "vm"}
	must(v.t, v.client.Apply(v.t.Context(), s))
}

func vmName(i int, label string) string { return fmt.Sprintf("%s-%04d", label, i) }

// specify queues the creation of an ExternalWorkload. The flush method waits for all queued
// creations.
func (v *vms) specify(i int, label string) {
	if v.jobs == nil {
		v.jobs = make(chan func())
		for range 4 {
			v.all.Go(func() {
				for job := range v.jobs {
					job()
				}
			})
		}
	}
	v.jobs <- func() { v.create(vmName(i, label), label, fmt.Sprintf("10.91.%d.%d", i/200, i%200+1)) }
}

func (v *vms) flush() {
	close(v.jobs)
	v.all.Wait()
	v.jobs = nil
}

func (v *vms) create(name, label, ip string) {
	o := kube.ExternalWorkload(vmNamespace, name, ip)
	o.SetLabels(map[string]string{label: "vm"})
	if err := v.client.Apply(v.t.Context(), o); err != nil {
		v.t.Error(err)
	}
}

func (v *vms) label(name, label string) {
	v.patch(name, map[string]any{"metadata": map[string]any{"labels": map[string]any{label: "vm"}}})
}

func (v *vms) ready(name string, ready bool) {
	v.patch(name, map[string]any{"status": kube.WorkloadStatus(ready)}, "status")
}

func (v *vms) patch(name string, change map[string]any, subresource ...string) {
	v.t.Helper()
	body, err := json.Marshal(change)
	must(v.t, err)
	workloads := schema.GroupVersionResource{
		Group:    "workload.linkerd.io",
		Version:  "v1beta1",
		Resource: "externalworkloads",
	}
	_, err = v.client.In(workloads, vmNamespace).
		Patch(v.t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{}, subresource...)
	must(v.t, err)
}

func (v *vms) slices(service string) []discoveryv1.EndpointSlice {
	v.t.Helper()
	list, err := v.client.DiscoveryV1().
		EndpointSlices(vmNamespace).
		List(v.t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	must(v.t, err)
	return list.Items
}

// holds returns an error unless the slices of a Service contain exactly n endpoints, each for a
// different ExternalWorkload.
func (v *vms) holds(service string, n int) error {
	var names []string
	var sizes []int
	for _, s := range v.slices(service) {
		sizes = append(sizes, len(s.Endpoints))
		for _, e := range s.Endpoints {
			names = append(names, e.TargetRef.Name)
		}
	}
	slices.Sort(names)
	if got := len(slices.Compact(slices.Clone(names))); got != n || len(names) != n {
		return fmt.Errorf("%d endpoints of %d workloads, in slices of %v", len(names), got, sizes)
	}
	return nil
}

func (v *vms) unready(service string, n int) error {
	got := 0
	for _, s := range v.slices(service) {
		for _, e := range s.Endpoints {
			if !*e.Conditions.Ready {
				got++
			}
		}
	}
	if got != n {
		return fmt.Errorf("%d endpoints are not ready", got)
	}
	return nil
}

func (v *vms) leads(g *harness.Replica) error {
	page, err := harness.ReadClusters(v.t.Context(), g.MetricsAddr())
	if err == nil && (page.Writer == nil || !page.Writer.Leading || !page.Writer.Synced) {
		err = fmt.Errorf("status %+v", page.Writer)
	}
	return err
}

// written matches the API server's series for requests that write EndpointSlices. The API server
// sorts labels by name.
var written = regexp.MustCompile(
	`^apiserver_request_total\{.*resource="endpointslices".*verb="(POST|PUT|PATCH|APPLY|DELETE)"`,
)

// writes returns the number of writes to EndpointSlices since the API server started.
func (v *vms) writes() int64 {
	v.t.Helper()
	text, err := v.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(v.t.Context())
	must(v.t, err)
	samples, err := harness.ParseMetrics(string(text))
	must(v.t, err)
	n, _ := harness.SumSamples(samples, written)
	return int64(n)
}

// pause waits until there has been no write for longer than the minimum interval between writes for
// a Service.
func (v *vms) pause() {
	v.t.Helper()
	before := int64(-1)
	for now := v.writes(); now != before; now = v.writes() {
		before = now
		<-time.After(1500 * time.Millisecond)
	}
}

// wrote checks the number of writes in the metrics of one or two replicas.
func (v *vms) wrote(a *harness.Replica, ofA int64, b *harness.Replica, ofB int64) {
	v.t.Helper()
	for g, want := range map[*harness.Replica]int64{a: ofA, b: ofB} {
		if g == nil {
			continue
		}
		// A replica counts a write after the response, when the slice can already be read.
		await(v.t, "writes are counted", func() error {
			if got := v.counted(g); got != want {
				return fmt.Errorf("the replica at %s wrote %d times, want %d", g.Addr(), got, want)
			}
			return nil
		})
	}
}

func (v *vms) counted(g *harness.Replica) int64 {
	v.t.Helper()
	samples, err := harness.ReadMetrics(v.t.Context(), g.MetricsAddr())
	must(v.t, err)
	n, _ := harness.SumSamples(samples, regexp.MustCompile(`^isthmus_endpointslice_writes_total\{`))
	return int64(n)
}

// TestReplicasWriteInTurns runs two replicas, one of which writes EndpointSlices for
// ExternalWorkloads. The other replica must take over at once when the leader stops, and after half
// a minute when the leader is killed or paused. Both must never write at the same time. A leader
// that was paused must not take the Lease back.
func TestReplicasWriteInTurns(t *testing.T) {
	t.Parallel()
	v := newVMs(t)
	v.service("web", "app")
	v.create("vm-1", "app", "10.90.0.1")
	a := v.gateway("a")
	await(t, "a's slice", func() error { return v.holds("web", 1) })
	b := v.gateway("b")
	v.wrote(a, 1, b, 0)

	began := time.Now()
	must(t, a.Stop())
	if holder := v.lease().HolderIdentity; holder != nil && *holder == "a" {
		t.Error("the replica ended without releasing the Lease")
	}
	await(t, "b leads", func() error { return v.leads(b) })
	t.Logf("after SIGTERM, the other replica leads within %v", time.Since(began))
	a = v.gateway("a")
	v.ready("vm-1", false)
	await(t, "readiness in the slice", func() error { return v.unready("web", 1) })
	v.wrote(a, 0, b, 1)

	began = time.Now()
	must(t, b.Signal(syscall.SIGKILL))
	must(t, b.Stop())
	v.create("vm-2", "app", "10.90.0.2")
	await(t, "a leads", func() error { return v.leads(a) })
	if took := time.Since(began); took < 15*time.Second {
		t.Errorf("the Lease of a killed replica was acquired after %v", took)
	} else {
		t.Logf("after SIGKILL, the other replica leads within %v", took)
	}
	await(t, "a's change", func() error { return v.holds("web", 2) })
	v.wrote(a, 1, nil, 0)
	if n := v.writes(); n != 3 {
		t.Errorf("the API server counts %d writes, want 3", n)
	}

	b = v.gateway("b")
	must(t, a.Signal(syscall.SIGSTOP))
	await(t, "b leads", func() error { return v.leads(b) })
	before := v.lease()
	must(t, a.Signal(syscall.SIGCONT))
	// The changes must arrive as a single event, because separate events could cause two writes.
	v.create("vm-3", "other", "10.90.0.3")
	v.label("vm-3", "app")
	await(t, "b's change", func() error { return v.holds("web", 3) })
	v.pause()
	v.wrote(a, 1, b, 1)
	if after := v.lease(); *after.HolderIdentity != "b" || *after.LeaseTransitions != *before.LeaseTransitions {
		t.Errorf("the Lease changed from %+v to %+v", before, after)
	}
}

func (v *vms) lease() coordinationv1.LeaseSpec {
	v.t.Helper()
	l, err := v.client.CoordinationV1().
		Leases("linkerd").
		Get(v.t.Context(), "linkerd-destination-endpoint-write", metav1.GetOptions{})
	must(v.t, err)
	return l.Spec
}

// TestWritesAreFew counts the writes for 1,000 ExternalWorkloads of one Service.
func TestWritesAreFew(t *testing.T) {
	t.Parallel()
	v := newVMs(t)
	g := v.gateway("a")
	await(t, "the replica leads", func() error { return v.leads(g) })
	for i := range vmCount {
		v.specify(i, "app")
	}
	v.flush()
	// Isthmus receives events in order. When it has written the readiness of the last
	// ExternalWorkload, it has therefore received all others.
	v.service("last", "last")
	v.create("last", "last", "10.92.0.1")
	await(t, "the last endpoint", func() error { return errors.Join(v.holds("last", 1), v.unready("last", 0)) })
	v.pause()
	began, before := time.Now(), v.writes()
	v.service("web", "app")
	await(t, "all endpoints", func() error { return v.holds("web", vmCount) })
	t.Logf("%d ExternalWorkloads of a new Service: %d writes, %v", vmCount, v.writes()-before, time.Since(began))
	if n := v.writes() - before; n != vmCount/100 {
		t.Errorf("%d writes", n)
	}

	for i, ready := range []bool{false, true} {
		v.pause()
		began, before = time.Now(), v.writes()
		v.ready(vmName(77, "app"), ready)
		await(t, "readiness", func() error { return v.unready("web", 1-i) })
		took := time.Since(began)
		v.pause()
		t.Logf("one change of readiness: %d writes, in the slice after %v", v.writes()-before, took)
		if n := v.writes() - before; n != 1 {
			t.Errorf("%d writes", n)
		}
	}

	v.service("burst", "burst")
	began, before = time.Now(), v.writes()
	for i := range vmCount {
		v.specify(i, "burst")
	}
	v.flush()
	created := time.Since(began)
	await(t, "all endpoints", func() error { return v.holds("burst", vmCount) })
	v.pause()
	n := v.writes() - before
	t.Logf("%d ExternalWorkloads created within %v for an existing Service: %d writes", vmCount, created, n)
	// There is at most one step per second, and each step leaves at most one slice that is not
	// full.
	if most := int64(vmCount/100) + 2*int64(created/time.Second+2); n > most {
		t.Errorf("%d writes, want at most %d", n, most)
	}
}
