package e2e

import (
	"errors"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReplicasWriteInTurns runs two gateways beside one cluster. One of them writes EndpointSlices for ExternalWorkloads;
// the other goes on at once when that one ends, and after half a minute when it is killed or stands still; they never both
// write, and one that has stood still does not take the Lease from the other.
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
		t.Error("the gateway has ended and not released the Lease")
	}
	await(t, "b leads", func() error { return v.leads(b) })
	t.Logf("after SIGTERM the other leads within %v", time.Since(began))
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
		t.Errorf("the Lease of a killed gateway was taken after %v", took)
	} else {
		t.Logf("after SIGKILL the other leads within %v", took)
	}
	await(t, "a's change", func() error { return v.holds("web", 2) })
	v.wrote(a, 1, nil, 0)
	if n := v.writes(); n != 3 {
		t.Errorf("the API server has seen %d writes instead of 3", n)
	}

	b = v.gateway("b")
	must(t, a.Signal(syscall.SIGSTOP))
	await(t, "b leads", func() error { return v.leads(b) })
	before := v.lease()
	must(t, a.Signal(syscall.SIGCONT))
	// All at once, as one event: what came in two could be two writes.
	v.create("vm-3", "other", "10.90.0.3")
	v.label("vm-3", "app")
	await(t, "b's change", func() error { return v.holds("web", 3) })
	v.pause()
	v.wrote(a, 1, b, 1)
	if after := v.lease(); *after.HolderIdentity != "b" || *after.LeaseTransitions != *before.LeaseTransitions {
		t.Errorf("the Lease has gone from %+v to %+v", before, after)
	}
}

// lease returns the Lease of the gateway that writes.
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
	await(t, "the gateway leads", func() error { return v.leads(g) })
	for i := range vmCount {
		v.specify(i, "app")
	}
	v.flush()
	// Once the gateway has written the last one's readiness it has seen all others too: they came before.
	v.service("last", "last")
	v.create("last", "last", "10.92.0.1")
	await(t, "the last one's endpoint", func() error { return errors.Join(v.holds("last", 1), v.unready("last", 0)) })
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
	t.Logf("%d ExternalWorkloads created within %v for a Service that is there: %d writes", vmCount, created, n)
	// At most a second is between two steps, and each leaves at most one slice that is not full.
	if most := int64(vmCount/100) + 2*int64(created/time.Second+2); n > most {
		t.Errorf("%d writes, more than %d", n, most)
	}
}
