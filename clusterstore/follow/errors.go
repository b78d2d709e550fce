package follow

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outdated reports whether the server no longer, or not yet, knows the version from
// which a watch was to go on. The reflector then starts over by itself.
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

// relist returns an error that makes a reflector list again after a watch that could
// not be started. If it saw that the server was unreachable it would, once that is
// back, just watch from the last version; but the server may have been restored from
// a backup, and its versions count from there: such a watch would miss changes.
func relist(err error) error {
	if errors.As(err, new(apierrors.APIStatus)) {
		return err // an answer
	}
	return hidden{err}
}

// hidden wraps an error so that errors.As finds nothing in it; errors.Is still finds
// the error itself.
type hidden struct{ err error }

func (h hidden) Error() string { return h.err.Error() }

func (h hidden) Is(target error) bool { return target == h.err }

// errUnexpectedType returns an error: a server sent an object that was not requested.
func errUnexpectedType(o any) error {
	return fmt.Errorf("the API server sent an object of unexpected type %T", o)
}
