package follow

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lag measures how old updates of one resource are when they come, by the times in
// their managedFields, which API servers write in whole seconds. It belongs to the
// goroutine of the resource's run. nil measures nothing.
//
// Not every update has a new time: one that only marks an object as being deleted
// leaves that of the last change, which may be long ago. To remember each object's
// time would cost memory for every Pod. But a time that advances is nearly always
// the newest of all: so an update counts if no newer time has been seen before,
// or an equal one within a second. A time in the future, which anybody may write into
// an object, counts as now, or no update would count until then.
type lag struct {
	seconds prometheus.Observer // fixed

	newest int64     // seconds since 1970
	since  time.Time // when an update with that time first came; zero: it came in a list
}

// updated returns when an object was last updated, in seconds since 1970; zero: it
// has no such time.
func (l *lag) updated(o metav1.Object) (newest int64) {
	if l == nil {
		return 0
	}
	for _, f := range o.GetManagedFields() {
		if f.Operation == metav1.ManagedFieldsOperationUpdate && f.Time != nil {
			newest = max(newest, f.Time.Unix())
		}
	}
	return min(newest, time.Now().Unix())
}

// seen remembers the time of an object that is not an update: it was listed, or is
// new.
func (l *lag) seen(updated int64) {
	if l != nil && updated > l.newest {
		l.newest, l.since = updated, time.Time{}
	}
}

// observe measures an update.
func (l *lag) observe(updated int64) {
	if l == nil || updated < l.newest || updated == 0 {
		return
	}
	now := time.Now()
	if updated > l.newest {
		l.newest, l.since = updated, now
	} else if now.Sub(l.since) > time.Second {
		return
	}
	l.seconds.Observe(max(0, now.Sub(time.Unix(updated, 0)).Seconds()))
}
