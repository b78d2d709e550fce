package exports

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/kube"
	"isthmus/internal/pace"
	"isthmus/local/exports/plan"
)

// releaseTime is how long the API server may take to release the IPs of a deleted Service.
const releaseTime = 500 * time.Millisecond

// creator creates Services that may request specific cluster IPs. If the API server rejects an IP
// as invalid, taken or out of range, Create retries with only one IP, and then without IPs.
type creator struct {
	kube.WithStatus[*corev1.Service]
}

func (c creator) Create(
	ctx context.Context, o *corev1.Service, options metav1.CreateOptions,
) (got *corev1.Service, err error) {
	for i, next := range attempts(o) {
		if got, err = c.WithStatus.Create(ctx, next, options); !refusesIPs(err) {
			break
		}
		// The IPs may belong to a previous Service that has just been deleted.
		if i == 0 && len(next.Spec.ClusterIPs) > 0 && areTaken(err) && pace.Sleep(ctx, releaseTime) {
			if got, err = c.WithStatus.Create(ctx, next, options); !refusesIPs(err) {
				break
			}
		}
	}
	return got, err
}

func attempts(o *corev1.Service) (all []*corev1.Service) {
	const most = 2 // one IP per family
	ips := o.Spec.ClusterIPs
	if p := o.Spec.IPFamilyPolicy; p != nil && *p == corev1.IPFamilyPolicySingleStack {
		var ofIPv4 []string
		for _, ip := range ips {
			if !strings.Contains(ip, ":") {
				ofIPv4 = append(ofIPv4, ip)
			}
		}
		for n := min(len(ofIPv4), 1); n >= 0; n-- {
			next := o.DeepCopy()
			setIPs(next, ofIPv4[:n])
			all = append(all, next)
		}
		// An IPv6-only cluster rejects SingleStack Services of the IPv4 family, so the remaining
		// attempts use PreferDualStack.
		o = o.DeepCopy()
		o.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
		o.Spec.IPFamilies = nil
		delete(o.Annotations, plan.SingleStackKey)
	}
	for n := min(len(ips), most); n >= 0; n-- {
		next := o.DeepCopy()
		setIPs(next, ips[:n])
		all = append(all, next)
	}
	return all
}

func refusesIPs(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if strings.HasPrefix(cause.Field, "spec.clusterIP") || strings.HasPrefix(cause.Field, "spec.ipFamil") {
			return true
		}
	}
	return false
}

func areTaken(err error) bool { return strings.Contains(err.Error(), "already allocated") }
