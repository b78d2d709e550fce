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

// denial is why an optional resource is left alone for a while.
type denial uint8

const (
	notDenied denial = iota
	forbidden        // or can't be listed
	notFound
)

func denialOf(err error) denial {
	switch {
	case apierrors.IsNotFound(err):
		return notFound
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
		return forbidden
	}
	return notDenied
}

// pause leaves an optional resource alone after its last list or watch was denied. If
// it was not found, and API discovery confirms that, there are no objects; and it is
// requested again as soon as discovery has it. Whatever else an error means, the objects
// stay. A resource over budget is left alone too.
func (r *Resource) pause(ctx context.Context) {
	if r.over != nil {
		sleep.For(ctx, min(max(minOverPause, overRest*r.took), maxOverPause))
		return
	}
	why := r.denied
	r.denied = notDenied
	if why == notDenied {
		return
	}
	ctx, stop := context.WithTimeout(ctx, optionalPause)
	defer stop()
	if why == forbidden || r.serves == nil {
		<-ctx.Done()
		return
	}
	for first := true; r.admit(ctx) == nil; first = false {
		there, err := r.serves(ctx)
		switch {
		case err != nil: // not known
		case !there:
			r.feed.clear()
		case !first:
			return // it is there again
		}
		if !sleep.For(ctx, discoveryPause) || err == nil && there {
			return
		}
	}
}
