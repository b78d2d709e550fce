package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"

	"isthmus/internal/text"
)

// The labels by which gateways are found: those of an install of its own, and of one
// in place of Linkerd's destination controller.
const (
	besideLinkerd  = "app.kubernetes.io/name=isthmus"
	inLinkerdPlace = "linkerd.io/control-plane-component=destination"
)

var selectors = []string{besideLinkerd, inLinkerdPlace}

// maxPods is how many Pods are read: more gateways than anyone runs.
const maxPods = 200

// Gateway is a Pod in which a gateway runs, or an address at which one does.
type Replica struct {
	Address             string // HOST:PORT; empty: it is a Pod
	Namespace, Name     string
	AdminPort, GRPCPort int // those that its container declares, or the default ones
	// NotReady is why the Pod is not ready, printable; empty: it is, or it was asked for by name.
	NotReady string
	cluster  *Cluster
}

// String returns the Address or NAMESPACE/NAME, printable.
func (g Replica) String() string {
	return text.Quoted(cmp.Or(g.Address, g.Namespace+"/"+g.Name))
}

// Dial connects to a port of the Pod through a port of this machine, or to the Address. The context
// only limits the dialling. The local port is open until the Cluster is closed. If a connection to a
// Pod fails, the error is a [BrokenError].
func (g Replica) Dial(ctx context.Context, port int) (net.Conn, error) {
	if g.Address != "" {
		return new(net.Dialer).DialContext(ctx, "tcp", g.Address)
	}
	f, err := g.cluster.forward(ctx, g, port)
	if err != nil {
		return nil, err
	}
	select {
	case <-f.ports.Ready:
	case <-f.ended:
		return nil, g.explain(f.err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ports, err := f.ports.GetPorts()
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprint("127.0.0.1:", ports[0].Local))
	if err != nil {
		return nil, f.explain(err)
	}
	return &Conn{conn, f}, nil
}

// explain returns an error for a Pod whose ports cannot be forwarded.
func (g Replica) explain(err error) error {
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		return broken
	}
	status := statusOf(err)
	switch {
	case status == nil && httpstream.IsUpgradeFailure(err):
		return fmt.Errorf("%s can't connect to Pod %s: %s\n  Is there something between here and the API server that "+
			"passes neither websockets nor SPDY?", g.cluster, g, text.Quoted(err.Error()))
	case status == nil:
		return g.cluster.explain(err, "forward ports of Pods", "create pods/portforward")
	case apierrors.IsNotFound(status):
		return fmt.Errorf("the Pod %s is gone\n  Ask again: another may have taken its place", g)
	case apierrors.IsForbidden(status), apierrors.IsUnauthorized(status):
		return g.cluster.explain(status, "forward ports of Pods", "create pods/portforward")
	}
	return fmt.Errorf("%s can't connect to Pod %s: %s\n"+
		"  It does so through the kubelet of the Pod's node: is that well? "+
		"--pod asks another gateway", g.cluster, g, text.Quoted(status.ErrStatus.Message))
}

// NoGateway is the error where no gateway can be asked: there is none, or none is ready.
type NoReplica struct{ error }

func (e NoReplica) Unwrap() error { return e.error }

// Gateways returns those that are ready, by name, at least one, and after them those that are
// not ready and may become so, with the reason: neither those that terminate nor those that
// have ended. One that the options name need not be ready.
func (c *Cluster) Replicas(ctx context.Context) ([]Replica, error) {
	if c.options.Pod != "" {
		return c.named(ctx)
	}
	pods, err := c.labelled(ctx, c.options.Namespace)
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
		return nil, NoReplica{fmt.Errorf("no gateway in namespace %s is ready: %s\n  --pod asks one that is not ready", text.Quoted(c.options.Namespace), some(others))}
	}
	return append(ready, waiting...), nil
}

// ends reports whether a Pod will not become ready again.
func ends(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// labelled returns the Pods of a namespace that are gateways, by name. Both ways to install may share a
// namespace. Beside Pods with the label of Isthmus, Pods of Linkerd's destination controller count only if their image
// is Isthmus: they are Linkerd's own otherwise.
func (c *Cluster) labelled(ctx context.Context, namespace string) ([]v1.Pod, error) {
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
			func(other v1.Pod) bool { return labelledIsthmus(&other) || !runsIsthmus(&other, own) })
	}
	pods = append(pods, others...)
	slices.SortFunc(pods, func(a, b v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	pods = slices.CompactFunc(pods, func(a, b v1.Pod) bool { return a.Name == b.Name })
	return pods[:min(len(pods), maxPods)], nil
}

// pods returns the Pods of a namespace with a label, maxPods at most whatever the API server sends.
func (c *Cluster) pods(ctx context.Context, namespace, selector string) ([]v1.Pod, error) {
	list, err := c.API.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxPods})
	if err != nil {
		return nil, err
	}
	return list.Items[:min(len(list.Items), maxPods)], nil
}

// labelledIsthmus reports whether a Pod has the label of Isthmus, also if it has Linkerd's label too.
func labelledIsthmus(pod *v1.Pod) bool {
	key, value, _ := strings.Cut(besideLinkerd, "=")
	return pod.Labels[key] == value
}

// runsIsthmus reports whether the gateway container of a Pod has an image called isthmus, or that of one of the Pods
// that have the label of Isthmus. The image is all in which such a Pod differs from one of Linkerd's own.
func runsIsthmus(pod *v1.Pod, own []v1.Pod) bool {
	name := imageName(pod)
	if strings.Contains(name, "isthmus") {
		return true
	}
	return name != "" && slices.ContainsFunc(own, func(o v1.Pod) bool { return imageName(&o) == name })
}

// imageName returns the last part of the name of a gateway container's image, without tag and digest.
func imageName(pod *v1.Pod) string {
	container := replicaContainer(pod)
	if container == nil {
		return ""
	}
	name, _, _ := strings.Cut(container.Image, "@")
	name = name[strings.LastIndex(name, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}

// noPods is the error for a namespace without gateways. It names others that have some,
// if the user may know.
func (c *Cluster) noPods(ctx context.Context) error {
	hint := "-n names another namespace, " + c.options.contextFlag() + " another cluster"
	var namespaces []string
	for _, selector := range selectors {
		if list, err := c.API.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxPods}); err == nil {
			for _, p := range list.Items {
				namespaces = append(namespaces, p.Namespace)
			}
		}
	}
	if len(namespaces) > 0 {
		slices.Sort(namespaces)
		hint = "There are such Pods in namespace " + some(slices.Compact(namespaces)) + ": name it by -n"
	}
	return fmt.Errorf("no gateway in namespace %s, by %s: no Pod has the label %s\n  %s", text.Quoted(c.options.Namespace), c, strings.Join(selectors, " or "), hint)
}

// named returns the gateway that the options name.
func (c *Cluster) named(ctx context.Context) ([]Replica, error) {
	o := c.options
	pod, err := c.API.Pods(o.Namespace).Get(ctx, o.Pod, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		hint := "-n names another namespace"
		if pods, err := c.labelled(ctx, o.Namespace); err == nil && len(pods) > 0 {
			var names []string
			for _, p := range pods {
				names = append(names, p.Name)
			}
			hint = "Gateways in this namespace: " + some(names)
		}
		return nil, fmt.Errorf("no Pod %s in namespace %s, by %s\n  %s", text.Quoted(o.Pod), text.Quoted(o.Namespace), c, hint)
	case err != nil:
		return nil, c.explain(err, "read Pods", "get pods")
	}
	return []Replica{c.replica(pod)}, nil
}

// notReady returns why a Pod is not ready, or "".
func notReady(pod *v1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "terminating"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return ""
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			return "container " + c.Name + " waits: " + w.Reason
		}
	}
	if pod.Status.Phase == v1.PodRunning {
		return "running, not ready"
	}
	return strings.ToLower(cmp.Or(string(pod.Status.Phase), "no status"))
}

// The ports of a gateway: what containers call them, in this project's manifests and in
// Linkerd's chart, old and new, and their numbers by default.
var (
	adminNames = []string{"admin", "admin-http", "dest-admin"}
	grpcNames  = []string{"grpc", "dest-grpc"}
)

const (
	defaultAdmin = 9996
	defaultGRPC  = 8086
)

func (c *Cluster) replica(pod *v1.Pod) Replica {
	g := Replica{Namespace: pod.Namespace, Name: pod.Name, AdminPort: defaultAdmin, GRPCPort: defaultGRPC, cluster: c}
	if own := replicaContainer(pod); own != nil {
		g.AdminPort = portNamed(own, adminNames, defaultAdmin)
		g.GRPCPort = portNamed(own, grpcNames, defaultGRPC)
	}
	return g
}

// gatewayContainer returns the container that is the gateway: by its own name, else by
// its ports'. Others of the same Pod may have ports of such names too.
func replicaContainer(pod *v1.Pod) *v1.Container {
	containers := pod.Spec.Containers
	for _, is := range []func(v1.Container) bool{
		func(c v1.Container) bool { return c.Name == "isthmus" },
		func(c v1.Container) bool { return c.Name == "destination" },
		func(c v1.Container) bool { return portNamed(&c, grpcNames, 0) != 0 },
	} {
		if i := slices.IndexFunc(containers, is); i >= 0 {
			return &containers[i]
		}
	}
	return nil
}

// portNamed returns the port of a container that has one of these names.
func portNamed(c *v1.Container, names []string, otherwise int) int {
	for _, p := range c.Ports {
		if slices.Contains(names, p.Name) {
			return int(p.ContainerPort)
		}
	}
	return otherwise
}
