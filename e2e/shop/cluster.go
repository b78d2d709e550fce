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

// Controllers are those of a real cluster that the shop needs.
var Controllers = []string{"namespace", "serviceaccount", "token", "endpointslice", "gc", "deployment", "replicaset"}

const (
	// Namespace is where the shop is, in every cluster.
	Namespace = "shop"
	// Port is what the shop's containers listen on.
	Port = 8080

	// waitLimit bounds how long what a cluster does by itself may take.
	waitLimit = time.Minute
)

// Cluster is a running cluster that the shop is in, or will be, and an administrator's client of it. Its methods may be
// called from several goroutines.
type Cluster struct {
	*kube.Client
	subnet byte // its Pods have addresses of 10.subnet.0.0/16

	mu      sync.Mutex
	lastPod int            // the number that the newest Pod's address is made of
	placed  map[string]int // Pods that have got a node, by Deployment
	started time.Time      // when a Pod was last made ready
	lost    error          // why Run does not follow the cluster at the moment
}

// New returns the cluster behind an administrator's client configuration. Its Pods will have addresses of
// 10.subnet.0.0/16. It sends nothing yet. Close comes after the end of Run.
func New(name string, subnet byte, admin *rest.Config) (*Cluster, error) {
	client, err := kube.NewClient(name, admin)
	if err != nil {
		return nil, err
	}
	return &Cluster{Client: client, subnet: subnet}, nil
}

// zone is an availability zone, with one node in it.
type zone struct{ Name, Node string }

func (c *Cluster) zones() []zone {
	var zones []zone
	for _, letter := range []string{"a", "b"} {
		zones = append(zones, zone{Name: c.Name + "-1" + letter, Node: c.Name + "-node-" + letter})
	}
	return zones
}

// Node returns the name of one of the cluster's nodes.
func (c *Cluster) Node() string { return c.zones()[0].Node }

// Deploy writes the shop with so many Pods of each Deployment. It returns when
// they are ready, for which Run must run, and in their Services' EndpointSlices.
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

// Mirror writes what the service mirror would write into the gateway's own
// cluster: the Services web-federated and cart-east.
func (c *Cluster) Mirror(ctx context.Context) error { return c.apply(ctx, "mirrors.yaml", nil) }

// Prefer sets annotations of the Service web: the empty value removes one. In the gateway's own
// cluster web-federated gets them too, since the service mirror copies the annotations of its
// oldest member. It returns when that was written.
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

// annotationPatch is a merge patch; empty values remove annotations.
func annotationPatch(annotations map[string]string) ([]byte, error) {
	values := map[string]any{}
	for name, value := range annotations {
		if values[name] = value; value == "" {
			values[name] = nil
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
}

// Scale changes how many Pods a Deployment has. It returns when they are there,
// or gone, and returns when the last of them became ready, or else when that was asked for.
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

// Ready returns the addresses of a Deployment's ready Pods.
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

// wait tries until it works, at most for waitLimit.
func wait(ctx context.Context, try func() error) error {
	return harness.Poll(ctx, waitLimit, 20*time.Millisecond, try)
}

// Run stands in for the scheduler and the nodes until ctx ends. It takes up again what it did when
// an API server was away.
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

// follow does what each Pod waits for, those that there are first, until that fails.
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

// advance brings a Pod to what comes next: a node, an address, or its end. Then it is seen again.
func (c *Cluster) advance(ctx context.Context, pod *corev1.Pod) error {
	c.seen(pod)
	pods := c.CoreV1().Pods(Namespace)
	switch {
	case pod.DeletionTimestamp != nil: // it had its time to end
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

// start gives a Pod an address and makes it ready.
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

// nextNode returns the node of a Deployment's next Pod: they take turns.
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

// seen notes a Pod's address, so that no later one gets it.
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

// nextAddr returns an address that no Pod has had.
func (c *Cluster) nextAddr() netip.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastPod++
	n := c.lastPod - 1
	return netip.AddrFrom4([4]byte{10, c.subnet, byte(n / 250), byte(n%250 + 1)})
}

// account is a ServiceAccount together with the template that grants it its
// rights.
type account struct{ namespace, name, grants string }

var (
	gatewayAccount = account{"linkerd", "linkerd-destination", "gateway.yaml"}
	remoteAccount  = account{
		"linkerd-multicluster",
		"linkerd-service-mirror-remote-access-default",
		"remote-access.yaml",
	}
)

// GatewayAccess lets the gateway into its own cluster and returns its
// kubeconfig.
func (c *Cluster) GatewayAccess(ctx context.Context) ([]byte, error) {
	return c.access(ctx, gatewayAccount, gatewayAccount.name+"-token")
}

// RemoteAccess lets the gateway of another cluster in, to read what Linkerd
// grants, and returns a kubeconfig to link this cluster by. Its token lasts
// until Revoke with the same name.
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

// Revoke takes a token away and returns when the API server refuses it, which
// takes about ten seconds: it remembers tokens that it has found good.
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

// Link links another cluster to this one by a kubeconfig, or changes the
// kubeconfig of one that is linked.
func (c *Cluster) Link(ctx context.Context, remote string, kubeconfig []byte) error {
	return c.Apply(ctx, kube.Link(remote, kubeconfig))
}

// AnnotateLink sets annotations of another cluster's link: the empty value removes one. It returns when it wrote them.
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

// Unlink undoes Link.
func (c *Cluster) Unlink(ctx context.Context, remote string) error {
	err := c.CoreV1().Secrets(kube.LinkNamespace).Delete(ctx, kube.LinkName(remote), metav1.DeleteOptions{})
	if err != nil {
		return fmt.Errorf("cluster %s: unlink %s: %w", c.Name, remote, err)
	}
	return nil
}

// LinkerdGateway is one of the gateways by which others reach the cluster's Services.
type LinkerdGateway struct {
	Name  string         // of its Service
	Addr  netip.AddrPort // of its load balancer
	Probe uint16         // the port at that address where it answers probes
}

// Gateways writes gateways of the cluster. It has to be linked already.
func (c *Cluster) Gateways(ctx context.Context, list ...LinkerdGateway) error {
	return c.apply(ctx, "linkerd-gateway.yaml", list)
}

// Export exports a Service of the shop by a ServiceExport.
func (c *Cluster) Export(ctx context.Context, service string) error {
	return c.ApplyYAML(ctx, fmt.Sprintf(
		"{apiVersion: %s, kind: ServiceExport, metadata: {name: %s, namespace: %s}}",
		mcs.GroupVersion,
		service,
		Namespace,
	))
}

// ImportIP waits for the first IP of a ServiceImport.
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

// apply writes the objects of a template.
func (c *Cluster) apply(ctx context.Context, name string, data any) error {
	var text strings.Builder
	if err := objects.ExecuteTemplate(&text, name, data); err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	return c.ApplyYAML(ctx, text.String())
}
