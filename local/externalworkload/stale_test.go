package externalworkload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// TestStaleCache: until the writes have been read back, nothing is planned; slices that
// have moved or are being deleted do not count as missing.
func TestStaleCache(t *testing.T) {
	term, svc, ctx := newTestTerm(t), aService("web", "http=80/8080"), t.Context()
	term.add(svc)
	web := types.NamespacedName{Namespace: "ns", Name: "web"}
	s := newSlice(svc, discoveryv1.AddressTypeIPv4, nil, nil)
	s.Name, s.UID, s.Generation = "s", "uid", 2
	term.tracker.Update(s)
	if err := term.sync(ctx, web); !errors.Is(err, errStale) {
		t.Errorf("created, but not seen: %v", err)
	}
	older := s.DeepCopy()
	older.Generation = 1
	if err := term.slices.GetIndexer().Add(older); err != nil {
		t.Fatal(err)
	}
	if err := term.sync(ctx, web); !errors.Is(err, errStale) {
		t.Errorf("an older state: %v", err)
	}
	moved := s.DeepCopy()
	moved.Labels[discoveryv1.LabelServiceName] = "other"
	term.sliceChanged(s, moved)
	if err := term.slices.GetIndexer().Update(moved); err != nil {
		t.Fatal(err)
	}
	if err := term.sync(ctx, web); err != nil {
		t.Errorf("moved: %v", err)
	}
}

// TestReplaced: a slice that was created again under its name is another slice.
func TestReplaced(t *testing.T) {
	term, svc, ctx := newTestTerm(t), aService("web", "http=80/8080"), t.Context()
	term.add(svc)
	s := newSlice(svc, discoveryv1.AddressTypeIPv4, nil, nil)
	s.Name, s.UID, s.Generation = "s", "uid", 1
	term.tracker.Update(s)
	anew := s.DeepCopy()
	anew.UID = "another"
	if err := term.slices.GetIndexer().Add(anew); err != nil {
		t.Fatal(err)
	}
	term.sliceChanged(s, anew)
	if err := term.sync(ctx, nameOf(svc)); err != nil {
		t.Error(err)
	}
}

// TestNeverReadBack: a write that is never read back is given up after a while.
func TestNeverReadBack(t *testing.T) {
	inCluster(t, func(c *cluster) {
		r := c.running()
		s := c.ours()
		s.Name, s.UID = "lost", "lost"
		r.term.tracker.Update(s) // as if it had been written
		c.put(unready(aWorkload("vm-1", "10.0.0.1", "8080")))
		c.pass(time.Second)
		r.term.tracker.HandleDeletion(s) // which is a reason to wait no longer
		c.pass(2 * maxStale)
		if got := c.written(); got != "a update" {
			t.Errorf("writes %q", got)
		}
		r.term.tracker.Update(s)
		c.put(aWorkload("vm-1", "10.0.0.1", "8080"))
		c.pass(maxStale - time.Second)
		if got := c.written(); got != "" {
			t.Errorf("writes %q on what is not up to date", got)
		}
		c.pass(3 * time.Second)
		if got, st := c.written(), r.Status(); got != "a update" || st.Error != "" {
			t.Errorf("writes %q, status %+v", got, st)
		}
	})
}

// TestReadTooLate: a request that ends after its term does not affect the next one.
func TestReadTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTestTerm(t)
		ctx, stop := context.WithCancel(t.Context())
		i := newInformer(term.term, nil, deaf{}, resource{name: "x", example: &discoveryv1.EndpointSlice{}, strip: stripSlice, handler: term.onSlice()})
		go i.RunWithContext(ctx)
		synctest.Wait()
		stop()
		synctest.Wait()
		if s := term.Status(); len(s.Unread) != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// deaf answers once its context has ended.
type deaf struct{}

func (deaf) List(ctx context.Context, _ metav1.ListOptions) (*discoveryv1.EndpointSliceList, error) {
	<-ctx.Done()
	return nil, errAway
}

func (deaf) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	<-ctx.Done()
	return nil, errAway
}

// TestDeletesWhatItSaw: a slice that has changed since it was read is not deleted.
func TestDeletesWhatItSaw(t *testing.T) {
	term, svc := newTestTerm(t), external(aService("web", "http=80/8080"))
	term.add(svc)
	s := newSlice(svc, discoveryv1.AddressTypeIPv4, nil, nil)
	s.Name, s.UID, s.ResourceVersion = "s", "uid", "7"
	if err := term.slices.GetIndexer().Add(s); err != nil {
		t.Fatal(err)
	}
	if err := term.sync(t.Context(), nameOf(svc)); err != nil {
		t.Error(err)
	}
	for _, a := range term.api.Actions() {
		if d, ok := a.(clienttesting.DeleteActionImpl); ok {
			if p := d.DeleteOptions.Preconditions; p == nil || *p.UID != "uid" || *p.ResourceVersion != "7" {
				t.Errorf("preconditions %+v", p)
			}
			return
		}
	}
	t.Error("nothing is deleted")
}
