package decode

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode/corpus"
)

func newMaker(seed, stream uint64) corpus.Maker {
	return corpus.Maker{Rand: rand.New(rand.NewPCG(seed, stream))}
}

// prune leaves only the used fields of an object that client-go has decoded.
func prune(o Object, used string) {
	corpus.Prune(reflect.ValueOf(o).Elem(), strings.Fields(used))
	annotations := o.GetAnnotations()
	for key := range annotations {
		if !usedAnnotation(key) {
			delete(annotations, key)
		}
	}
	var newest time.Time
	for _, f := range o.GetManagedFields() {
		if f.Operation == metav1.ManagedFieldsOperationUpdate && f.Time != nil && f.Time.After(newest) {
			newest = f.Time.Time
		}
	}
	o.SetManagedFields(nil)
	if !newest.IsZero() {
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: newest}}})
	}
	switch o := o.(type) {
	case *corev1.Pod:
		for _, list := range [][]corev1.Container{o.Spec.Containers, o.Spec.InitContainers} {
			for i := range list {
				list[i].Env = slices.DeleteFunc(list[i].Env, func(e corev1.EnvVar) bool { return !usedVariable(e.Name) })
			}
		}
	case *corev1.Secret:
		for key := range o.Data {
			if key != "kubeconfig" {
				delete(o.Data, key)
			}
		}
	}
}
