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
	"k8s.io/streaming/pkg/httpstream"

	"isthmus/internal/text"
)

// Replica is a Pod that runs Isthmus, or an address where Isthmus listens.
type Replica struct {
	Address             string // HOST:PORT; empty for a Pod
	Namespace, Name     string
	AdminPort, GRPCPort int // declared by the container, or the defaults
	// NotReady is the reason why the Pod is not ready. NotReady contains no control characters. If
	// the Pod is ready or the user selected the Pod by name, NotReady is empty.
	NotReady string
	cluster  *Cluster
}

// String returns Address or, for a Pod, NAMESPACE/NAME. The result contains no control characters.
func (g Replica) String() string {
	return text.Quoted(cmp.Or(g.Address, g.Namespace+"/"+g.Name))
}

// If Address is set, Dial connects to Address and ignores the port. Otherwise, Dial forwards a
// local port to the given port of the Pod, and connects to the local port. The local port stays
// open until the Cluster is closed. The context applies only to dialing. If a connection to a Pod
// fails, the error is a [BrokenError].
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
		return fmt.Errorf("%s cannot connect to Pod %s: %s\n"+
			"  Check that all proxies on the path to the API server support websockets or SPDY",
			g.cluster, g, text.Quoted(err.Error()))
	case status == nil:
		return g.cluster.explain(err, "forward ports of Pods", "create pods/portforward")
	case apierrors.IsNotFound(status):
		return fmt.Errorf(
			"the Pod %s no longer exists\n  Another Pod may have replaced it: run the command again",
			g,
		)
	case apierrors.IsForbidden(status), apierrors.IsUnauthorized(status):
		return g.cluster.explain(status, "forward ports of Pods", "create pods/portforward")
	}
	return fmt.Errorf("%s cannot connect to Pod %s: %s\n"+
		"  Check the kubelet on the Pod's node, which forwards the connection, or choose another Pod "+
		"with --pod", g.cluster, g, text.Quoted(status.ErrStatus.Message))
}

// ends reports whether a Pod is terminating or has terminated.
func ends(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// notReady returns the reason why a Pod is not ready, or "".
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

// labeledIsthmus reports whether a Pod has the label app.kubernetes.io/name=isthmus. A Pod with
// this label may also have the label of Linkerd's destination controller.
func labeledIsthmus(pod *v1.Pod) bool {
	key, value, _ := strings.Cut(besideLinkerd, "=")
	return pod.Labels[key] == value
}

// runsIsthmus reports whether a Pod's replica container runs an Isthmus image. An image counts as
// an Isthmus image if its name contains "isthmus", or if a Pod with the label
// app.kubernetes.io/name=isthmus runs an image of the same name. Only the image distinguishes a
// replica from Linkerd's destination controller.
func runsIsthmus(pod *v1.Pod, own []v1.Pod) bool {
	name := imageName(pod)
	if strings.Contains(name, "isthmus") {
		return true
	}
	return name != "" && slices.ContainsFunc(own, func(o v1.Pod) bool { return imageName(&o) == name })
}

// imageName returns the last path element of a replica container's image, without the tag or
// digest.
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

// These are the names and default numbers of a replica's ports. The names appear in the manifests
// of Isthmus and in old and new versions of Linkerd's chart.
var (
	adminNames = []string{"admin", "admin-http", "dest-admin"}
	grpcNames  = []string{"grpc", "dest-grpc"}
)

const (
	defaultAdmin = 9996
	defaultGRPC  = 8086
)

// replicaContainer returns the container that runs Isthmus. The name of the container takes
// precedence over the names of its ports, because other containers may use the same port names.
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

func portNamed(c *v1.Container, names []string, otherwise int) int {
	for _, p := range c.Ports {
		if slices.Contains(names, p.Name) {
			return int(p.ContainerPort)
		}
	}
	return otherwise
}
