package follow

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/internal/sleep"
)

const (
	// optionalPause is how long an optional resource that is forbidden or absent
	// is left alone. With the backoff on top it stays below 30 s.
	optionalPause = 25 * time.Second
	// discoveryPause is how often API discovery is asked meanwhile whether an absent
	// resource is there.
	discoveryPause = 5 * time.Second
)

// rest is why a resource is left alone for a while, besides the backoff.
type rest uint8

const (
	noRest    rest = iota
	forbidden      // an optional resource, which may also not be listed by anybody
	notFound       // an optional resource
	overBudget
)

func restAfter(err error, needed bool) rest {
	switch {
	case isOver(err):
		return overBudget
	case needed:
	case apierrors.IsNotFound(err):
		return notFound
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
		return forbidden
	}
	return noRest
}

// pause leaves a resource alone that is over budget, or an optional one that was denied. If
// it was not found, and API discovery confirms that, there are no objects; and it is
// requested again as soon as discovery has it. Whatever else an error means, the objects
// stay.
func (r *Resource) pause(ctx context.Context) {
	why := r.rest
	r.rest = noRest
	switch why {
	case noRest:
		return
	case overBudget:
		sleep.For(ctx, min(max(minOverPause, overRest*r.took), maxOverPause))
		return
	}
	ctx, stop := context.WithTimeout(ctx, optionalPause)
	defer stop()
	if why == notFound && r.serves == nil { // nothing can confirm that it is absent
		r.markTried()
	}
	if why == forbidden || r.serves == nil {
		<-ctx.Done()
		return
	}
	for first := true; r.admit(ctx) == nil; first = false {
		there, err := r.serves(ctx)
		switch {
		case err != nil: // not known: the resource is requested again
			r.throttle(err)
		case !there:
			r.feed.clear()
			r.group.setAbsent(&r.state, true)
			r.markTried()
		default:
			r.group.setAbsent(&r.state, false)
			if !first {
				return // it is there again
			}
		}
		if !sleep.For(ctx, max(discoveryPause, time.Until(r.throttled))) || err != nil || there {
			return
		}
	}
}
