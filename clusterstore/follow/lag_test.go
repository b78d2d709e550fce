package follow

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ages is an observer that keeps all values.
type ages []float64

func (a *ages) Observe(v float64) { *a = append(*a, v) }

// updatedAt returns an object that was last updated at that time, and applied by another
// writer later.
func updatedAt(at time.Time) metav1.Object {
	entry := func(op metav1.ManagedFieldsOperationType, at time.Time) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Operation: op, Time: &metav1.Time{Time: at}}
	}
	return &metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		entry(metav1.ManagedFieldsOperationUpdate, at), entry(metav1.ManagedFieldsOperationUpdate, at.Add(-time.Hour)),
		entry(metav1.ManagedFieldsOperationApply, at.Add(time.Hour)), {Operation: metav1.ManagedFieldsOperationUpdate},
	}}
}

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen ages
		l := &lag{seconds: &seen}
		expect := func(what string, want ...float64) {
			t.Helper()
			if len(seen) != len(want) || len(want) == 1 && seen[0] != want[0] {
				t.Errorf("%s: observed %v, want %v", what, seen, want)
			}
			seen = nil
		}
		start := time.Now()
		l.seen(l.updated(updatedAt(start)))
		l.observe(l.updated(updatedAt(start)))
		expect("an update with no newer time than the list's")

		time.Sleep(5 * time.Second)
		l.observe(l.updated(updatedAt(start.Add(2 * time.Second))))
		expect("an update", 3)
		time.Sleep(time.Second)
		l.observe(l.updated(updatedAt(start.Add(2 * time.Second))))
		expect("another one of the same second", 4)
		time.Sleep(time.Hour)
		l.observe(l.updated(updatedAt(start.Add(2 * time.Second))))
		expect("a deletion, which leaves the time of the last update")
		l.observe(l.updated(updatedAt(start.Add(time.Second))))
		expect("an older one")
		l.observe(l.updated(&metav1.ObjectMeta{}))
		expect("an update without time")
		l.observe(l.updated(updatedAt(time.Now().Add(time.Minute))))
		expect("a clock that is ahead", 0)
		time.Sleep(2 * time.Second)
		l.seen(l.updated(updatedAt(time.Now().Add(1000 * time.Hour))))
		time.Sleep(5 * time.Second)
		l.observe(l.updated(updatedAt(time.Now().Add(-time.Second))))
		expect("an update after one with a time in the future", 1)
	})
}
