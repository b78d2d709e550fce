package harness

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// Kubelet is a Node that forwards ports and executes commands for clients of a real API server. It
// writes the Node and its Pods to that API server. It connects port-forward requests to programs on
// this machine, and runs a function for each command. Like a real kubelet, it uses Kubernetes'
// server library and TLS with its own certificate. Unlike a real kubelet, it does not authenticate
// clients.
//
// All methods are safe for concurrent use.
type Kubelet struct {
	node   string
	client kubernetes.Interface
	server *http.Server
	served chan struct{} // closed when the server has ended

	mu    sync.Mutex
	ports map[podPort]string // addresses on this machine
	conns map[net.Conn]bool
	run   ExecFunc
}

// ExecFunc runs a command in a Pod and writes the command's output to out. The client receives the
// exit code of an *exec.ExitError.
type ExecFunc func(command []string, out io.Writer) error

type podPort struct {
	pod  string // NAMESPACE/NAME
	port int32
}

// StartKubelet adds a Node to a cluster and serves it until Close.
func StartKubelet(ctx context.Context, client kubernetes.Interface, node string) (*Kubelet, error) {
	loopback := net.IPv4(127, 0, 0, 1)
	certificate, key, err := cert.GenerateSelfSignedCertKey(node, []net.IP{loopback}, nil)
	if err != nil {
		return nil, fmt.Errorf("kubelet %s: %w", node, err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("kubelet %s: %w", node, err)
	}
	l, err := tls.Listen(
		"tcp",
		net.JoinHostPort(loopback.String(), "0"),
		&tls.Config{Certificates: []tls.Certificate{pair}},
	)
	if err != nil {
		return nil, fmt.Errorf("kubelet %s: %w", node, err)
	}
	k := &Kubelet{
		node:   node,
		client: client,
		served: make(chan struct{}),
		ports:  make(map[podPort]string),
		conns:  make(map[net.Conn]bool),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /portForward/{namespace}/{pod}", k.portForward)
	mux.HandleFunc("POST /exec/{namespace}/{pod}/{container}", k.serveExec)
	k.server = &http.Server{Handler: mux, ConnState: k.track, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(k.served)
		k.server.Serve(l)
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := k.register(ctx, loopback.String(), port); err != nil {
		return nil, errors.Join(fmt.Errorf("kubelet %s: %w", node, err), k.Close())
	}
	return k, nil
}

// Close stops the server and closes all connections. The Node and its Pods are not deleted.
func (k *Kubelet) Close() error {
	err := k.server.Close()
	k.Drop()
	<-k.served
	return err
}

// Drop closes the connections that forward ports or execute commands.
func (k *Kubelet) Drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for conn := range k.conns {
		conn.Close()
	}
	clear(k.conns)
}

// track collects hijacked connections, which http.Server does not close.
func (k *Kubelet) track(conn net.Conn, state http.ConnState) {
	if state != http.StateHijacked {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns[conn] = true
}

func (k *Kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	const idle, creation = 4 * time.Hour, 30 * time.Second // the timeouts of a real kubelet
	pod := r.PathValue("namespace") + "/" + r.PathValue("pod")
	portforward.ServePortForward(
		w,
		r,
		podForwarder{k},
		pod,
		"",
		&portforward.V4Options{},
		idle,
		creation,
		portforward.SupportedProtocols,
	)
}

// OnExec sets the function that runs commands in Pods.
func (k *Kubelet) OnExec(run ExecFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.run = run
}

func (k *Kubelet) serveExec(w http.ResponseWriter, r *http.Request) {
	const idle, creation = 4 * time.Hour, 30 * time.Second // the timeouts of a real kubelet
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod := r.PathValue("namespace") + "/" + r.PathValue("pod")
	remotecommand.ServeExec(w, r, podExecutor{k}, pod, "", r.PathValue("container"), r.Form["command"], options,
		idle, creation, remotecommand.SupportedStreamingProtocols)
}

type podExecutor struct{ *Kubelet }

// ExecInContainer runs a command without standard input. Standard error is merged into standard
// output, as in a terminal.
func (e podExecutor) ExecInContainer(
	_ context.Context, _, _, _ string, command []string,
	_ io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	e.mu.Lock()
	run := e.run
	e.mu.Unlock()
	if run == nil {
		return errors.New("this kubelet executes no commands")
	}
	err := run(command, out)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return podExitError{exit}
	}
	return err
}

// podExitError adapts the exit status of a command to the interface of Kubernetes' server library.
type podExitError struct{ *exec.ExitError }

func (e podExitError) ExitStatus() int { return e.ExitCode() }

type podForwarder struct{ *Kubelet }

// PortForward copies data in both directions until the program closes the connection. The client
// receives any error.
func (f podForwarder) PortForward(ctx context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	f.mu.Lock()
	address, ok := f.ports[podPort{pod, port}]
	f.mu.Unlock()
	if !ok {
		return fmt.Errorf("dial tcp4 127.0.0.1:%d: connect: connection refused", port)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	go func() {
		io.Copy(conn, stream) // until the client closes the stream or its connection
		conn.Close()
	}()
	io.Copy(stream, conn)
	return nil
}

// register writes the Node, which contains the kubelet's address for the API server.
func (k *Kubelet) register(ctx context.Context, address, port string) error {
	var number int32
	if _, err := fmt.Sscan(port, &number); err != nil {
		return err
	}
	nodes := k.client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.node}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = number
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// KubeletPod is a Pod that represents a program on this machine.
type KubeletPod struct {
	Namespace, Name string
	Labels          map[string]string
	Container       string           // name of the only container
	Image           string           // image of the container; optional
	Ports           map[string]int32 // ports of the container by name
	Forward         map[int32]string // addresses of the program by Pod port
}

// A new namespace needs a moment before it accepts Pods.
const kubeletPodLimit = time.Minute

// Run adds a ready Pod to the Node. The Pod's namespace must exist.
func (k *Kubelet) Run(ctx context.Context, p KubeletPod) error {
	k.mu.Lock()
	for port, address := range p.Forward {
		k.ports[podPort{p.Namespace + "/" + p.Name, port}] = address
	}
	k.mu.Unlock()
	container := v1.Container{Name: p.Container, Image: cmp.Or(p.Image, "none")}
	for name, port := range p.Ports {
		container.Ports = append(container.Ports, v1.ContainerPort{Name: name, ContainerPort: port})
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels},
		Spec:       v1.PodSpec{NodeName: k.node, Containers: []v1.Container{container}},
	}
	err := Poll(ctx, kubeletPodLimit, 20*time.Millisecond, func() error { // needs a ServiceAccount
		_, err := k.client.CoreV1().Pods(p.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("kubelet %s: run Pod %s/%s: %w", k.node, p.Namespace, p.Name, err)
	}
	return k.SetReady(ctx, p.Namespace, p.Name, true)
}

// SetReady updates the readiness of a running Pod.
func (k *Kubelet) SetReady(ctx context.Context, namespace, name string, ready bool) error {
	pods := k.client.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	condition := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse}
	if ready {
		condition.Status = v1.ConditionTrue
	}
	pod.Status.Phase, pod.Status.Conditions = v1.PodRunning, []v1.PodCondition{condition}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// Delete deletes a Pod without a grace period.
func (k *Kubelet) Delete(ctx context.Context, namespace, name string) error {
	return k.client.CoreV1().Pods(namespace).Delete(ctx, name, *metav1.NewDeleteOptions(0))
}
