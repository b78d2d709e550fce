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
	// writeTimeout bounds one write, with the read before it.
	writeTimeout = 10 * time.Second
	// fieldManager is the gateway's name in managedFields.
	fieldManager = "isthmus"
	// maxProblem is how many bytes of an error are remembered. A webhook may send a long message.
	maxProblem = 4 << 10
)

// do makes a change. It returns what it has tried.
type do func(context.Context, *Writer, *Change, *lease.History, *lease.Outcome) (Verb, error)

// kept is an object of the API.
type kept interface {
	comparable
	metav1.Object
}

// put makes an object what it is to be. over returns what is to be written where there is have, as it is read now, or
// the zero value if there is none; the zero value if nothing is, since it is as it is to be, or is not ours. known is
// that of a Change.
func put[O kept](api client[O], over func(have O) O, known func(O) string) do {
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
		next := over(have)
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
		if err == nil && known != nil && over(got) != zero {
			r.Left = known(got) // the kind that is served does not have all fields
		}
		return v, err
	}
}

// remove deletes an object, if it is ours as it is read now.
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

// managers returns who else has written to an object, by its managedFields: for messages.
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
