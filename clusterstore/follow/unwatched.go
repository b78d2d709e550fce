package follow

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A resource that may be listed but not watched is relisted repeatedly. Every list is as expensive
// as the first one, so pauses double after maxWatchRefusals in a row, up to
// maxUnwatchedPause.
const (
	maxWatchRefusals  = 3
	maxUnwatchedPause = 30 * time.Second
)

// unwatched counts a watch that could not be opened after a list, if the permission is missing. In
// this case it returns the error with a hint.
func (r *Resource) unwatched(err error) error {
	if !apierrors.IsForbidden(err) {
		r.watchRefusals = 0
		return err
	}
	r.watchRefusals++
	return fmt.Errorf("it may be listed, but not watched: %w: grant the verb watch of %s", err, r.name)
}

// unwatchedPause returns the pause to make instead of one of the backoff.
func (r *Resource) unwatchedPause(pause time.Duration) time.Duration {
	if !r.needed { // it rests already: see absent.go
		return pause
	}
	for n := maxWatchRefusals; n <= r.watchRefusals && pause < maxUnwatchedPause; n++ {
		pause *= 2
	}
	return min(pause, maxUnwatchedPause)
}
