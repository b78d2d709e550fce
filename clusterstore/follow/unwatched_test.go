package follow

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUnwatched: a resource that may be listed and not watched is listed every 30 s in the end,
// with what has changed. The missing permission is named. Once it is granted, the resource is
// watched.
func TestUnwatched(t *testing.T) {
	var lists []time.Time
	var granted atomic.Bool
	s := &scripted{version: "1", items: []item{labelled("a", "x")}}
	s.onList = func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
		lists = append(lists, time.Now())
		return s.all()
	}
	s.onWatch = func(metav1.ListOptions) error {
		if granted.Load() {
			return nil
		}
		return apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no rights"))
	}
	s.run(t, Options{}, func(t *testing.T, g *Group, known texts) {
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var pauses []time.Duration
		for i := range lists[1:] {
			pauses = append(pauses, lists[i+1].Sub(lists[i]))
		}
		if pauses[1] > 4*time.Second || slices.Min(pauses[6:]) < maxUnwatchedPause ||
			slices.Max(pauses) > maxUnwatchedPause+4*time.Second {
			t.Errorf("pauses: %v", pauses)
		}
		err := g.Health().Err
		if err == nil || !strings.Contains(err.Error(), "grant the verb watch of secrets") {
			t.Errorf("health: %v", err)
		}
		s.become("2", labelled("b", "x"))
		time.Sleep(maxUnwatchedPause + 4*time.Second)
		if !known.has("b") || known.has("a") {
			t.Errorf("the changed list is not known: %v", known)
		}
		granted.Store(true)
		time.Sleep(maxUnwatchedPause + 4*time.Second)
		synctest.Wait()
		if h := g.Health(); h.Err != nil {
			t.Errorf("after the permission was granted: %v", h.Err)
		}
	})
}
