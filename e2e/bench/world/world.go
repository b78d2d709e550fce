package world

import (
	"context"
	"fmt"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/object"
)

// Namespace is where all Services are.
const Namespace = "bench"

// Names are the clusters' names; the first is the one that the measured server is local to.
var Names = []string{"west", "east", "north"}

// Scale is how much there is in each cluster.
type Scale struct {
	Web, WebPods int // Services with many Pods, and the Pods of each
	App, AppPods int // Services with few; Web*WebPods and App*AppPods are the same Pods
}

// Pods returns the number of Pods in each cluster.
func (s Scale) Pods() int { return s.Web * s.WebPods }

// Web returns the name of a Service with many Pods.
func Web(i int) string { return fmt.Sprintf("web-%04d", i) }

// App returns the name of a Service with few Pods.
func App(i int) string { return fmt.Sprintf("app-%04d", i) }

// Federated returns the name of the Service that joins those of a name.
func Federated(name string) string { return name + "-all" }

// Authority returns what a proxy asks for to reach a Service.
func Authority(service string) string { return object.Authority(Namespace, service) }

// World is the filled clusters. Different Services' slices may be flipped at the same time.
type World struct {
	clusters []*member
}

// member is one cluster.
type member struct {
	name       string
	number     byte // the second of its addresses' four
	kubeconfig string
	client     kubernetes.Interface

	mu     sync.Mutex
	slices map[string]*discoveryv1.EndpointSlice // by Service
	opaque map[string]bool                       // Services whose port is
}

// New returns the world of these kubeconfigs, one for each of Names. Nothing is asked or written yet.
func New(kubeconfigs []string) (*World, error) {
	if len(kubeconfigs) != len(Names) {
		return nil, fmt.Errorf("%d kubeconfigs for %d clusters", len(kubeconfigs), len(Names))
	}
	w := &World{}
	for i, path := range kubeconfigs {
		cfg, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", Names[i], err)
		}
		client, err := NewClient(cfg)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", Names[i], err)
		}
		w.clusters = append(w.clusters, &member{
			name: Names[i], number: byte(i + 1), kubeconfig: path, client: client, slices: map[string]*discoveryv1.EndpointSlice{}, opaque: map[string]bool{},
		})
	}
	return w, nil
}

// NewClient returns a client that is not slowed down and costs little.
func NewClient(cfg *rest.Config) (kubernetes.Interface, error) {
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(cfg)
}

// Kubeconfig returns the path of the kubeconfig of the cluster that the measured server is local to.
func (w *World) Kubeconfig() string { return w.clusters[0].kubeconfig }

// Load reads the slices and Services, which Flip and FlipProfile need to know.
func (w *World) Load(ctx context.Context) error {
	for _, m := range w.clusters {
		list, err := m.client.DiscoveryV1().EndpointSlices(Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("cluster %s: %w", m.name, err)
		}
		services, err := m.client.CoreV1().Services(Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("cluster %s: %w", m.name, err)
		}
		m.mu.Lock()
		for _, s := range services.Items {
			_, m.opaque[s.Name] = s.Annotations[object.OpaquePorts]
		}
		for i := range list.Items {
			m.slices[list.Items[i].Labels[discoveryv1.LabelServiceName]] = &list.Items[i]
		}
		m.mu.Unlock()
	}
	return nil
}

// Flip takes one endpoint of a Service in a cluster away, or brings it back if that has been done, and returns when the API
// server had answered. Only one goroutine at a time may flip the same Service.
func (w *World) Flip(ctx context.Context, cluster int, service string) (at time.Time, err error) {
	m := w.clusters[cluster]
	m.mu.Lock()
	old := m.slices[service]
	m.mu.Unlock()
	if old == nil {
		return at, fmt.Errorf("cluster %s has no slice of %s", m.name, service)
	}
	slice := old.DeepCopy()
	flipped := &slice.Endpoints[len(slice.Endpoints)/2].Conditions
	ready := !*flipped.Ready
	flipped.Ready = &ready
	if slice, err = m.client.DiscoveryV1().EndpointSlices(Namespace).Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
		return at, fmt.Errorf("cluster %s: %w", m.name, err)
	}
	at = time.Now()
	m.mu.Lock()
	m.slices[service] = slice
	m.mu.Unlock()
	return at, nil
}

// FlipProfile makes a Service's port opaque, or plain again if that has been done, which changes its profile but no
// endpoint, and returns when the API server had answered. Only one goroutine at a time may flip the same Service.
func (w *World) FlipProfile(ctx context.Context, cluster int, service string) (at time.Time, err error) {
	m := w.clusters[cluster]
	m.mu.Lock()
	opaque := !m.opaque[service]
	m.mu.Unlock()
	value := "null"
	if opaque {
		value = fmt.Sprintf("%q", fmt.Sprint(object.ServicePort))
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, object.OpaquePorts, value)
	if _, err := m.client.CoreV1().Services(Namespace).Patch(ctx, service, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return at, fmt.Errorf("cluster %s: %w", m.name, err)
	}
	at = time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opaque[service] = opaque
	return at, nil
}
