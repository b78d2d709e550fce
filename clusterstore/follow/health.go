package follow

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/internal/adminapi"
)

// Health shows whether the resources of an API can be listed and watched.
type Health struct {
	Err error // the newest failure of a needed resource, or over budget, that still lasts; nil: none
	// StaleSince is since when the first of the resources can't be read that make the Group stale: needed ones that were
	// listed before, and all that are over budget, listed before or not, except those aside. Zero: there is none.
	StaleSince time.Time
	LastEvent  time.Time       // when anything last came: a list, an event or a bookmark; zero: nothing yet
	Failed     bool            // the resources are not followed any more, for the reason Err: see Group.Fail
	Refused    []RefusedObject // a few of each resource that are refused
	Resources  []adminapi.Resource
}

// resourceState is a resource's part of the health, under Group.mu.
type resourceState struct {
	synced   bool
	err      error
	since    time.Time // of the first failure since it was healthy
	lastSeen time.Time // when err was last reported
	over     time.Time // since when err is that it is over budget; zero: it is not

	throttled time.Time // until when the server wants no request; zero if it never said

	failure adminapi.ReadFailure // of err
	first   time.Time            // since when all failures were of that kind
	lasts   bool                 // the failure has been seen again after lastingAfter
}

// lastingAfter is how long after a failure the same failure is seen again so that it lasts. API servers that start
// refuse requests for a moment, before they know all tokens and permissions.
const lastingAfter = 10 * time.Second

// classify sets what kind of failure err is.
func (s *resourceState) classify(failure adminapi.ReadFailure, now time.Time) {
	if s.failure != failure {
		s.failure, s.first = failure, now
	}
	s.lasts = now.Sub(s.first) >= lastingAfter
}

// update changes the health, and reports whether that is for HealthChanged.
func (g *Group) update(change func() (report bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if change() {
		g.version.Set(struct{}{})
	}
}

func (g *Group) setSynced() {
	g.update(func() bool { g.synced = true; return true })
}

// setFailed records that a resource could not be listed or watched.
func (g *Group) setFailed(s *resourceState, err error) {
	over, notThere, failure := isOver(err), apierrors.IsNotFound(err), classOf(err)
	err = g.options.Printable(err)
	now := time.Now()
	g.update(func() bool {
		before := *s
		if s.failure != adminapi.Absent || !notThere { // which lasts until API discovery has the resource
			s.classify(failure, now)
		}
		if s.err == nil {
			s.since = now
		}
		if !over {
			s.over = time.Time{}
		} else if s.over.IsZero() {
			s.over = now
		}
		s.err, s.lastSeen = err, now
		return before.err == nil || before.err.Error() != err.Error() || before.failure != s.failure
	})
}

// setAbsent records whether API discovery confirms that a resource that was not found does not exist.
func (g *Group) setAbsent(s *resourceState, absent bool) {
	failure := adminapi.Failing
	if absent {
		failure = adminapi.Absent
	}
	g.update(func() bool {
		before := s.failure
		s.classify(failure, time.Now())
		return s.failure != before
	})
}

// errLate is the failure of a resource that the first sync has not waited for any longer.
var errLate = errors.New("the API server has not sent the list yet")

// setLate records that the first sync ends without a resource. A failure that says more than errLate stays.
func (g *Group) setLate(s *resourceState) {
	g.update(func() bool {
		if s.synced || s.err != nil {
			return false
		}
		now := time.Now()
		s.classify(adminapi.Failing, now)
		s.err, s.since, s.lastSeen = errLate, now, now
		return true
	})
}

// setThrottled records until when the server wants no request.
func (g *Group) setThrottled(s *resourceState, until time.Time) {
	g.update(func() bool {
		s.throttled = until
		return false
	})
}

// setListed records that a resource is listed. An error of it stays until it is
// watched too: a resource that can only be listed goes out of date.
func (g *Group) setListed(s *resourceState) {
	g.event()
	g.update(func() bool {
		before := s.synced
		s.synced = true
		return !before
	})
}

// setHealthy records that a resource is listed and watched.
func (g *Group) setHealthy(s *resourceState) {
	g.event()
	g.update(func() bool {
		before := *s
		*s = resourceState{synced: true}
		return before.err != nil || !before.synced
	})
}

// Fail makes the Group stale for good, because its resources are not followed any more. The first reason counts.
func (g *Group) Fail(err error) {
	g.update(func() bool {
		if g.failed.err != nil {
			return false
		}
		g.failed.err, g.failed.at = err, time.Now()
		return true
	})
}

// event records that something has come.
func (g *Group) event() { g.lastEvent.Store(time.Now().UnixNano()) }

// Reads reports whether a resource has been listed, and why it can't be read now; nil: it can. A resource that is not
// followed has not been listed.
func (g *Group) Reads(name string) (listed bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.resources {
		if r.name == name {
			return r.state.synced, r.state.err
		}
	}
	return false, nil
}

// Health returns the present health of all resources.
func (g *Group) Health() Health {
	var all Health
	if ns := g.lastEvent.Load(); ns != 0 {
		all.LastEvent = time.Unix(0, ns)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var newest time.Time
	for _, r := range g.resources {
		s := r.state
		one := adminapi.Resource{
			Resource: r.name, Needed: r.needed, Synced: s.synced, Objects: int(r.objects.Load()),
			Trouble: r.trouble.now(),
		}
		one.Failure, one.Lasts = s.failure, s.lasts
		n, some := r.refusedObjects()
		one.Refused, all.Refused = n, append(all.Refused, some...)
		if s.err != nil {
			one.Err = s.err.Error()
		}
		if time.Now().Before(s.throttled) {
			one.ThrottledUntil = s.throttled
		}
		all.Resources = append(all.Resources, one)
		lost := s.since
		if !r.needed {
			lost = s.over
		}
		if s.err == nil || lost.IsZero() || r.aside {
			continue
		}
		if s.lastSeen.After(newest) {
			newest, all.Err = s.lastSeen, fmt.Errorf("%s: %w", r.name, s.err)
		}
		if (g.synced || !s.over.IsZero()) && (all.StaleSince.IsZero() || lost.Before(all.StaleSince)) {
			all.StaleSince = lost
		}
	}
	if g.failed.err != nil {
		all.Failed, all.Err = true, g.failed.err
		if all.StaleSince.IsZero() {
			all.StaleSince = g.failed.at
		}
	}
	return all
}
