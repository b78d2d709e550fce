package exports

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/local/exports/object"
)

const (
	// writeTimeout bounds one write, with the read before it.
	writeTimeout = 10 * time.Second
	// fieldManager is the gateway's name in managedFields.
	fieldManager = "isthmus"
)

// verb is what is done to an object, and its label in metrics.
type verb string

const (
	creates verb = "create"
	updates verb = "update"
	removes verb = "delete"
	none    verb = ""
)

// write does one task.
func (t *term) write(one task) (r outcome) {
	v := none
	err := t.lease.Write(func(ctx context.Context) (err error) {
		ctx, stop := context.WithTimeout(ctx, writeTimeout)
		defer stop()
		if one.want == nil {
			v, err = t.remove(ctx, one, &r)
		} else {
			v, err = t.put(ctx, one, &r)
		}
		return err
	})
	if v != none {
		t.metrics.count(one, v, err)
	}
	switch {
	case err == nil:
		r.nothing = v == none
		return r
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return outcome{again: true} // somebody else was faster
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return outcome{nothing: true} // with all that is in it
	case errors.Is(err, context.Canceled):
		return outcome{again: true} // the Lease is lost
	}
	t.Log.Warn("an exported Service can't be written", zap.String("service", one.id.String()), zap.Error(err))
	return outcome{problem: err.Error()}
}

// put makes an object what it is to be, if it is ours as it is read now.
func (t *term) put(ctx context.Context, one task, r *outcome) (verb, error) {
	api := t.Services(one.id.Namespace)
	content := one.want.Content()
	have, err := api.Get(ctx, one.id.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		next, _ := one.want.Over(nil)
		*r = outcome{content: content, reverted: one.written == content}
		_, err = api.Create(ctx, object.Write(&next, nil, one.want.Owner()), metav1.CreateOptions{FieldManager: fieldManager})
		return creates, err
	case err != nil:
		return none, err
	}
	now := object.Read(have)
	if !one.want.Mine(now) {
		return none, nil
	}
	next, differs := one.want.Over(now)
	if !differs {
		return none, nil
	}
	*r = outcome{content: content, reverted: one.written == content, managers: managers(have)}
	_, err = api.Update(ctx, object.Write(&next, have, one.want.Owner()), metav1.UpdateOptions{FieldManager: fieldManager})
	return updates, err
}

// remove deletes an object, if it is ours as it is read now.
func (t *term) remove(ctx context.Context, one task, r *outcome) (verb, error) {
	api := t.Services(one.id.Namespace)
	have, err := api.Get(ctx, one.id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil || !one.unwanted.Mine(one.settings, object.Read(have)) {
		return none, err
	}
	*r = outcome{managers: managers(have)}
	return removes, api.Delete(ctx, one.id.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion}})
}

// managers returns who else has written to an object, by its managedFields: for messages.
func managers(o *corev1.Service) string {
	var names []string
	for _, f := range o.ManagedFields {
		if f.Manager != fieldManager && !slices.Contains(names, f.Manager) && len(names) < 5 {
			names = append(names, f.Manager)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
