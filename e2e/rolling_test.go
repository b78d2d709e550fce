package e2e

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/e2e/kube"
	"isthmus/e2e/node"
	"isthmus/e2e/object"
	"isthmus/e2e/poll"
	"isthmus/e2e/program"
)

var long = flag.Bool("long", false, "rolling updates: ten with the times of the manifests, rather than two with a tenth of these")

// either returns what goes with the form in which rolling updates are played.
func either[T any](short, lasting T) T {
	if *long {
		return lasting
	}
	return short
}

var rollingNodes = []string{"node-1", "node-2"}

// rollout is a Deployment of gateways that is updated while proxies use it.
type rollout struct {
	name       string // of the case
	deployment *appsv1.Deployment
	others     []*unstructured.Unstructured // that are applied with it
	container  string
	service    string // the headless one
	subnet     string // of the Pods
	drained    bool   // there is a PodDisruptionBudget: the nodes are drained too

	world *rolling
	west  *kube.Client
	nodes *node.Nodes
	delay time.Duration
	drain time.Duration
	took  []time.Duration // of each update, until kubectl rollout status would end
}

// TestRollingUpdates updates the Deployments of manifests/install and of a Linkerd with the patch of manifests/linkerd, with two
// replicas each, while endpoints of two clusters change all the time, and then drains the nodes. Each second update goes back to
// the Pods of before the last one, as kubectl rollout undo does. Proxies never miss anything.
func TestRollingUpdates(t *testing.T) {
	t.Parallel()
	w := newRolling(t, restricted("isthmus"), object.Namespace("linkerd"))
	cases := []*rollout{ownRollout(t), linkerdRollout(t)}
	t.Run("group", func(t *testing.T) { // so that the world lasts as long as they do
		for _, r := range cases {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				r.world, r.west = w, w.clients["west"]
				r.play(t)
			})
		}
	})
}

func ownRollout(t *testing.T) *rollout {
	objects := build(t, overlay(t, kustomization{Resources: []string{"install"}, Namespace: "isthmus"}, nil))
	return newRollout(t, &rollout{name: "install", container: "isthmus", service: "isthmus", subnet: "10.244.1", drained: true}, objects, "isthmus")
}

// linkerdRollout has two replicas, of which one goes before there is another: so the chart's HA values have it, with three.
func linkerdRollout(t *testing.T) *rollout {
	rights, err := os.ReadFile("testdata/linkerd/rights.yaml")
	must(t, err)
	granted, err := kube.Parse(string(rights))
	must(t, err)
	r := newRollout(t, &rollout{name: "linkerd", container: "destination", service: "linkerd-dst-headless", subnet: "10.244.2"},
		slices.Concat(granted, patched(t, "plain")), "linkerd-destination")
	one := intstr.FromInt32(1)
	r.deployment.Spec.Replicas = new(int32(2))
	r.deployment.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &one, MaxSurge: &one}}
	return r
}

// newRollout takes the Deployment out of objects. In the short form its times are a tenth; its grace stays.
func newRollout(t *testing.T, r *rollout, objects []*unstructured.Unstructured, name string) *rollout {
	t.Helper()
	r.deployment = find[appsv1.Deployment](t, objects, "Deployment", name)
	r.others = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	containers := r.deployment.Spec.Template.Spec.Containers
	c := &containers[slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == r.container })]
	r.delay, r.drain = duration(t, c.Args, "shutdown-delay"), duration(t, c.Args, "drain")
	if !*long {
		r.delay, r.drain = r.delay/10, r.drain/10
		c.Args = append(c.Args, fmt.Sprintf("--shutdown-delay=%v", r.delay), fmt.Sprintf("--drain=%v", r.drain))
		r.deployment.Spec.MinReadySeconds /= 10
		c.ReadinessProbe.PeriodSeconds = 1
	}
	return r
}

// play runs the Deployment with proxies, updates it, and checks what they have seen.
func (r *rollout) play(t *testing.T) {
	binary, err := program.Isthmus.Path(t.Context())
	must(t, err)
	namespace := r.deployment.Namespace
	r.nodes = node.New(node.Config{Client: r.west, CA: r.world.servers["west"].REST().CAData, Nodes: rollingNodes, Namespace: namespace,
		Selector: metav1.FormatLabelSelector(r.deployment.Spec.Selector), Container: r.container, Service: r.service, Subnet: r.subnet,
		Binary: binary, Dir: t.TempDir()})
	r.keepRunning(t)
	apply(t, r.west, r.others)
	must(t, r.west.Apply(t.Context(), r.deployment))
	r.await(t, "the Deployment is there", func() error { return r.complete(t) })
	proxies := r.world.startProxies(t, r.nodes.Records(), either(3*time.Second, 30*time.Second), either(36, 240))
	first := len(r.world.made())
	for i := range either(2, 10) {
		r.update(t, i)
	}
	r.await(t, "the Pods of before have ended", func() error { return r.quiet(t) })
	if r.drained {
		r.drainNodes(t)
	}
	last := len(r.world.made()) + rollingProfiles
	for _, p := range proxies {
		r.await(t, p.name+" proxy has seen the last change", func() error { return p.settled(last) })
	}
	f := r.figures(proxies, first, last)
	t.Log(f)
	f.check(t)
	must(t, r.nodes.Err())
	for i, p := range proxies {
		if err := p.faults(r.serves()); err != nil {
			t.Errorf("proxy %d, %v", i, err)
		}
	}
}

// await waits for longer than a Pod may take to end.
func (r *rollout) await(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := poll.Until(t.Context(), 5*time.Minute, 50*time.Millisecond, check); err != nil {
		t.Fatalf("%s: %v; %v", what, err, r.nodes.Err())
	}
}

// update changes what the Pods are made from, and returns when kubectl rollout status would: Pods of before may still end.
func (r *rollout) update(t *testing.T, i int) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"%c"}}}}}`, "ab"[i%2])
	_, err := r.west.AppsV1().Deployments(r.deployment.Namespace).Patch(t.Context(), r.deployment.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
	began := time.Now()
	r.await(t, "the update is complete", func() error { return r.complete(t) })
	r.took = append(r.took, time.Since(began))
}

// complete returns an error as long as kubectl rollout status waits.
func (r *rollout) complete(t *testing.T) error {
	d, err := r.west.AppsV1().Deployments(r.deployment.Namespace).Get(t.Context(), r.deployment.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s, want := d.Status, *d.Spec.Replicas
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
		return fmt.Errorf("its status is %+v", s)
	}
	return nil
}

// quiet returns an error while there are more Pods than the Deployment asks for, or any that ends.
func (r *rollout) quiet(t *testing.T) error {
	pods, err := r.west.CoreV1().Pods(r.deployment.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(r.deployment.Spec.Selector)})
	if err != nil {
		return err
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil || p.Status.PodIP == "" {
			return fmt.Errorf("Pod %s ends or begins", p.Name)
		}
	}
	return nil
}

// drainNodes evicts one Pod after the other, as kubectl drain of both nodes at the same time does: the second is refused until
// there is another Pod in the place of the first.
func (r *rollout) drainNodes(t *testing.T) {
	t.Helper()
	ctx, namespace := t.Context(), r.deployment.Namespace
	pods, err := r.west.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(r.deployment.Spec.Selector)})
	must(t, err)
	if len(pods.Items) != 2 || pods.Items[0].Spec.NodeName == pods.Items[1].Spec.NodeName {
		t.Fatalf("the Pods are %+v, not one on each node", pods.Items)
	}
	evict := func(i int) error {
		return r.west.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods.Items[i].Name, Namespace: namespace}})
	}
	r.await(t, "a Pod is evicted", func() error { return evict(0) })
	if err := evict(1); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the eviction of both Pods is not refused: %v", err)
	}
	r.await(t, "the other Pod is evicted", func() error { return evict(1) })
	r.await(t, "there are two Pods again", func() error { return r.complete(t) })
	r.await(t, "the Pods of before have ended", func() error { return r.quiet(t) })
}
