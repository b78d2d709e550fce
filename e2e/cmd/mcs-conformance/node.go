//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

const (
	nodeName    = "node"
	podPort     = 42               // port of the suite's Pods
	answerLimit = 2 * time.Second  // timeout of a connection to a Pod
	execLimit   = 10 * time.Second // timeout of a command in a Pod
)

// podProgramsDir is the first directory in the $PATH of Pods.
const podProgramsDir = state + "/programs"

func podProgram(name string) string { return filepath.Join(podProgramsDir, name) }

func installPodPrograms() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	err = os.MkdirAll(podProgramsDir, 0o755)
	for name := range podPrograms {
		err = errors.Join(err, os.Symlink(self, podProgram(name)))
	}
	return err
}

// answers stands in for the servers in all Pods. As in the suite's containers, port 42 of each Pod
// address returns the Pod's first address.
type answers struct {
	listener net.Listener

	mu    sync.Mutex
	first map[netip.Addr]netip.Addr // maps each Pod address to the first address of the Pod
}

func newAnswers() (*answers, error) {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", podPort))
	if err != nil {
		return nil, err
	}
	a := &answers{listener: l, first: make(map[netip.Addr]netip.Addr)}
	go a.serve()
	return a, nil
}

func (a *answers) serve() {
	for {
		conn, err := a.listener.Accept()
		if err != nil {
			return // closed
		}
		go a.answer(conn.(*net.TCPConn))
	}
}

// answer responds to a client and then reads the remaining data. Closing a connection with unread
// data would reset it, and the client could lose the response.
func (a *answers) answer(conn *net.TCPConn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(answerLimit))
	local := conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	a.mu.Lock()
	first, ok := a.first[local]
	a.mu.Unlock()
	if !ok {
		return
	}
	fmt.Fprintf(conn, "pod ip %v\r\n", first)
	conn.CloseWrite()
	io.Copy(io.Discard, conn)
}

func (a *answers) add(ips ...netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ip := range ips {
		a.first[ip] = ips[0]
	}
}

func (a *answers) remove(ips []corev1.PodIP) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, text := range ips {
		if ip, err := netip.ParseAddr(text.IP); err == nil {
			delete(a.first, ip)
		}
	}
}

// node stands in for the scheduler and the nodes of a cluster.
type node struct {
	client  *kube.Client
	cluster int // number of the cluster, which is part of the Pods' addresses
	answers *answers
	pods    int // number of Pods with addresses
}

// runNode runs the Pods of a cluster until the end of the run. The variables in env are added to
// the environment of commands in Pods.
func runNode(
	ctx context.Context, c *kube.Client, cluster int, answers *answers, env []string,
) (undo func() error, err error) {
	k, err := harness.StartKubelet(ctx, c, nodeName)
	if err != nil {
		return nil, err
	}
	k.OnExec(func(command []string, out io.Writer) error { return execute(env, command, out) })
	n := &node{client: c, cluster: cluster, answers: answers}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		for harness.Pause(ctx, 100*time.Millisecond) == nil {
			n.pass(ctx)
		}
	})
	return func() error {
		cancel()
		running.Wait()
		return k.Close()
	}, nil
}

// pass performs the next step for every Pod. A step that fails is retried in the next pass.
func (n *node) pass(ctx context.Context) {
	list, err := n.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		pod := &list.Items[i]
		pods := n.client.CoreV1().Pods(pod.Namespace)
		switch {
		case pod.DeletionTimestamp != nil:
			n.answers.remove(pod.Status.PodIPs)
			pods.Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
		case pod.Spec.NodeName == "":
			pods.Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
				Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
			}, metav1.CreateOptions{})
		case pod.Status.Phase != corev1.PodRunning:
			n.run(pod)
			pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
	}
}

func (n *node) run(pod *corev1.Pod) {
	n.pods++
	high, low := byte(n.pods>>8), byte(n.pods)
	four := netip.AddrFrom4([4]byte{10, 128 + byte(n.cluster), high, low})
	six := netip.AddrFrom16([16]byte{0: 0xfd, 2: 0x01, 3: 0x28, 5: byte(n.cluster), 14: high, 15: low})
	n.answers.add(four, six)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.PodIP = four.String()
	pod.Status.PodIPs = []corev1.PodIP{{IP: four.String()}, {IP: six.String()}}
}

func execute(env, command []string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), execLimit)
	defer cancel()
	programs, err := filepath.Abs(podProgramsDir)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Env = append(cmd.Env, "PATH="+programs+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second
	return cmd.Run()
}
