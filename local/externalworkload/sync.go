package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/clusterstore/crd"
)

// writeTimeout bounds one write.
const writeTimeout = 10 * time.Second

var errStale = errors.New("what was written last has not been read back yet")

// sync makes a Service's slices what they should be. No write begins after the
// end of work or of what is held, and none goes on after that of lease.
func (t *term) sync(work, lease context.Context, name types.NamespacedName) error {
	svc, ok := t.service(name)
	if !ok { // garbage collection removes what it owned
		t.tracker.DeleteService(name.Namespace, name.Name)
		t.report(name, nil)
		delete(t.written, name)
		delete(t.stale, name)
		return nil
	}
	existing := t.slicesOf(name)
	if t.tracker.StaleSlices(svc, existing) {
		return errStale
	}
	p, left := newPlan(work, svc, t.selected(svc), existing)
	if work.Err() != nil { // and the plan is not whole
		return work.Err()
	}
	t.report(name, left.list())
	return t.carryOut(work, lease, p, name)
}

func (t *term) service(name types.NamespacedName) (*corev1.Service, bool) {
	o, ok, _ := t.services.GetIndexer().GetByKey(name.String())
	if !ok {
		return nil, false
	}
	svc, ok := o.(*corev1.Service)
	return svc, ok
}

// slicesOf lists the slices of a Service that are ours and there to stay.
func (t *term) slicesOf(name types.NamespacedName) []*discoveryv1.EndpointSlice {
	return slices.DeleteFunc(byIndex[*discoveryv1.EndpointSlice](t.slices, byService, name.String()), func(s *discoveryv1.EndpointSlice) bool {
		going := s.DeletionTimestamp != nil
		if going { // whoever deletes it, it may take its time
			t.tracker.ExpectDeletion(s)
		}
		return going
	})
}

// selected lists the workloads that a Service selects, by name.
func (t *term) selected(svc *corev1.Service) []*crd.ExternalWorkload {
	if !selects(svc) {
		return nil
	}
	list := slices.DeleteFunc(inNamespace[*crd.ExternalWorkload](t.workloads, svc.Namespace),
		func(w *crd.ExternalWorkload) bool { return !isSelected(svc, w) })
	slices.SortFunc(list, func(a, b *crd.ExternalWorkload) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// size is how many Services have slices of ours, and how many these are.
func (t *term) size() (services, slices int) {
	i := t.slices.GetIndexer()
	return len(i.ListIndexFuncValues(byService)), len(i.ListKeys())
}

// operation is a kind of write, as metrics call it.
type operation string

const (
	creates operation = "create"
	updates operation = "update"
	removes operation = "delete"
)

// carryOut writes what is planned: first what adds endpoints, so that none is
// missing in between. The first failure ends it, unless it is the slice's own: then
// the others are written all the same, but nothing is removed.
func (t *term) carryOut(work, lease context.Context, p plan, name types.NamespacedName) error {
	var refused []error
	for _, x := range []struct {
		op   operation
		list []*discoveryv1.EndpointSlice
	}{{creates, p.create}, {updates, p.update}, {removes, p.remove}} {
		if x.op == removes && len(refused) > 0 {
			break
		}
		for _, s := range x.list {
			if work.Err() != nil {
				return work.Err()
			}
			if !t.held() {
				return errNotRenewed
			}
			t.written[name] = time.Now()
			err := t.write(lease, x.op, s)
			switch {
			case err == nil:
				t.metrics.writes.WithLabelValues(string(x.op)).Inc()
			case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
				return nil // all that is in it goes
			case apierrors.IsInvalid(err):
				refused = append(refused, fmt.Errorf("%s EndpointSlice %s: %w", x.op, s.Name, err))
			default:
				return fmt.Errorf("%s EndpointSlice %s: %w", x.op, s.Name, err)
			}
		}
	}
	return errors.Join(refused...)
}

// write writes one slice, and notes what is to be read back.
func (t *term) write(ctx context.Context, op operation, s *discoveryv1.EndpointSlice) (err error) {
	ctx, stop := context.WithTimeout(ctx, writeTimeout)
	defer stop()
	api := t.o.Client.DiscoveryV1().EndpointSlices(s.Namespace)
	switch op {
	case removes:
		err = api.Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion}})
		if err == nil || apierrors.IsNotFound(err) {
			t.tracker.ExpectDeletion(s)
			err = nil
		}
		return err
	case creates:
		s, err = api.Create(ctx, s, metav1.CreateOptions{})
	default:
		s, err = api.Update(ctx, s, metav1.UpdateOptions{})
	}
	if err == nil {
		t.tracker.Update(s)
	}
	return err
}
