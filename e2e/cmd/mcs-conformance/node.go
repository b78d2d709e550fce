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
	podPort     = 42               // at which the suite's Pods listen
	answerLimit = 2 * time.Second  // of a connection to a Pod
	execLimit   = 10 * time.Second // of a command in a Pod
)

// podProgramsDir is the $PATH of Pods, before the machine's.
const podProgramsDir = state + "/programs"

// podProgram returns the path of a program of podPrograms.
func podProgram(name string) string { return filepath.Join(podProgramsDir, name) }

// installPodPrograms makes the programs of Pods.
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

// answers plays the servers of all Pods of all clusters: at every address of a Pod, port 42 answers
// with the Pod's first address, as the suite's containers do.
type answers struct {
	listener net.Listener

	mu    sync.Mutex
	first map[netip.Addr]netip.Addr // the first address of the Pod that has an address
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

// answer answers a client. Then it reads what the client still sends, because a connection that is
// closed with unread data is reset, and the client may lose the answer.
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

// node stands in for scheduler and nodes of a cluster.
type node struct {
	client  *kube.Client
	cluster int // its number, of which the addresses of Pods are made
	answers *answers
	pods    int // that have got addresses
}

// runNode runs the Pods of a cluster until it is undone. env is the environment of what is executed
// in Pods, beyond this process's.
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

// pass brings every Pod one step on. The next pass repeats what fails.
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

// run gives a Pod addresses and the status of one that is ready.
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

// execute runs a command of a Pod, which prints to out.
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
