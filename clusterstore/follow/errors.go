package follow

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outdated tells whether the server no longer, or not yet, knows the version
// that we asked to go on from. The reflector then starts over by itself.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// answered tells whether a server refused the request for what it is, as
// opposed to being unreachable or unable.
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != 429
}

// anew returns what makes a reflector list again after a watch that could not be
// started. If it knew that there was no server it would, once there is one, just
// go on from where it was; but that may be a server that has been restored from
// a backup, whose versions count from there again: it would tell of nothing.
func anew(err error) error {
	if errors.As(err, new(apierrors.APIStatus)) {
		return err // an answer
	}
	return hidden{err}
}

// hidden is an error that does not show what it wraps, but for what it was.
type hidden struct{ err error }

func (h hidden) Error() string { return h.err.Error() }

func (h hidden) Is(target error) bool { return target == h.err }

// errType says that a server sent something that was not asked for.
func errType(o any) error { return fmt.Errorf("unexpected object of type %T", o) }
