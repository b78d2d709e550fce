package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/kube"
	"isthmus/internal/guard"
	"isthmus/internal/text"
)

// Cluster is a cluster in which commands find replicas and write links. Methods of Cluster are safe
// for concurrent use.
type Cluster struct {
	Context string        // the kubeconfig context; empty for the cluster of this Pod
	API     *kube.Clients // guarded; see [Guard]
	options Options
	config  *rest.Config
	close   func() // closes the idle connections of API

	lifetime context.Context // ends the forwarders
	end      context.CancelFunc

	mu         sync.Mutex
	forwarders map[string]*forwarder // by NAMESPACE/NAME:PORT
}

// Clients returns clients for an API server, and a function that closes their idle connections.
// Calling Clients does not send a request.
func Clients(config *rest.Config) (*kube.Clients, func(), error) {
	config = rest.CopyConfig(config)
	config.UserAgent = cmp.Or(config.UserAgent, kube.UserAgent()) // rest.HTTPClientFor sets no default
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	api, err := kube.NewTyped(config, http)
	return api, func() { utilnet.CloseIdleConnectionsFor(http.Transport) }, err
}

// Config returns the client configuration of the cluster, including credentials. Clients themselves
// must limit the number of elements in protobuf responses, because [guard.Sized] limits only the
// size of responses.
func (c *Cluster) Config() *rest.Config {
	config := rest.CopyConfig(c.config)
	config.WrapTransport = guard.Sized
	return config
}

// String returns the name of the API server, for messages.
func (c *Cluster) String() string {
	if c.Context == "" {
		return "the API server of this Pod's cluster"
	}
	return "the API server of context " + text.Quoted(c.Context)
}

// These labels identify replicas.
const (
	besideLinkerd  = "app.kubernetes.io/name=isthmus"                 // of replicas that run beside Linkerd
	inLinkerdPlace = "linkerd.io/control-plane-component=destination" // of replicas in place of Linkerd's controller
)

var selectors = []string{besideLinkerd, inLinkerdPlace}

const maxPods = 200

// NoReplica reports that no replica can be queried, because none exists or none is ready.
type NoReplica struct{ error }

func (e NoReplica) Unwrap() error { return e.error }

// Replicas returns the ready replicas, sorted by name, followed by the replicas that may still
// become ready. If no replica is ready, the error is a [NoReplica]. If a replica is not ready, its
// NotReady field contains the reason. Replicas omits Pods that are terminating or have terminated.
// If the options name a Pod, Replicas returns only this Pod, even if the Pod is not ready.
func (c *Cluster) Replicas(ctx context.Context) ([]Replica, error) {
	if c.options.Pod != "" {
		return c.named(ctx)
	}
	pods, err := c.labeled(ctx, c.options.Namespace)
	if err != nil {
		return nil, c.explain(err, "list Pods", "list pods")
	}
	if len(pods) == 0 {
		return nil, NoReplica{c.noPods(ctx)}
	}
	var ready, waiting []Replica
	var others []string
	for i := range pods {
		g := c.replica(&pods[i])
		if g.NotReady = notReady(&pods[i]); g.NotReady == "" {
			ready = append(ready, g)
			continue
		}
		others = append(others, pods[i].Name+" ("+g.NotReady+")")
		if g.NotReady = text.Quoted(g.NotReady); !ends(&pods[i]) {
			waiting = append(waiting, g)
		}
	}
	if len(ready) == 0 {
		return nil, NoReplica{fmt.Errorf("no replica in namespace %s is ready: %s\n"+
			"  Use --pod to query a replica that is not ready",
			text.Quoted(c.options.Namespace), some(others))}
	}
	return append(ready, waiting...), nil
}

// labeled returns the replicas among the Pods in a namespace, sorted by name. If any Pod has the
// label besideLinkerd, a Pod with the label inLinkerdPlace is a replica only if it runs an Isthmus
// image.
func (c *Cluster) labeled(ctx context.Context, namespace string) ([]v1.Pod, error) {
	pods, err := c.pods(ctx, namespace, besideLinkerd)
	if err != nil {
		return nil, err
	}
	others, err := c.pods(ctx, namespace, inLinkerdPlace)
	if err != nil {
		return nil, err
	}
	if own := pods; len(own) > 0 {
		others = slices.DeleteFunc(others,
			func(other v1.Pod) bool { return labeledIsthmus(&other) || !runsIsthmus(&other, own) })
	}
	pods = append(pods, others...)
	slices.SortFunc(pods, func(a, b v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	pods = slices.CompactFunc(pods, func(a, b v1.Pod) bool { return a.Name == b.Name })
	return pods[:min(len(pods), maxPods)], nil
}

func (c *Cluster) pods(ctx context.Context, namespace, selector string) ([]v1.Pod, error) {
	list, err := c.API.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxPods})
	if err != nil {
		return nil, err
	}
	return list.Items[:min(len(list.Items), maxPods)], nil
}

// noPods returns the error for a namespace without replicas. If the user may list Pods in all
// namespaces, the error names the namespaces that contain replicas.
func (c *Cluster) noPods(ctx context.Context) error {
	hint := "Choose another namespace with -n, or another cluster with " + c.options.contextFlag()
	var namespaces []string
	for _, selector := range selectors {
		if list, err := c.API.Pods(metav1.NamespaceAll).List(ctx,
			metav1.ListOptions{LabelSelector: selector, Limit: maxPods}); err == nil {
			for _, p := range list.Items {
				namespaces = append(namespaces, p.Namespace)
			}
		}
	}
	if len(namespaces) > 0 {
		slices.Sort(namespaces)
		hint = "Such Pods exist in namespace " + some(slices.Compact(namespaces)) + ": choose it with -n"
	}
	return fmt.Errorf("no replica in namespace %s according to %s: no Pod has the label %s\n  %s",
		text.Quoted(c.options.Namespace), c, strings.Join(selectors, " or "), hint)
}

func (c *Cluster) named(ctx context.Context) ([]Replica, error) {
	o := c.options
	pod, err := c.API.Pods(o.Namespace).Get(ctx, o.Pod, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		hint := "Choose another namespace with -n"
		if pods, err := c.labeled(ctx, o.Namespace); err == nil && len(pods) > 0 {
			var names []string
			for _, p := range pods {
				names = append(names, p.Name)
			}
			hint = "Replicas in this namespace: " + some(names)
		}
		return nil, fmt.Errorf("no Pod %s in namespace %s according to %s\n  %s",
			text.Quoted(o.Pod), text.Quoted(o.Namespace), c, hint)
	case err != nil:
		return nil, c.explain(err, "read Pods", "get pods")
	}
	return []Replica{c.replica(pod)}, nil
}

func (c *Cluster) replica(pod *v1.Pod) Replica {
	g := Replica{Namespace: pod.Namespace, Name: pod.Name, AdminPort: defaultAdmin, GRPCPort: defaultGRPC, cluster: c}
	if own := replicaContainer(pod); own != nil {
		g.AdminPort = portNamed(own, adminNames, defaultAdmin)
		g.GRPCPort = portNamed(own, grpcNames, defaultGRPC)
	}
	return g
}

// The forward method reuses the existing forwarder for a port, or starts a new one if there is no
// usable forwarder.
func (c *Cluster) forward(ctx context.Context, pod Replica, port int) (*forwarder, error) {
	key := fmt.Sprintf("%s/%s:%d", pod.Namespace, pod.Name, port)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.lifetime.Err(); err != nil {
		return nil, err
	}
	f := c.forwarders[key]
	if f != nil && !f.over() {
		return f, nil
	}
	f, err := newForwarder(ctx, pod, port)
	if err == nil {
		c.forwarders[key] = f
	}
	return f, err
}

// Close closes the connections that [Replica.Dial] returned, and idle connections to the API
// server.
func (c *Cluster) Close() {
	c.end()
	c.close()
}

// explain returns an error that says what a failed request was for, and how to fix the problem.
// explain returns context errors unchanged.
func (c *Cluster) explain(err error, does, right string) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s rejects the credentials in the kubeconfig\n  Log in again, or choose another "+
			"context with %s", c, c.options.contextFlag())
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s does not allow you to %s: %s\n"+
			"  You need permission to %s in namespace %s. docs/operations.md contains a suitable Role",
			c, does, text.Quoted(err.Error()), right, text.Quoted(c.options.Namespace))
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return fmt.Errorf("%s does not %s: %s", c, does, text.Quoted(status.ErrStatus.Message))
	}
	if invalid, _ := guard.Certificate(err); invalid != "" {
		return fmt.Errorf("the certificate of %s is not valid: %s\n  Correct the server or its certificate "+
			"authority in the kubeconfig, or choose another context with %s", c, invalid,
			c.options.contextFlag())
	}
	if failed, ok := errors.AsType[*url.Error](err); ok { // drop the request, which does not help the user
		err = failed.Err
	}
	return fmt.Errorf("%s does not respond: %s\n  Check that it is reachable, or choose another cluster with %s%s", c,
		text.Quoted(err.Error()), c.options.contextFlag(),
		c.options.straight("; to connect to a replica directly, use "))
}
