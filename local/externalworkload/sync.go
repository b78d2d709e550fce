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
	"k8s.io/apimachinery/pkg/labels"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// requestTimeout bounds one request about slices.
const requestTimeout = 10 * time.Second

// sync makes a Service's slices what they should be, and returns whether it has written any. No write begins after
// the end of work, or once the Lease is not held. Slices are read anew first, and updated and deleted only
// in the version that was read. A Service that selects no workloads and has no slices takes no request.
func (t *leadership) sync(work context.Context, name federation.ServiceID) (wrote bool, err error) {
	svc := t.cluster.Selecting(name)
	if svc == nil { // deleted: garbage collection removes its slices
		t.problems.Set(name, nil)
		t.mu.Lock()
		delete(t.written, name)
		t.mu.Unlock()
		return false, nil
	}
	selected := t.selected(svc)
	if len(selected) == 0 && !t.mayHaveSlices(name) {
		t.problems.Set(name, nil)
		return false, nil
	}
	existing, err := t.slicesOf(work, name)
	if err != nil {
		return false, err
	}
	p, left := newPlan(work, svc, selected, existing)
	if work.Err() != nil { // so the plan may be incomplete
		return false, work.Err()
	}
	t.problems.Set(name, left.list())
	return len(p.create)+len(p.update)+len(p.move)+len(p.remove) > 0, t.execute(work, p, name)
}

// slicesOf reads the slices of a Service that are marked as ours, without those that are being
// deleted, which may take long if they wait for a finalizer. The list is never an old one: it is
// asked for without a resourceVersion. It has no limit either, with which some API servers
// could not answer from their cache.
func (t *leadership) slicesOf(
	work context.Context, svc federation.ServiceID,
) (list []*discoveryv1.EndpointSlice, err error) {
	ctx, stop := context.WithTimeout(work, requestTimeout)
	defer stop()
	of := labels.Set{discoveryv1.LabelServiceName: svc.Name, discoveryv1.LabelManagedBy: Mark}
	all, err := t.o.Client.EndpointSlices(svc.Namespace).List(ctx, metav1.ListOptions{LabelSelector: of.String()})
	if err != nil {
		return nil, fmt.Errorf("list the Service's EndpointSlices: %w", err)
	}
	for i := range all.Items {
		if s := &all.Items[i]; s.DeletionTimestamp == nil {
			list = append(list, s)
		}
	}
	return list, nil
}

// selected lists the workloads that a Service selects, by name.
func (t *leadership) selected(svc *corev1.Service) []*decode.ExternalWorkload {
	if !selects(svc) {
		return nil
	}
	list := slices.DeleteFunc(t.cluster.Workloads(svc.Namespace), func(w *decode.ExternalWorkload) bool {
		return !isSelected(svc, w.Labels)
	})
	slices.SortFunc(list, func(a, b *decode.ExternalWorkload) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// operation is a kind of write, and its label in metrics.
type operation string

const (
	creates operation = "create"
	updates operation = "update"
	removes operation = "delete"
)

// execute executes a plan. The first error ends it, unless the API server refuses the slice itself: then
// the others are written, but none is deleted, and none loses endpoints that others were to have first.
func (t *leadership) execute(work context.Context, p plan, name federation.ServiceID) error {
	var refused []error
	versions := make(map[string]string) // by name, of slices that have been written: some are written twice
	for _, x := range []struct {
		op    operation
		list  []*discoveryv1.EndpointSlice
		takes bool // endpoints away
	}{{creates, p.create, false}, {updates, p.update, false}, {updates, p.move, true}, {removes, p.remove, true}} {
		for _, s := range x.list {
			if work.Err() != nil {
				return work.Err()
			}
			if x.takes && len(refused) > 0 {
				if s = p.instead[s]; s == nil {
					continue
				}
			}
			if version, ok := versions[s.Name]; ok {
				s.ResourceVersion = version
			}
			now := s
			err := t.lease.Write(func(ctx context.Context) (err error) {
				t.mu.Lock()
				t.written[name] = true
				t.mu.Unlock()
				now, err = t.write(ctx, x.op, s)
				return err
			})
			switch {
			case err == nil:
				versions[now.Name] = now.ResourceVersion
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

// write writes one slice, and returns it as the API server has it now, or had it until it was deleted.
func (t *leadership) write(
	ctx context.Context, op operation, s *discoveryv1.EndpointSlice,
) (*discoveryv1.EndpointSlice, error) {
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	api := t.o.Client.EndpointSlices(s.Namespace)
	switch op {
	case removes:
		err := api.Delete(ctx, s.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion},
		})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return s, err
	case creates:
		return api.Create(ctx, s, metav1.CreateOptions{})
	default:
		return api.Update(ctx, s, metav1.UpdateOptions{})
	}
}
