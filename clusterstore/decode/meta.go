package decode

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds of metadata. API servers have none for these but that of a request, of which etcd takes 1.5 MiB.
const (
	maxLabels      = 100_000 // of some 15 bytes, in such a request; likewise for annotations that are used
	maxOwners      = 1_000
	metadataNumber = 1 // of the field, in all kinds
)

// metadata is the table of the metadata of an object.
func metadata(r *room) table[metav1.ObjectMeta] {
	deletions := newShelf[metav1.Time](r)
	return table[metav1.ObjectMeta]{
		1: text("name", maxName, func(m *metav1.ObjectMeta) *string { return &m.Name }),
		3: text("namespace", maxName, func(m *metav1.ObjectMeta) *string { return &m.Namespace }),
		6: text("resourceVersion", maxName, func(m *metav1.ObjectMeta) *string { return &m.ResourceVersion }),
		8: moment(func(m *metav1.ObjectMeta) *metav1.Time { return &m.CreationTimestamp }),
		9: moment(func(m *metav1.ObjectMeta) *metav1.Time {
			if m.DeletionTimestamp == nil {
				m.DeletionTimestamp = deletions.one()
			}
			return m.DeletionTimestamp
		}),
		11: mapping(r, "labels", maxLabels, maxText, nil, lend[string], func(m *metav1.ObjectMeta) *map[string]string { return &m.Labels }),
		12: mapping(r, "annotations", maxLabels, maxAnnotation, usedAnnotation, lend[string], func(m *metav1.ObjectMeta) *map[string]string { return &m.Annotations }),
		13: list(r, "ownerReferences", bound{maxOwners, maxOwners}, table[metav1.OwnerReference]{
			1: text("ownerReferences.kind", maxText, func(o *metav1.OwnerReference) *string { return &o.Kind }),
			3: text("ownerReferences.name", maxText, func(o *metav1.OwnerReference) *string { return &o.Name }),
		}, nil, func(m *metav1.ObjectMeta) *[]metav1.OwnerReference { return &m.OwnerReferences }),
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
		newestUpdate(m, when.Time, entries, times)
		return nil
	}}
}

// newestUpdate notes an update in the one entry for all of them.
func newestUpdate(m *metav1.ObjectMeta, at time.Time, entries *shelf[metav1.ManagedFieldsEntry], times *shelf[metav1.Time]) {
	if len(m.ManagedFields) == 0 {
		m.ManagedFields = entries.grow(nil)
		m.ManagedFields[0] = metav1.ManagedFieldsEntry{Operation: metav1.ManagedFieldsOperationUpdate, Time: times.one()}
	}
	if newest := m.ManagedFields[0].Time; at.After(newest.Time) {
		newest.Time = at
	}
}

// errNoKey is for what no API server sends: it is not known which object it is, so that what is
// kept of it can't be shown as such.
var errNoKey = errors.New("the API server sent an object without a name, or with one that no object can have: check that the server is an API server")

// refuse returns what is known of an object that can't be decoded because of err. The error is
// that even its name is not known.
func refuse(data []byte, err error) (*Refused, error) {
	refused := &Refused{Err: err}
	eachPart(data, func(number protowire.Number, data []byte) {
		if number != metadataNumber {
			return
		}
		eachPart(data, func(number protowire.Number, data []byte) {
			var text string
			if len(data) <= maxName {
				text = string(data)
			}
			switch number {
			case 1:
				refused.Name = text
			case 3:
				refused.Namespace = text
			case 6:
				refused.ResourceVersion = text
			}
		})
	})
	return refused, refused.check()
}

func (r *Refused) check() error {
	if !isKey(r.Namespace, r.Name) {
		return errNoKey
	}
	return nil
}

// isKey reports whether an object can have these names. A slash in one could make its key another object's.
func isKey(namespace, name string) bool {
	return name != "" && !strings.Contains(namespace, "/") && !strings.Contains(name, "/")
}

// checkKey reports names that no object can have.
func checkKey(o metav1.Object) error {
	if !isKey(o.GetNamespace(), o.GetName()) || max(len(o.GetName()), len(o.GetNamespace()), len(o.GetResourceVersion())) > maxName {
		return errNoKey
	}
	return nil
}

// eachPart calls f for each text or message of an encoded message that may be cut off, up to
// where it is.
func eachPart(data []byte, f func(number protowire.Number, data []byte)) {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return
		}
		data = data[n:]
		if wire != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
				return
			}
			data = data[n:]
			continue
		}
		size, n := protowire.ConsumeVarint(data)
		if n < 0 {
			return
		}
		data = data[n:]
		part := data[:min(size, uint64(len(data)))]
		f(number, part)
		data = data[len(part):]
	}
}

// tooLarge is why an object of that size is refused.
func tooLarge(size uint64) error {
	return fmt.Errorf("it is larger than %d MiB (%d bytes)", maxObject>>20, size)
}
