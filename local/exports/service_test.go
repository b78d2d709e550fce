package exports

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/local/exports/plan"
)

// TestFamilies checks the IP families when the policy of a Service changes. A Service that becomes
// SingleStack keeps its first IP. A Service that becomes PreferDualStack keeps its IP, and the API
// server chooses the second family.
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
		next := readService(have)
		next.IPFamilyPolicy, next.IPFamilies = string(tc.to), []string{"IPv4"}
		written := writeService(next, have, "")
		if s := &written.Spec; *s.IPFamilyPolicy != tc.to || !slices.Equal(s.ClusterIPs, ips[:1]) ||
			!slices.Equal(s.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol}) {
			t.Errorf("to %s: %s%v with %v", tc.to, *s.IPFamilyPolicy, s.IPFamilies, s.ClusterIPs)
		}
		if got := readService(have).IPFamilyPolicy; got != string(tc.from) {
			t.Errorf("to %s: the original Service was changed to %s", tc.to, got)
		}
		have = written
	}

	same := readService(have)
	same.Labels = map[string]string{"a": "b"}
	if s := writeService(same, have, "").Spec; !slices.Equal(s.IPFamilies, have.Spec.IPFamilies) {
		t.Errorf("a Service whose policy stays has the families %v", s.IPFamilies)
	}
}

// TestNewFamilies checks that a new Service requests the IP families of the plan.
func TestNewFamilies(t *testing.T) {
	next := &plan.Service{IPFamilyPolicy: "SingleStack", IPFamilies: []string{"IPv4"}}
	s := writeService(next, nil, "").Spec
	if *s.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack ||
		!slices.Equal(s.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol}) {
		t.Errorf("%s%v", *s.IPFamilyPolicy, s.IPFamilies)
	}
}

// TestImportThereAndBack checks that a written ServiceImport is read back unchanged.
func TestImportThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := func(name string, of ...string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID).Draw(t, name)
		}
		want := &plan.ServiceImport{
			ID:          plan.ID{Namespace: "shop", Name: "web"},
			Labels:      map[string]string{"a": "b"},
			Annotations: map[string]string{},
			Type:        rapid.SampledFrom([]string{"ClusterSetIP", "Headless"}).Draw(t, "type"),
			IPs:         few("ips", "10.0.0.1", "fd00::1"),
			IPFamilies:  few("families", "IPv4", "IPv6"),
			Traffic: plan.Traffic{
				SessionAffinity:       rapid.SampledFrom([]string{"None", "ClientIP"}).Draw(t, "affinity"),
				AffinitySeconds:       rapid.Int32Range(0, 9).Draw(t, "seconds"),
				InternalTrafficPolicy: rapid.SampledFrom([]string{"", "Local"}).Draw(t, "policy"),
				TrafficDistribution:   rapid.SampledFrom([]string{"", "PreferClose"}).Draw(t, "distribution"),
			},
			Clusters:             few("clusters", "east", "west"),
			EndpointSliceObjects: rapid.SampledFrom([]string{"", "Absent"}).Draw(t, "slices"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "ports") {
			want.Ports = append(want.Ports, plan.Port{
				Name:        rapid.SampledFrom([]string{"http", "grpc"}).Draw(t, "port"),
				Protocol:    "TCP",
				Number:      rapid.Uint16Min(1).Draw(t, "number"),
				AppProtocol: rapid.SampledFrom([]string{"", "kubernetes.io/h2c"}).Draw(t, "protocol"),
			})
		}
		for _, kind := range few("conditions", "Ready", "Other") {
			want.Conditions = append(want.Conditions, metav1.Condition{
				Type:               kind,
				Reason:             "Ready",
				Status:             rapid.SampledFrom([]metav1.ConditionStatus{"True", "False"}).Draw(t, "status"),
				ObservedGeneration: 3,
			})
		}
		got := readServiceImport(writeServiceImport(want, nil))
		for _, list := range []*[]string{&want.IPs, &want.IPFamilies, &want.Clusters} {
			if len(*list) == 0 {
				*list = nil
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

// TestStatusBounds checks that a status that somebody else has written is read only in part. The
// part includes the condition that matters, and the rest stays when the status is written.
func TestStatusBounds(t *testing.T) {
	have := &mcs.ServiceImport{}
	for i := range 1000 {
		have.Status.Clusters = append(have.Status.Clusters, mcs.ClusterStatus{Cluster: fmt.Sprint("cluster-", i)})
		have.Status.Conditions = append(have.Status.Conditions, metav1.Condition{Type: fmt.Sprint("Other", i)})
	}
	notReady := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse}
	have.Status.Conditions = append(have.Status.Conditions, notReady)
	read := readServiceImport(have)
	if n := len(read.Clusters); n != maxClusters {
		t.Errorf("%d clusters are read", n)
	}
	if n := len(read.Conditions); n != maxConditions || read.Conditions[n-1].Type != "Ready" {
		t.Fatalf("%d conditions are read, the last one is %+v", n, read.Conditions[n-1])
	}
	read.Conditions[maxConditions-1].Status = metav1.ConditionTrue
	written := writeServiceImport(read, have).Status.Conditions
	if n := len(written); n != 1001 || written[1000].Status != metav1.ConditionTrue {
		t.Errorf("%d conditions are written, the last one is %+v", n, written[n-1])
	}
}
