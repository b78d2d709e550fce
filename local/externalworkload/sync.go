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

var errStale = errors.New("the last writes have not been read back yet")

// sync makes a Service's slices what they should be. No write begins after the end of
// work, or once the Lease is not held. A slice is updated and deleted only in the version that was read: if others
// were faster, their version is read first.
func (t *term) sync(work context.Context, name types.NamespacedName) error {
	svc, ok := t.service(name)
	if !ok { // deleted: garbage collection removes its slices
		t.tracker.DeleteService(name.Namespace, name.Name)
		t.report(name, nil)
		t.written.forget(name)
		t.stale.forget(name)
		return nil
	}
	existing := t.slicesOf(name)
	if t.tracker.StaleSlices(svc, existing) {
		return errStale
	}
	p, left := newPlan(work, svc, t.selected(svc), existing)
	if work.Err() != nil { // so the plan may be incomplete
		return work.Err()
	}
	t.report(name, left.list())
	return t.execute(work, p, name)
}

func (t *term) service(name types.NamespacedName) (*corev1.Service, bool) {
	o, ok, _ := t.services.GetIndexer().GetByKey(name.String())
	if !ok {
		return nil, false
	}
	svc, ok := o.(*corev1.Service)
	return svc, ok
}

// slicesOf lists the slices of a Service that are marked as ours, without those that
// are being deleted.
func (t *term) slicesOf(name types.NamespacedName) []*discoveryv1.EndpointSlice {
	return slices.DeleteFunc(byIndex[*discoveryv1.EndpointSlice](t.slices, byService, name.String()), func(s *discoveryv1.EndpointSlice) bool {
		terminating := s.DeletionTimestamp != nil
		if terminating { // the deletion may take long if it waits for a finalizer
			t.tracker.ExpectDeletion(s)
		}
		return terminating
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

// size returns how many Services have slices that are marked as ours, and how many
// these slices are.
func (t *term) size() (services, slices int) {
	i := t.slices.GetIndexer()
	return len(i.ListIndexFuncValues(byService)), len(i.ListKeys())
}

// operation is a kind of write, and its label in metrics.
type operation string

const (
	creates operation = "create"
	updates operation = "update"
	removes operation = "delete"
)

// execute executes a plan: first the writes that add endpoints, so that none is missing
// in between. The first error ends it, unless the API server refuses the slice itself:
// then the others are written, but nothing is deleted.
func (t *term) execute(work context.Context, p plan, name types.NamespacedName) error {
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
			err := t.lease.Write(func(ctx context.Context) error {
				t.written.now(name)
				return t.write(ctx, x.op, s)
			})
			switch {
			case err == nil:
				t.metrics.writes.WithLabelValues(string(x.op)).Inc()
			case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
				return nil // the namespace is being deleted, with all that is in it
			case apierrors.IsInvalid(err):
				refused = append(refused, fmt.Errorf("%s EndpointSlice %s: %w", x.op, s.Name, err))
			default:
				return fmt.Errorf("%s EndpointSlice %s: %w", x.op, s.Name, err)
			}
		}
	}
	return errors.Join(refused...)
}

// write writes one slice, and lets the tracker expect to read that back.
func (t *term) write(ctx context.Context, op operation, s *discoveryv1.EndpointSlice) (err error) {
	ctx, stop := context.WithTimeout(ctx, writeTimeout)
	defer stop()
	api := t.o.Client.EndpointSlices(s.Namespace)
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
