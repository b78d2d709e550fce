package apisim_test

import (
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"isthmus/e2e/object"
)

// writes is what clients write, one object at a time.
func (a *api) writes(contentType string) {
	config := rest.CopyConfig(a.rest)
	config.ContentType, config.AcceptContentTypes = contentType, contentType+",application/json"
	client, err := kubernetes.NewForConfigAndClient(config, a.client)
	a.must(err)
	services := client.CoreV1().Services(namespace)
	ctx := a.t.Context()
	note := func(what string, o, before *corev1.Service, err error) {
		a.note("%s: %s", what, reason(err))
		if err == nil && before != nil {
			a.note("%s: same UID=%v, version=%v, ClusterIP=%v, notes %q", what, o.UID == before.UID, o.ResourceVersion == before.ResourceVersion,
				o.Spec.ClusterIP == before.Spec.ClusterIP && o.Spec.ClusterIP != "", o.Annotations)
		}
	}
	update := func(what string, from *corev1.Service, change func(*corev1.Service)) *corev1.Service {
		o := from.DeepCopy()
		change(o)
		next, err := services.Update(ctx, o, metav1.UpdateOptions{})
		note(what, next, from, err)
		return next
	}
	remove := func(what string, uid *metav1.Preconditions) {
		note(what, nil, nil, services.Delete(ctx, "w", metav1.DeleteOptions{Preconditions: uid}))
	}
	made, err := services.Create(ctx, object.Service("", "w"), metav1.CreateOptions{})
	note("create", made, made, err)
	_, err = services.Create(ctx, object.Service("", "w"), metav1.CreateOptions{})
	note("create what there is", nil, nil, err)
	got, err := services.Get(ctx, "w", metav1.GetOptions{})
	note("get", got, made, err)
	_, err = services.Get(ctx, "none", metav1.GetOptions{})
	note("get what there is not", nil, nil, err)
	w := a.watch("from the creation", "/api/v1/namespaces/play/services?watch=true&resourceVersion="+made.ResourceVersion, "")
	changed := update("update", made, func(o *corev1.Service) { o.Annotations = map[string]string{"a": "b"} })
	update("update an old version", made, func(o *corev1.Service) { o.Annotations = map[string]string{"a": "c"} })
	update("update another UID", changed, func(o *corev1.Service) { o.ResourceVersion, o.UID = "", "other" })
	update("update any version, without ClusterIP", changed, func(o *corev1.Service) { // what there is stays
		o.ResourceVersion, o.Spec.ClusterIP, o.Spec.ClusterIPs, o.Annotations["a"] = "", "", nil, "d"
	})
	update("update what there is not", changed, func(o *corev1.Service) { o.Name = "none" })
	remove("delete another UID", metav1.NewUIDPreconditions("other"))
	remove("delete an old version", metav1.NewRVDeletionPrecondition(made.ResourceVersion).Preconditions)
	remove("delete", metav1.NewUIDPreconditions(string(made.UID)))
	remove("delete what there is not", nil)
	w.next(3)

	leases := client.CoordinationV1().Leases(namespace)
	lease, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}}, metav1.CreateOptions{})
	a.note("create a Lease: %s", reason(err))
	lease.Spec.HolderIdentity = new("me")
	held, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	a.note("hold it: %s, by %s", reason(err), *held.Spec.HolderIdentity)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	a.note("hold it, as it was: %s", reason(err))
	a.must(leases.Delete(ctx, "l", metav1.DeleteOptions{}))
}

// reason returns how a write has ended.
func reason(err error) string {
	status := apierrors.APIStatus(nil)
	if err != nil && !errors.As(err, &status) {
		return err.Error()
	}
	return string(apierrors.ReasonForError(err))
}
