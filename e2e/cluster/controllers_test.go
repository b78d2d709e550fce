package cluster_test

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"isthmus/e2e/kube"
	"isthmus/e2e/object"
)

// checkControllers gives each controller its work and sees it done.
func checkControllers(t *testing.T, client kubernetes.Interface) {
	const ns = "work"
	ctx := t.Context()
	if err := kube.Create(ctx, client.CoreV1().Namespaces(), object.Namespace(ns)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "serviceaccount makes the default one", func() error {
		_, err := client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	if err := kube.Create(ctx, client.CoreV1().Secrets(ns), secret); err != nil {
		t.Fatal(err)
	}
	eventually(t, "token fills the Secret", func() error {
		secret, err := client.CoreV1().Secrets(ns).Get(ctx, "token", metav1.GetOptions{})
		if err == nil && (len(secret.Data["token"]) == 0 || len(secret.Data["ca.crt"]) == 0) {
			err = fmt.Errorf("it holds %d items", len(secret.Data))
		}
		return err
	})
	eventually(t, "clusterrole fills view", func() error {
		role, err := client.RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
		if err == nil && len(role.Rules) == 0 {
			err = fmt.Errorf("it has no rules")
		}
		return err
	})
	service := object.Service(ns, "web")
	service.Spec.Selector = map[string]string{"app": "web"}
	if err := kube.Create(ctx, client.CoreV1().Services(ns), service); err != nil {
		t.Fatal(err)
	}
	eventually(t, "endpointslice makes a slice", func() error { return countSlices(t, client, ns, 1) })
	if err := client.CoreV1().Services(ns).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "gc deletes the slice", func() error { return countSlices(t, client, ns, 0) })
	checkRollout(t, client, ns)
	if err := client.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespace deletes the namespace", func() error {
		_, err := client.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v", err)
	})
}

// checkRollout: a Deployment gets a ReplicaSet, that a Pod, and a PodDisruptionBudget counts it.
func checkRollout(t *testing.T, client kubernetes.Interface, ns string) {
	ctx := t.Context()
	labels := map[string]string{"app": "rolled"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "rolled"}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}}}
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "rolled"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector, MinAvailable: &one}}
	if err := errors.Join(kube.Create(ctx, client.AppsV1().Deployments(ns), d), kube.Create(ctx, client.PolicyV1().PodDisruptionBudgets(ns), budget)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deployment and replicaset make a Pod", func() error {
		pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=rolled"})
		if err == nil && len(pods.Items) != 1 {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
	eventually(t, "disruption counts it", func() error {
		b, err := client.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, "rolled", metav1.GetOptions{})
		if err == nil && b.Status.ExpectedPods != 1 {
			err = fmt.Errorf("its status is %+v", b.Status)
		}
		return err
	})
}

func countSlices(t *testing.T, client kubernetes.Interface, ns string, want int) error {
	slices, err := client.DiscoveryV1().EndpointSlices(ns).List(t.Context(), metav1.ListOptions{})
	if err == nil && len(slices.Items) != want {
		err = fmt.Errorf("there are %d", len(slices.Items))
	}
	return err
}
