package shop

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// Controllers are the Kubernetes controllers that the shop needs.
var Controllers = []string{"namespace", "serviceaccount", "token", "endpointslice", "gc", "deployment", "replicaset"}

const (
	// Namespace is the namespace of the shop in every cluster.
	Namespace = "shop"
	// Port is the container port of the shop.
	Port = 8080

	waitLimit = time.Minute
)

// Cluster is a running cluster for the shop, together with an administrator's client. All methods
// are safe for concurrent use.
type Cluster struct {
	*kube.Client
	subnet byte // Pod addresses are in 10.subnet.0.0/16

	mu      sync.Mutex
	lastPod int            // number of the last assigned Pod address
	placed  map[string]int // number of scheduled Pods by Deployment
	started time.Time      // time at which the last Pod became ready
	lost    error          // current error of Run
}

// New returns a Cluster that uses an administrator's client configuration. Pod addresses are in
// 10.subnet.0.0/16. New does not send requests. Run must have ended before Close.
func New(name string, subnet byte, admin *rest.Config) (*Cluster, error) {
	client, err := kube.NewClient(name, admin)
	if err != nil {
		return nil, err
	}
	return &Cluster{Client: client, subnet: subnet}, nil
}

type zone struct{ Name, Node string }

func (c *Cluster) zones() []zone {
	var zones []zone
	for _, letter := range []string{"a", "b"} {
		zones = append(zones, zone{Name: c.Name + "-1" + letter, Node: c.Name + "-node-" + letter})
	}
	return zones
}

// Node returns the name of a node in the cluster.
func (c *Cluster) Node() string { return c.zones()[0].Node }

// Deploy writes the shop with the given number of Pods per Deployment. It waits until all Pods are
// ready and in the EndpointSlices of their Services. It only works while Run is running.
func (c *Cluster) Deploy(ctx context.Context, web, cart int) error {
	type deployment struct {
		Name     string
		Replicas int
	}
	deployments := []deployment{{"web", web}, {"cart", cart}}
	if err := c.apply(ctx, "shop.yaml", map[string]any{
		"Cluster": c.Name, "Zones": c.zones(), "Deployments": deployments,
	}); err != nil {
		return err
	}
	for _, d := range deployments {
		if err := c.awaitReady(ctx, d.Name, d.Replicas); err != nil {
			return err
		}
		if err := c.awaitSlices(ctx, d.Name, d.Replicas); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) awaitSlices(ctx context.Context, service string, endpoints int) error {
	err := wait(ctx, func() error {
		slices, err := c.DiscoveryV1().EndpointSlices(Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + service,
		})
		if err != nil {
			return err
		}
		ready := 0
		for _, slice := range slices.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					ready++
				}
			}
		}
		if ready != endpoints {
			return fmt.Errorf("%d ready endpoints instead of %d", ready, endpoints)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cluster %s: EndpointSlices of Service %s: %w", c.Name, service, err)
	}
	return nil
}

// Mirror writes the Services of Linkerd's service mirror, web-federated and cart-east, to the local
// cluster.
func (c *Cluster) Mirror(ctx context.Context) error { return c.apply(ctx, "mirrors.yaml", nil) }

// Prefer sets annotations on the Service web and returns the time of the write. An empty value
// removes an annotation. In the local cluster, Prefer also updates web-federated, because the
// service mirror copies the annotations from the oldest member.
func (c *Cluster) Prefer(ctx context.Context, annotations map[string]string) (time.Time, error) {
	patch, err := annotationPatch(annotations)
	if err != nil {
		return time.Time{}, err
	}
	var at time.Time
	for _, name := range []string{"web", "web-federated"} {
		at = time.Now()
		if _, err := c.CoreV1().Services(Namespace).Patch(
			ctx,
			name,
			types.MergePatchType,
			patch,
			metav1.PatchOptions{},
		); err != nil {
			return time.Time{}, fmt.Errorf("cluster %s: annotate Service %s: %w", c.Name, name, err)
		}
	}
	return at, nil
}

// annotationPatch returns a merge patch. Empty values remove annotations.
func annotationPatch(annotations map[string]string) ([]byte, error) {
	values := map[string]any{}
	for name, value := range annotations {
		if values[name] = value; value == "" {
			values[name] = nil
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
}

// Scale sets the number of Pods for a Deployment and waits until they have started or terminated.
// It returns the time at which the last Pod became ready, or the time of the call if no Pod
// started.
func (c *Cluster) Scale(ctx context.Context, deployment string, replicas int) (time.Time, error) {
	patch, asked := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), time.Now()
	_, err := c.AppsV1().
		Deployments(Namespace).
		Patch(ctx, deployment, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("cluster %s: scale %s: %w", c.Name, deployment, err)
	}
	if err := c.awaitReady(ctx, deployment, replicas); err != nil {
		return time.Time{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started.After(asked) {
		return c.started, nil
	}
	return asked, nil
}

func (c *Cluster) awaitReady(ctx context.Context, deployment string, replicas int) error {
	err := wait(ctx, func() error {
		pods, err := c.pods(ctx, deployment)
		if err != nil {
			return err
		}
		if ready := readyAddrs(pods); len(ready) != replicas || len(pods) != replicas {
			return fmt.Errorf("%d Pods, %d of them ready, instead of %d", len(pods), len(ready), replicas)
		}
		return nil
	})
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return errors.Join(fmt.Errorf("cluster %s: Deployment %s: %w", c.Name, deployment, err), c.lost)
	}
	return nil
}

// Ready returns the addresses of the ready Pods in a Deployment.
func (c *Cluster) Ready(ctx context.Context, deployment string) ([]netip.AddrPort, error) {
	pods, err := c.pods(ctx, deployment)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return readyAddrs(pods), nil
}

func (c *Cluster) pods(ctx context.Context, deployment string) ([]corev1.Pod, error) {
	list, err := c.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + deployment})
	if err != nil {
		return nil, fmt.Errorf("list the Pods of %s: %w", deployment, err)
	}
	return list.Items, nil
}

func readyAddrs(pods []corev1.Pod) []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, pod := range pods {
		if addr, err := netip.ParseAddr(pod.Status.PodIP); err == nil && pod.DeletionTimestamp == nil {
			addrs = append(addrs, netip.AddrPortFrom(addr, Port))
		}
	}
	return addrs
}

// wait retries until try succeeds, but at most for waitLimit.
func wait(ctx context.Context, try func() error) error {
	return harness.Poll(ctx, waitLimit, 20*time.Millisecond, try)
}

// Run simulates the scheduler and the nodes until ctx ends. It continues after an outage of the API
// server.
func (c *Cluster) Run(ctx context.Context) {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		err := c.follow(ctx)
		c.mu.Lock()
		c.lost = err
		c.mu.Unlock()
		select {
		case <-retry.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow advances all existing and new Pods until a request fails.
func (c *Cluster) follow(ctx context.Context) error {
	pods, err := c.CoreV1().Pods(Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch Pods: %w", err)
	}
	defer pods.Stop()
	for event := range pods.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("watch Pods: %w", apierrors.FromObject(event.Object))
		}
		if event.Type == watch.Deleted {
			continue
		}
		if err := c.advance(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("advance Pod %s: %w", pod.Name, err)
		}
	}
	return errors.New("the API server ended a watch")
}

// advance performs the next step for a Pod: assign a node, assign an address, or delete the Pod.
// The resulting watch event triggers the step after that.
func (c *Cluster) advance(ctx context.Context, pod *corev1.Pod) error {
	c.seen(pod)
	pods := c.CoreV1().Pods(Namespace)
	switch {
	case pod.DeletionTimestamp != nil: // it had time to terminate
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	case pod.Spec.NodeName == "":
		return pods.Bind(
			ctx,
			&corev1.Binding{
				ObjectMeta: pod.ObjectMeta,
				Target:     corev1.ObjectReference{Kind: "Node", Name: c.nextNode(pod.Labels["app"])},
			},
			metav1.CreateOptions{},
		)
	case pod.Status.PodIP == "":
		return c.start(ctx, pod)
	}
	return nil
}

func (c *Cluster) start(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.Now()
	addr := c.nextAddr().String()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: addr, PodIPs: []corev1.PodIP{{IP: addr}}, StartTime: &now,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	c.mu.Lock()
	c.started = time.Now()
	c.mu.Unlock()
	_, err := c.CoreV1().Pods(Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// nextNode returns the node for the next Pod of a Deployment. The Pods are distributed in turn over
// the nodes.
func (c *Cluster) nextNode(deployment string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.placed == nil {
		c.placed = map[string]int{}
	}
	zones := c.zones()
	node := zones[c.placed[deployment]%len(zones)].Node
	c.placed[deployment]++
	return node
}

func (c *Cluster) seen(pod *corev1.Pod) {
	addr, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !addr.Is4() {
		return
	}
	b := addr.As4()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastPod = max(c.lastPod, int(b[2])*250+int(b[3]))
}

func (c *Cluster) nextAddr() netip.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastPod++
	n := c.lastPod - 1
	return netip.AddrFrom4([4]byte{10, c.subnet, byte(n / 250), byte(n%250 + 1)})
}

// account is a ServiceAccount with the template that grants its permissions.
type account struct{ namespace, name, grants string }

var (
	gatewayAccount = account{"linkerd", "linkerd-destination", "gateway.yaml"}
	remoteAccount  = account{
		"linkerd-multicluster",
		"linkerd-service-mirror-remote-access-default",
		"remote-access.yaml",
	}
)

// GatewayAccess grants Isthmus access to its local cluster and returns a kubeconfig.
func (c *Cluster) GatewayAccess(ctx context.Context) ([]byte, error) {
	return c.access(ctx, gatewayAccount, gatewayAccount.name+"-token")
}

// RemoteAccess lets an Isthmus in another cluster read this cluster, with the permissions that
// Linkerd grants, and returns a kubeconfig for a link. The token is valid until Revoke with the
// same name.
func (c *Cluster) RemoteAccess(ctx context.Context, token string) ([]byte, error) {
	return c.access(ctx, remoteAccount, token)
}

func (c *Cluster) access(ctx context.Context, who account, token string) ([]byte, error) {
	if err := c.apply(ctx, who.grants, nil); err != nil {
		return nil, err
	}
	names := map[string]string{"Name": token, "Namespace": who.namespace, "Account": who.name}
	if err := c.apply(ctx, "token.yaml", names); err != nil {
		return nil, err
	}
	var secret *corev1.Secret
	err := wait(ctx, func() (err error) {
		secret, err = c.CoreV1().Secrets(who.namespace).Get(ctx, token, metav1.GetOptions{})
		if err == nil && len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
			err = errors.New("no token yet")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: Secret %s: %w", c.Name, token, err)
	}
	return c.Kubeconfig(c.Server(), clientcmdapi.AuthInfo{Token: string(secret.Data[corev1.ServiceAccountTokenKey])})
}

// Revoke deletes a token and waits until the API server rejects it. The API server caches valid
// tokens for about ten seconds.
func (c *Cluster) Revoke(ctx context.Context, token string) error {
	secrets := c.CoreV1().Secrets(remoteAccount.namespace)
	secret, err := secrets.Get(ctx, token, metav1.GetOptions{})
	if err == nil {
		err = secrets.Delete(ctx, token, metav1.DeleteOptions{})
	}
	if err != nil {
		return fmt.Errorf("cluster %s: revoke: %w", c.Name, err)
	}
	if err := wait(
		ctx,
		func() error { return c.Refuses(ctx, string(secret.Data[corev1.ServiceAccountTokenKey])) },
	); err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	return nil
}

// Link links a remote cluster with a kubeconfig, or updates the kubeconfig of an existing link.
func (c *Cluster) Link(ctx context.Context, remote string, kubeconfig []byte) error {
	return c.Apply(ctx, kube.Link(remote, kubeconfig))
}

// AnnotateLink sets annotations on the link to a cluster and returns the time of the write. An
// empty value removes an annotation.
func (c *Cluster) AnnotateLink(ctx context.Context, remote string, annotations map[string]string) (time.Time, error) {
	patch, err := annotationPatch(annotations)
	if err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	_, err = c.CoreV1().
		Secrets(kube.LinkNamespace).
		Patch(ctx, kube.LinkName(remote), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("cluster %s: annotate the link of %s: %w", c.Name, remote, err)
	}
	return at, nil
}

func (c *Cluster) Unlink(ctx context.Context, remote string) error {
	err := c.CoreV1().Secrets(kube.LinkNamespace).Delete(ctx, kube.LinkName(remote), metav1.DeleteOptions{})
	if err != nil {
		return fmt.Errorf("cluster %s: unlink %s: %w", c.Name, remote, err)
	}
	return nil
}

// LinkerdGateway is one of the cluster's multicluster gateways.
type LinkerdGateway struct {
	Name  string         // name of its Service
	Addr  netip.AddrPort // address of its load balancer
	Probe uint16         // port for probes at that address
}

// Gateways writes the Services of the cluster's multicluster gateways. The cluster must already be
// linked.
func (c *Cluster) Gateways(ctx context.Context, list ...LinkerdGateway) error {
	return c.apply(ctx, "linkerd-gateway.yaml", list)
}

// Export exports a Service of the shop with a ServiceExport.
func (c *Cluster) Export(ctx context.Context, service string) error {
	return c.ApplyYAML(ctx, fmt.Sprintf(
		"{apiVersion: %s, kind: ServiceExport, metadata: {name: %s, namespace: %s}}",
		mcs.GroupVersion,
		service,
		Namespace,
	))
}

// ImportIP waits until a ServiceImport has an IP and returns the first one.
func (c *Cluster) ImportIP(ctx context.Context, name string) (ip string, err error) {
	resource, _, err := c.ResourceNamed("serviceimport")
	if err != nil {
		return "", err
	}
	err = wait(ctx, func() error {
		o, err := c.In(resource, Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cluster %s: ServiceImport %s: %w", c.Name, name, err)
		}
		ips, _, err := unstructured.NestedStringSlice(o.Object, "spec", "ips")
		if err == nil && len(ips) == 0 {
			err = fmt.Errorf("cluster %s: ServiceImport %s has no IP", c.Name, name)
		}
		if err == nil {
			ip = ips[0]
		}
		return err
	})
	return ip, err
}

//go:embed objects/*.yaml
var objectFiles embed.FS

var objects = template.Must(template.New("").Option("missingkey=error").ParseFS(objectFiles, "objects/*.yaml"))

func (c *Cluster) apply(ctx context.Context, name string, data any) error {
	var text strings.Builder
	if err := objects.ExecuteTemplate(&text, name, data); err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	return c.ApplyYAML(ctx, text.String())
}
