package follow

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lag measures how old updates of one resource are when they come, by the times
// that API servers note of who wrote what (managedFields), in whole seconds. It
// belongs to the resource's reflector. nil measures nothing.
//
// Not every update notes a time: one that only marks an object as being deleted
// leaves that of the last change, which may be long ago. To remember each object's
// time would cost memory for every Pod. But a time that advances is nearly always
// the newest of all: so an update counts if no newer time has been seen before,
// or an equal one just now. A time to come, which anybody may write into an
// object, is taken for now: it must not stand for the newest of all for years.
type lag struct {
	seconds prometheus.Observer // fixed

	newest int64     // seconds since 1970
	since  time.Time // when an update first had that; zero: only lists had
}

// updated returns when somebody last updated an object, in seconds since 1970;
// zero: nobody says.
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

// listed takes note of an object that is no update: it was listed, or is new.
func (l *lag) listed(updated int64) {
	if l != nil && updated > l.newest {
		l.newest, l.since = updated, time.Time{}
	}
}

// update measures an update.
func (l *lag) update(updated int64) {
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
