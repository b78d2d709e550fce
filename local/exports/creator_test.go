package exports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"isthmus/clusterstore/kube"
)

// creates is a client whose Create returns the error of answer.
type creates struct {
	kube.WithStatus[*corev1.Service]
	answer func(*corev1.Service) error
}

func (c creates) Create(
	_ context.Context, o *corev1.Service, _ metav1.CreateOptions,
) (*corev1.Service, error) {
	return o, c.answer(o)
}

// asked formats the IP families and IPs that a Service requests.
func asked(o *corev1.Service) string {
	return fmt.Sprint(*o.Spec.IPFamilyPolicy, o.Spec.IPFamilies, " ", strings.Join(o.Spec.ClusterIPs, ","))
}

// invalid returns the error of an API server that rejects the field at path.
func invalid(path string) error {
	refused := field.Invalid(field.NewPath(path), "", "failed to allocate IP: provided IP is already allocated")
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", field.ErrorList{refused})
}

// TestCreate checks that a Service is created with fewer IPs if the API server rejects some of
// them.
func TestCreate(t *testing.T) {
	const both, first, none = "PreferDualStack[] 10.0.0.1,fd00::1", "PreferDualStack[] 10.0.0.1", "PreferDualStack[] "
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "web", errors.New("exceeded quota"))
	for name, tc := range map[string]struct {
		refused map[string]error
		asked   []string
		err     error
	}{
		"accepted":   {nil, []string{both}, nil},
		"the second": {map[string]error{both: invalid("spec.clusterIPs")}, []string{both, both, first}, nil},
		"both": {
			map[string]error{both: invalid("spec.clusterIPs[0]"), first: invalid("spec.clusterIP")},
			[]string{both, both, first, none}, nil,
		},
		"quota":         {map[string]error{both: quota}, []string{both}, quota},
		"another field": {map[string]error{both: invalid("spec.ports")}, []string{both}, invalid("spec.ports")},
		"quota without them": {
			map[string]error{both: invalid("spec.clusterIPs"), first: quota}, []string{both, both, first}, quota,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := &corev1.Service{Spec: corev1.ServiceSpec{IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack)}}
			setIPs(o, []string{"10.0.0.1", "fd00::1"})
			var all []string
			c := creator{creates{answer: func(o *corev1.Service) error {
				all = append(all, asked(o))
				return tc.refused[asked(o)]
			}}}
			got, err := c.Create(t.Context(), o, metav1.CreateOptions{})
			if !slices.Equal(all, tc.asked) || fmt.Sprint(err) != fmt.Sprint(tc.err) ||
				asked(got) != tc.asked[len(tc.asked)-1] {
				t.Errorf("%s: asked for %q, got %v, %v", name, all, asked(got), err)
			}
		})
	}
}

// TestCreateSingleStack checks a SingleStack Service whose recorded IP is an IPv6 address. It
// requests IPv4 first. If the API server rejects IPv4, it requests PreferDualStack with the
// recorded IP.
func TestCreateSingleStack(t *testing.T) {
	o := &corev1.Service{Spec: corev1.ServiceSpec{
		IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack), IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}}
	setIPs(o, []string{"fd00::1"})
	var all []string
	c := creator{creates{answer: func(o *corev1.Service) error {
		all = append(all, asked(o))
		if len(o.Spec.IPFamilies) > 0 {
			return invalid("spec.ipFamilies[0]")
		}
		return nil
	}}}
	_, err := c.Create(t.Context(), o, metav1.CreateOptions{})
	if want := []string{"SingleStack[IPv4] ", "PreferDualStack[] fd00::1"}; err != nil || !slices.Equal(all, want) {
		t.Errorf("asked for %q, want %q: %v", all, want, err)
	}
}
