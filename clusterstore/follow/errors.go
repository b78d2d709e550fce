package follow

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outdated reports whether the server no longer, or not yet, knows the version from
// which a watch was to go on, or a list.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// answered reports whether a server has refused the request itself (a code 4xx), as
// opposed to being unreachable or overloaded.
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != 429
}

// rest is why the pause after a failure is longer than the backoff.
type rest uint8

const (
	noRest    rest = iota
	forbidden      // of an optional resource, which may also not be listed by anybody
	notFound       // of an optional resource
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

// isOver reports whether the memory cap has refused something.
func isOver(err error) bool { return errors.Is(err, ErrOverBudget) }
