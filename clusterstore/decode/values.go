package decode

import (
	"fmt"
	"reflect"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mapEntry is the protobuf message for one entry of a map.
type mapEntry struct {
	Key   []byte `protobuf:"bytes,1,opt,name=key"`
	Value []byte `protobuf:"bytes,2,opt,name=value"`
}

// mapSetter returns a setter that adds one entry to a map with string keys. If the keep function is
// not nil, the setter skips all entries whose keys the function rejects.
func mapSetter[V any](r *room, u *used, longest int, keep func(string) bool, value func([]byte) V) setter {
	var kept map[string]V
	r.clears = append(r.clears, func() {
		if len(kept) > maxMap {
			kept = nil
		}
		clear(kept)
	})
	var one mapEntry
	entry := tableOf(r, reflect.TypeOf(one), usedFields("key value"))
	v := reflect.ValueOf(&one).Elem()
	return func(into reflect.Value, _ uint64, data []byte) error {
		one = mapEntry{}
		if err := entry.decode(v, data); err != nil {
			return err
		}
		key, data := lend(one.Key), one.Value
		switch {
		case keep != nil && !keep(key):
			return nil
		case len(key) > maxText || len(data) > longest:
			return fmt.Errorf("one of its %s is longer than %d bytes", u.path, longest)
		}
		m := into.Addr().Interface().(*map[string]V)
		if *m == nil {
			if kept == nil {
				kept = make(map[string]V)
			}
			*m = kept
		}
		(*m)[key] = value(data)
		if len(*m) > u.limit {
			return fmt.Errorf("it has more than %d %s", u.limit, u.path)
		}
		return nil
	}
}

// momentSetter returns a setter for a field of type metav1.Time. Like Kubernetes, the setter drops
// fractions of a second.
func momentSetter(r *room) setter {
	var at metav1.Timestamp
	t := tableOf(r, reflect.TypeOf(at), usedFields("seconds"))
	v := reflect.ValueOf(&at).Elem()
	return func(into reflect.Value, _ uint64, data []byte) error {
		at = metav1.Timestamp{}
		if err := t.decode(v, data); err != nil {
			return err
		}
		var when metav1.Time
		if len(data) > 0 {
			when = metav1.Time{Time: time.Unix(at.Seconds, 0).Local()}
		}
		*into.Addr().Interface().(*metav1.Time) = when
		return nil
	}
}

// updatesSetter returns a setter for managedFields, of which only the time of the newest update is
// decoded.
func updatesSetter(r *room) setter {
	var one metav1.ManagedFieldsEntry
	t := tableOf(r, reflect.TypeOf(one), usedFields("operation time"))
	v := reflect.ValueOf(&one).Elem()
	list := make([]metav1.ManagedFieldsEntry, 1)
	newest := new(metav1.Time)
	return func(into reflect.Value, _ uint64, data []byte) error {
		one.Operation = ""
		one.Time = nil
		if err := t.decode(v, data); err != nil || one.Operation != metav1.ManagedFieldsOperationUpdate ||
			one.Time.IsZero() {
			return err
		}
		if m := into.Addr().Interface().(*[]metav1.ManagedFieldsEntry); *m == nil {
			*m, *newest = list, *one.Time
			list[0] = metav1.ManagedFieldsEntry{Operation: metav1.ManagedFieldsOperationUpdate, Time: newest}
		} else if one.Time.After(newest.Time) {
			*newest = *one.Time
		}
		return nil
	}
}

// variablesSetter returns a setter that skips the environment variables that Isthmus does not use.
func variablesSetter(add setter) setter {
	return func(into reflect.Value, number uint64, data []byte) error {
		wanted := false
		eachPart(data, func(number protowire.Number, data []byte) {
			if number == 1 {
				wanted = usedVariable(lend(data))
			}
		})
		if !wanted {
			return nil
		}
		return add(into, number, data)
	}
}
