package externalworkload

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Mark is the value of the endpointslice.kubernetes.io/managed-by label on the slices that a
	// Writer manages. Linkerd's controller uses the same value as Isthmus, so either program can
	// take over the slices that the other wrote.
	Mark       = "linkerd-external-workloads-controller"
	namePrefix = "linkerd-external-"
	// maxEndpoints is the maximum number of endpoints that the Writer puts into a slice.
	maxEndpoints = 100
)

// newSlice lets the API server choose the name of the slice.
func newSlice(
	svc *corev1.Service, t discoveryv1.AddressType, ports []discoveryv1.EndpointPort, endpoints []discoveryv1.Endpoint,
) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:    svc.Namespace,
			GenerateName: namePrefix + svc.Name + "-",
			Labels:       sliceLabels(svc),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service")),
			},
		},
		AddressType: t,
		Ports:       ports,
		Endpoints:   endpoints,
	}
}

func withContents(
	s *discoveryv1.EndpointSlice,
	svc *corev1.Service,
	ports []discoveryv1.EndpointPort,
	endpoints []discoveryv1.Endpoint,
) *discoveryv1.EndpointSlice {
	c := &discoveryv1.EndpointSlice{
		ObjectMeta:  *s.ObjectMeta.DeepCopy(),
		AddressType: s.AddressType,
		Ports:       ports,
		Endpoints:   endpoints,
	}
	c.Labels = sliceLabels(svc)
	return c
}

// sliceLabels returns the labels for a Service's slices: the Service's own labels, and the labels
// that Isthmus adds to slices. The writer removes other labels from slices, at most once a second
// per Service.
func sliceLabels(svc *corev1.Service) map[string]string {
	l := maps.Clone(svc.Labels)
	if l == nil {
		l = make(map[string]string, 3)
	}
	delete(l, corev1.IsHeadlessService)
	if isHeadless(svc) {
		l[corev1.IsHeadlessService] = ""
	}
	l[discoveryv1.LabelServiceName] = svc.Name
	l[discoveryv1.LabelManagedBy] = Mark
	return l
}

func isOwned(s *discoveryv1.EndpointSlice, svc *corev1.Service) bool {
	return slices.ContainsFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.UID == svc.UID && o.Kind == "Service" && o.APIVersion == "v1"
	})
}

// workloadOf returns the name of the workload that an endpoint refers to, or "".
func workloadOf(s *discoveryv1.EndpointSlice, e *discoveryv1.Endpoint) string {
	if r := e.TargetRef; r != nil && r.Kind == workloadKind && r.Namespace == s.Namespace {
		return r.Name
	}
	return ""
}
