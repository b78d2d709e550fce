package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"isthmus/e2e/cluster"
	"isthmus/e2e/gateway"
)

// TestReplicasWriteInTurns runs two gateways beside one cluster. One of them writes EndpointSlices for ExternalWorkloads;
// the other goes on at once when that one ends, and after half a minute when it is killed or stands still; they never both
// write, and who has stood still does not take the Lease from the other.
func TestReplicasWriteInTurns(t *testing.T) {
	t.Parallel()
	v := newVMs(t)
	v.service("web", "app")
	v.create("vm-1", "app", "10.90.0.1")
	a := v.gateway("a")
	v.await("a's slice", time.Minute, func() error { return v.holds("web", 1) })
	b := v.gateway("b")
	v.wrote(a, 1, b, 0)

	began := time.Now()
	must(t, a.Stop())
	if holder := v.lease().HolderIdentity; holder != nil && *holder == "a" {
		t.Error("the gateway has ended and not released the Lease")
	}
	v.await("b leads", time.Minute, func() error { return v.leads(b) })
	t.Logf("after SIGTERM the other leads within %v", time.Since(began))
	a = v.gateway("a")
	v.ready("vm-1", false)
	v.await("readiness in the slice", time.Minute, func() error { return v.unready("web", 1) })
	v.wrote(a, 0, b, 1)

	began = time.Now()
	must(t, b.Signal(syscall.SIGKILL))
	must(t, b.Stop())
	v.create("vm-2", "app", "10.90.0.2")
	v.await("a leads", time.Minute, func() error { return v.leads(a) })
	if took := time.Since(began); took < 15*time.Second {
		t.Errorf("the Lease of a killed gateway was taken after %v", took)
	} else {
		t.Logf("after SIGKILL the other leads within %v", took)
	}
	v.await("a's change", time.Minute, func() error { return v.holds("web", 2) })
	v.wrote(a, 1, nil, 0)
	if n := v.writes(); n != 3 {
		t.Errorf("the API server has seen %d writes instead of 3", n)
	}

	b = v.gateway("b")
	must(t, a.Signal(syscall.SIGSTOP))
	v.await("b leads", time.Minute, func() error { return v.leads(b) })
	before := v.lease()
	must(t, a.Signal(syscall.SIGCONT))
	// All at once, as one event: what came in two could be two writes.
	v.create("vm-3", "other", "10.90.0.3")
	v.label("vm-3", "app")
	v.await("b's change", time.Minute, func() error { return v.holds("web", 3) })
	v.pause()
	v.wrote(a, 1, b, 1)
	if after := v.lease(); *after.HolderIdentity != "b" || *after.LeaseTransitions != *before.LeaseTransitions {
		t.Errorf("the Lease has gone from %+v to %+v", before, after)
	}
}

// lease is the one that the gateway that writes holds.
func (v *vms) lease() coordinationv1.LeaseSpec {
	v.t.Helper()
	l, err := v.client.CoordinationV1().Leases("linkerd").Get(v.t.Context(), "linkerd-destination-endpoint-write", metav1.GetOptions{})
	must(v.t, err)
	return l.Spec
}

// TestWritesAreFew counts the writes that 1,000 ExternalWorkloads of one Service cost.
func TestWritesAreFew(t *testing.T) {
	t.Parallel()
	v := newVMs(t)
	g := v.gateway("a")
	v.await("the gateway leads", time.Minute, func() error { return v.leads(g) })
	for i := range vmCount {
		v.specify(i, "app")
	}
	v.flush()
	// Once the gateway has written the last one's readiness it has seen all others too: they came before.
	v.service("last", "last")
	v.create("last", "last", "10.92.0.1")
	v.await("the last one's endpoint", time.Minute, func() error { return errors.Join(v.holds("last", 1), v.unready("last", 0)) })
	v.pause()
	began, before := time.Now(), v.writes()
	v.service("web", "app")
	v.await("all endpoints", time.Minute, func() error { return v.holds("web", vmCount) })
	t.Logf("%d ExternalWorkloads of a new Service: %d writes, %v", vmCount, v.writes()-before, time.Since(began))
	if n := v.writes() - before; n != vmCount/100 {
		t.Errorf("%d writes", n)
	}

	for i, ready := range []bool{false, true} {
		v.pause()
		began, before = time.Now(), v.writes()
		v.ready(vmName(77, "app"), ready)
		v.await("readiness", time.Minute, func() error { return v.unready("web", 1-i) })
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
	v.await("all endpoints", time.Minute, func() error { return v.holds("burst", vmCount) })
	v.pause()
	n := v.writes() - before
	t.Logf("%d ExternalWorkloads created within %v for a Service that is there: %d writes", vmCount, created, n)
	// At most a second is between two steps, and each leaves at most one slice that is not full.
	if most := int64(vmCount/100) + 2*int64(created/time.Second+2); n > most {
		t.Errorf("%d writes, more than %d", n, most)
	}
}

const (
	vmCount     = 1000
	vmNamespace = "vms"
)

// vms is a cluster whose Services select ExternalWorkloads.
type vms struct {
	t      *testing.T
	server *cluster.Cluster
	client *kubernetes.Clientset
	jobs   chan func()
	all    sync.WaitGroup
}

func newVMs(t *testing.T) *vms {
	servers, err := cluster.StartAll(t.Context(), cluster.Config{Name: "west", Dir: filepath.Join(t.TempDir(), "west"),
		Controllers: []string{"namespace", "serviceaccount"}})
	must(t, err)
	v := &vms{t: t, server: servers[0], client: client(t, servers[0])}
	t.Cleanup(func() {
		if err := v.server.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"linkerd", vmNamespace} {
		must(t, create(t.Context(), v.client.CoreV1().Namespaces().Create, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	return v
}

// gateway starts one that is called so. It ends with the test.
func (v *vms) gateway(name string) *gateway.Gateway {
	v.t.Helper()
	g, err := gateway.Start(v.t.Context(), gateway.Config{Kubeconfig: v.server.Kubeconfig(), Hostname: name})
	must(v.t, err)
	v.t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			v.t.Error(err)
		}
	})
	return g
}

// service creates one that selects ExternalWorkloads by a label.
func (v *vms) service(name, label string) {
	v.t.Helper()
	s := largeService(name, nil)
	s.Namespace, s.Spec.Selector = vmNamespace, map[string]string{label: "vm"}
	must(v.t, create(v.t.Context(), v.client.CoreV1().Services(vmNamespace).Create, s))
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

const workloadsPath = "/apis/workload.linkerd.io/v1beta1/namespaces/" + vmNamespace + "/externalworkloads"

// create makes an ExternalWorkload that is ready.
func (v *vms) create(name, label, ip string) {
	body := fmt.Sprintf(`{"apiVersion":"workload.linkerd.io/v1beta1","kind":"ExternalWorkload",
		"metadata":{"name":%q,"labels":{%q:"vm"}},
		"spec":{"meshTLS":{"identity":"spiffe://root/%[1]s","serverName":"%[1]s"},"ports":[{"port":8080}],"workloadIPs":[{"ip":%[3]q}]}}`, name, label, ip)
	if err := v.client.RESTClient().Post().AbsPath(workloadsPath).Body([]byte(body)).Do(v.t.Context()).Error(); err != nil {
		v.t.Error(err)
		return
	}
	v.ready(name, true)
}

// label puts another label onto an ExternalWorkload.
func (v *vms) label(name, label string) {
	body := fmt.Sprintf(`{"metadata":{"labels":{%q:"vm"}}}`, label)
	must(v.t, v.client.RESTClient().Patch("application/merge-patch+json").AbsPath(workloadsPath, name).Body([]byte(body)).Do(v.t.Context()).Error())
}

// ready sets an ExternalWorkload's readiness.
func (v *vms) ready(name string, ready bool) {
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		map[bool]string{false: "False", true: "True"}[ready])
	err := v.client.RESTClient().Patch("application/merge-patch+json").AbsPath(workloadsPath, name, "status").Body([]byte(body)).Do(v.t.Context()).Error()
	if err != nil {
		v.t.Error(err)
	}
}

func (v *vms) slices(service string) []discoveryv1.EndpointSlice {
	v.t.Helper()
	list, err := v.client.DiscoveryV1().EndpointSlices(vmNamespace).List(v.t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	must(v.t, err)
	return list.Items
}

// holds says what keeps a Service's slices from having n endpoints, each ExternalWorkload once.
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

// unready says what keeps n endpoints of a Service's slices from being not ready.
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

// leads says why a gateway is not the one that writes.
func (v *vms) leads(g *gateway.Gateway) error {
	page, err := debugClusters(v.t.Context(), g.MetricsAddr())
	if err == nil && !(page.Writer.Leading && page.Writer.Synced) {
		err = fmt.Errorf("status %+v", page.Writer)
	}
	return err
}
