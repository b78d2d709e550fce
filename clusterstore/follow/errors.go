package follow

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/budget"
)

// outdated reports whether the server no longer, or not yet, knows the version from
// which a watch was to go on, or a list.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
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

// isOver reports whether it is the budget that has refused something.
func isOver(err error) bool { return errors.Is(err, budget.ErrOver) }
