package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

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

// vms is a cluster whose Services select ExternalWorkloads.
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

// gateway starts one that is called so. It ends with the test.
func (v *vms) gateway(name string) *harness.Replica {
	v.t.Helper()
	return startGateway(v.t, harness.ReplicaConfig{Kubeconfig: v.server.Kubeconfig(), Hostname: name})
}

// service creates one that selects ExternalWorkloads by a label.
func (v *vms) service(name, label string) {
	v.t.Helper()
	s := kube.Service(vmNamespace, name)
	s.Spec.Selector = map[string]string{label: "vm"}
	must(v.t, v.client.Apply(v.t.Context(), s))
}

func vmName(i int, label string) string { return fmt.Sprintf("%s-%04d", label, i) }

// specify has an ExternalWorkload created by one of several writers; flush waits for them.
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

// create makes an ExternalWorkload that is ready.
func (v *vms) create(name, label, ip string) {
	o := kube.ExternalWorkload(vmNamespace, name, ip)
	o.SetLabels(map[string]string{label: "vm"})
	if err := v.client.Apply(v.t.Context(), o); err != nil {
		v.t.Error(err)
	}
}

// label puts another label onto an ExternalWorkload.
func (v *vms) label(name, label string) {
	v.patch(name, map[string]any{"metadata": map[string]any{"labels": map[string]any{label: "vm"}}})
}

// ready sets an ExternalWorkload's readiness.
func (v *vms) ready(name string, ready bool) {
	v.patch(name, map[string]any{"status": kube.WorkloadStatus(ready)}, "status")
}

func (v *vms) patch(name string, change map[string]any, subresource ...string) {
	v.t.Helper()
	body, err := json.Marshal(change)
	must(v.t, err)
	workloads := schema.GroupVersionResource{Group: "workload.linkerd.io", Version: "v1beta1", Resource: "externalworkloads"}
	_, err = v.client.In(workloads, vmNamespace).Patch(v.t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{}, subresource...)
	must(v.t, err)
}

func (v *vms) slices(service string) []discoveryv1.EndpointSlice {
	v.t.Helper()
	list, err := v.client.DiscoveryV1().EndpointSlices(vmNamespace).List(v.t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	must(v.t, err)
	return list.Items
}

// holds returns an error unless a Service's slices have n endpoints, each ExternalWorkload once.
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

// unready returns an error unless n endpoints of a Service's slices are not ready.
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

// leads returns an error unless a gateway is the one that writes.
func (v *vms) leads(g *harness.Replica) error {
	page, err := harness.ReadClusters(v.t.Context(), g.MetricsAddr())
	if err == nil && (page.Writer == nil || !page.Writer.Leading || !page.Writer.Synced) {
		err = fmt.Errorf("status %+v", page.Writer)
	}
	return err
}

// written are the series of requests that write EndpointSlices. The API server sorts labels by name.
var written = regexp.MustCompile(`^apiserver_request_total\{.*resource="endpointslices".*verb="(POST|PUT|PATCH|APPLY|DELETE)"`)

// writes returns how often EndpointSlices have been created, changed or deleted since the API server started.
func (v *vms) writes() int64 {
	v.t.Helper()
	text, err := v.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(v.t.Context())
	must(v.t, err)
	samples, err := harness.ParseMetrics(string(text))
	must(v.t, err)
	n, _ := harness.SumSamples(samples, written)
	return int64(n)
}

// pause returns when nothing has been written for longer than the gateway leaves a Service alone after a write.
func (v *vms) pause() {
	v.t.Helper()
	before := int64(-1)
	for now := v.writes(); now != before; now = v.writes() {
		before = now
		<-time.After(1500 * time.Millisecond)
	}
}

// wrote checks how many writes each of two gateways has counted since it started; the second may be nil.
func (v *vms) wrote(a *harness.Replica, ofA int64, b *harness.Replica, ofB int64) {
	v.t.Helper()
	for g, want := range map[*harness.Replica]int64{a: ofA, b: ofB} {
		if g == nil {
			continue
		}
		// A gateway counts a write when it has the answer, which is after the slice can be read.
		await(v.t, "writes are counted", func() error {
			if got := v.counted(g); got != want {
				return fmt.Errorf("the gateway at %s has written %d times instead of %d", g.Addr(), got, want)
			}
			return nil
		})
	}
}

// counted returns how many writes a gateway has counted.
func (v *vms) counted(g *harness.Replica) int64 {
	v.t.Helper()
	samples, err := harness.ReadMetrics(v.t.Context(), g.MetricsAddr())
	must(v.t, err)
	n, _ := harness.SumSamples(samples, regexp.MustCompile(`^isthmus_endpointslice_writes_total\{`))
	return int64(n)
}
