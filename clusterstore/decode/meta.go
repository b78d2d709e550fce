package decode

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Bounds of metadata. API servers have none for these but that of a request, of which etcd takes 1.5 MiB.
const (
	maxLabels      = 100_000 // as many as fit into such a request, and as many annotations that are used
	maxOwners      = 1_000
	metadataNumber = 1 // of the field, in all kinds
)

// metadata is the table of the metadata of an object.
func metadata(r *room) table[metav1.ObjectMeta] {
	return table[metav1.ObjectMeta]{
		1:  text("name", maxName, func(m *metav1.ObjectMeta) *string { return &m.Name }),
		3:  text("namespace", maxName, func(m *metav1.ObjectMeta) *string { return &m.Namespace }),
		5:  text("uid", maxName, func(m *metav1.ObjectMeta) *types.UID { return &m.UID }),
		6:  text("resourceVersion", maxName, func(m *metav1.ObjectMeta) *string { return &m.ResourceVersion }),
		8:  moment(func(m *metav1.ObjectMeta) *metav1.Time { return &m.CreationTimestamp }),
		9:  optional(r, moment(self[metav1.Time]), func(m *metav1.ObjectMeta) **metav1.Time { return &m.DeletionTimestamp }),
		11: mapping(r, "labels", maxLabels, maxText, nil, lend[string], func(m *metav1.ObjectMeta) *map[string]string { return &m.Labels }),
		12: mapping(r, "annotations", maxLabels, maxAnnotation, usedAnnotation, lend[string], func(m *metav1.ObjectMeta) *map[string]string { return &m.Annotations }),
		13: list(r, "ownerReferences", bound{maxOwners, maxOwners}, table[metav1.OwnerReference]{
			1: text("ownerReferences.kind", maxText, func(o *metav1.OwnerReference) *string { return &o.Kind }),
			3: text("ownerReferences.name", maxText, func(o *metav1.OwnerReference) *string { return &o.Name }),
			4: text("ownerReferences.uid", maxText, func(o *metav1.OwnerReference) *types.UID { return &o.UID }),
		}, func(m *metav1.ObjectMeta) *[]metav1.OwnerReference { return &m.OwnerReferences }),
		17: updates(r),
	}
}

// usedAnnotation reports whether an annotation is used, or may be.
func usedAnnotation(key string) bool {
	return strings.Contains(key, "linkerd.io/") || strings.Contains(key, "isthmus.io/") || key == metav1.InitialEventsAnnotationKey
}

// updates is the table's field of who has written what when. Of all updates only the time of the
// newest one is used.
func updates(r *room) field[metav1.ObjectMeta] {
	entries, times := newShelf[metav1.ManagedFieldsEntry](r), newShelf[metav1.Time](r)
	var update bool
	var when metav1.Time
	one := table[struct{}]{
		2: {protowire.BytesType, func(_ *struct{}, _ uint64, data []byte) error {
			update = string(data) == string(metav1.ManagedFieldsOperationUpdate)
			return nil
		}},
		4: moment(func(*struct{}) *metav1.Time { return &when }),
	}
	return field[metav1.ObjectMeta]{protowire.BytesType, func(m *metav1.ObjectMeta, _ uint64, data []byte) error {
		update, when = false, metav1.Time{}
		if err := one.decode(nil, data); err != nil || !update || when.IsZero() {
			return err
		}
		if len(m.ManagedFields) == 0 {
			m.ManagedFields = entries.grow(nil)
			m.ManagedFields[0] = metav1.ManagedFieldsEntry{Operation: metav1.ManagedFieldsOperationUpdate, Time: times.one()}
		}
		if newest := m.ManagedFields[0].Time; when.After(newest.Time) {
			*newest = when
		}
		return nil
	}}
}

// errNoKey is for what no API server sends: without its name it can't be shown which object is
// refused.
var errNoKey = errors.New("the API server sent an object without a name, or with one that no object can have: check that the server is an API server")

// tooLarge is why an object of that size is refused.
func tooLarge(size uint64) error {
	return fmt.Errorf("it is larger than %d MiB (%d bytes)", maxObject>>20, size)
}
