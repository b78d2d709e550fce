package e2e

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"isthmus/e2e/gateway"
	"isthmus/e2e/object"
)

// TestK3dShop: what the k3d demo deploys is taken by API servers, its Pods need no rights and are those that its Services
// select, and a gateway in west makes one service of the clusters that the federated Service names: the demo's other ones.
func TestK3dShop(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	servers := startClusters(t, []string{"namespace", "serviceaccount", "token"}, "west", "east")
	west, east := client(t, servers[0]), client(t, servers[1])
	must(t, west.Apply(ctx, object.Namespace("linkerd")))
	must(t, east.Apply(ctx, object.Namespace("linkerd-multicluster")))
	applyManifest(t, west, "install/rbac.yaml")
	apply(t, east, build(t, manifest(t, "link")))
	linkTo(t, west, east, servers[1])

	shop, federated := build(t, manifest(t, "k3d/shop")), build(t, manifest(t, "k3d/federated"))
	apply(t, west, shop)
	apply(t, west, federated)
	apply(t, east, shop)
	must(t, west.Apply(ctx, restricted("strict")))
	for name, d := range map[string]*appsv1.Deployment{
		"web": find[appsv1.Deployment](t, shop, "Deployment", "web"), "client": find[appsv1.Deployment](t, federated, "Deployment", "client"),
	} {
		template := d.Spec.Template
		template.Spec.ServiceAccountName = ""
		_, err := west.CoreV1().Pods("strict").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-admitted", Labels: template.Labels}, Spec: template.Spec,
		}, metav1.CreateOptions{})
		must(t, err)
	}
	web := find[corev1.Service](t, shop, "Service", "web")
	if pods := find[appsv1.Deployment](t, shop, "Deployment", "web").Spec.Template.Labels; !labels.SelectorFromSet(web.Spec.Selector).Matches(labels.Set(pods)) {
		t.Errorf("Service web selects %v, not %v", web.Spec.Selector, pods)
	}
	const members = "multicluster.linkerd.io/remote-discovery"
	if got := named(t, federated, "Service", "web-federated").GetAnnotations()[members]; got != "web@east,web@north" {
		t.Errorf("%s is %q", members, got)
	}

	must(t, west.Apply(ctx, object.Pod("shop", "web-0", "web"), object.Slice("shop", "web", "1", object.PodEndpoint("10.41.0.9", "shop", "web-0"))))
	must(t, east.Apply(ctx, object.Pod("shop", "web-0", "web"), object.Slice("shop", "web", "1", object.PodEndpoint("10.42.0.9", "shop", "web-0"))))
	g := startGateway(t, gateway.Config{Kubeconfig: gatewayKubeconfig(t, west)})
	awaitReady(t, g, "east")
	awaitShop(t, openShop(t, g), "10.41.0.9", "10.42.0.9")
}
