package kube

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"isthmus/clusterstore/typed"
)

// BenchmarkMeasureList is what it takes to measure a page of meshed Pods.
func BenchmarkMeasureList(b *testing.B) {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-5d4f7c9b8-x2x4z", Namespace: "shop", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-5d4f7c9b8"}},
			Labels: map[string]string{"app": "web", "pod-template-hash": "5d4f7c9b8", "linkerd.io/control-plane-ns": "linkerd"},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "web", Containers: []corev1.Container{
			{Name: "web", Image: "web", Ports: []corev1.ContainerPort{{ContainerPort: 80}}, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
			{Name: "linkerd-proxy", Env: []corev1.EnvVar{{Name: "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", Value: "0.0.0.0:4143"}}},
		}},
		Status: corev1.PodStatus{PodIP: "10.0.0.1", Phase: corev1.PodRunning},
	}
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for range 500 {
		list.Items = append(list.Items, pod)
	}
	var page bytes.Buffer
	if err := protobuf.NewSerializer(typed.Scheme, typed.Scheme).Encode(list, &page); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(page.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if size, err := measureAnswer(page.Bytes(), "a list"); err != nil || size == 0 {
			b.Fatal(size, err)
		}
	}
}
