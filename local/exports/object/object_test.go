package object

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"isthmus/local/exports/plan"
)

// TestFamilies: a Service that becomes SingleStack keeps its first IP. One that becomes PreferDualStack keeps its IP
// too, and leaves the second family to the API server.
func TestFamilies(t *testing.T) {
	ips := []string{"10.0.0.1", "fd00::1"}
	have := &corev1.Service{Spec: corev1.ServiceSpec{
		ClusterIP:      ips[0],
		ClusterIPs:     ips,
		IPFamilies:     []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack),
	}}
	for _, tc := range []struct{ from, to corev1.IPFamilyPolicy }{
		{corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicySingleStack},
		{corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack},
	} {
		next := Read(have)
		next.IPFamilyPolicy, next.IPFamilies = string(tc.to), []string{"IPv4"}
		written := Write(next, have, "")
		if s := &written.Spec; *s.IPFamilyPolicy != tc.to || !slices.Equal(s.ClusterIPs, ips[:1]) ||
			!slices.Equal(s.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol}) {
			t.Errorf("to %s: %s%v with %v", tc.to, *s.IPFamilyPolicy, s.IPFamilies, s.ClusterIPs)
		}
		if got := Read(have).IPFamilyPolicy; got != string(tc.from) {
			t.Errorf("to %s: the Service from before is changed to %s", tc.to, got)
		}
		have = written
	}

	same := Read(have)
	same.Labels = map[string]string{"a": "b"}
	if s := Write(same, have, "").Spec; !slices.Equal(s.IPFamilies, have.Spec.IPFamilies) {
		t.Errorf("a Service whose policy stays has the families %v", s.IPFamilies)
	}
}

// TestNewFamilies: a Service that is created asks for the families that the plan wants.
func TestNewFamilies(t *testing.T) {
	next := &plan.Service{IPFamilyPolicy: "SingleStack", IPFamilies: []string{"IPv4"}}
	s := Write(next, nil, "").Spec
	if *s.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack ||
		!slices.Equal(s.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol}) {
		t.Errorf("%s%v", *s.IPFamilyPolicy, s.IPFamilies)
	}
}
