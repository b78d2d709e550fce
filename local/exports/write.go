package exports

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/local/lease"
)

const (
	// writeTimeout limits the duration of one write, including the read before the write.
	writeTimeout = 10 * time.Second
	fieldManager = "isthmus"
	// maxProblem is the maximum length, in bytes, of a stored error. Longer errors are truncated,
	// because a webhook may return a very long message.
	maxProblem = 4 << 10
)

// do is the type of functions that apply a change and return the verb of the attempted write.
type do func(context.Context, *Writer, *Change, *lease.History, *lease.Outcome) (Verb, error)

type kept interface {
	comparable
	metav1.Object
}

// put returns a function that reads an object and then creates or updates it. The replace callback
// receives the existing object and returns the object to write. If the object does not exist, the
// replace callback receives the zero value. If the existing object is already correct or is not
// managed by Isthmus, the replace callback returns the zero value. The known callback returns a
// string that identifies the stored content of an object. If the API stores all fields of the
// object, the known callback is nil.
func put[O kept](api client[O], replace func(have O) O, known func(O) string) do {
	return func(ctx context.Context, w *Writer, c *Change, of *lease.History, r *lease.Outcome) (v Verb, err error) {
		var zero, got O
		objects, v := api(w, c.Namespace), Update
		update := objects.Update
		if c.Status {
			v, update = Status, objects.UpdateStatus
		}
		have, err := objects.Get(ctx, c.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && v != Status:
			have = zero
		case err != nil:
			return none, err
		}
		next := replace(have)
		content := c.content()
		again := of.Content == content
		if next == zero || again && have != zero && known != nil && of.Left == known(have) {
			return none, nil
		}
		*r = lease.Outcome{Content: content, Reverted: again}
		if have == zero {
			v = Create
			got, err = objects.Create(ctx, next, metav1.CreateOptions{FieldManager: fieldManager})
		} else {
			r.Managers = managers(have)
			got, err = update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		if err == nil && known != nil && replace(got) != zero {
			r.Left = known(got) // the served version of the kind lacks some fields
		}
		return v, err
	}
}

// remove returns a function that deletes an object if a fresh read shows that Isthmus manages it.
func remove[O kept](api client[O], mine func(O) bool) do {
	return func(ctx context.Context, w *Writer, c *Change, _ *lease.History, r *lease.Outcome) (Verb, error) {
		objects := api(w, c.Namespace)
		have, err := objects.Get(ctx, c.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return none, nil
		}
		if err != nil || !mine(have) {
			return none, err
		}
		*r = lease.Outcome{Managers: managers(have)}
		uid := have.GetUID()
		version := have.GetResourceVersion()
		return Delete, objects.Delete(ctx, c.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		})
	}
}

func managers(o metav1.Object) string {
	var names []string
	for _, f := range o.GetManagedFields() {
		if f.Manager != fieldManager && !slices.Contains(names, f.Manager) && len(names) < 5 {
			names = append(names, f.Manager)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
