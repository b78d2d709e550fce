//go:build linux

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

//go:embed node.sh
var nodeScript []byte

//go:embed objects.yaml
var objectsYAML string

const hub = "172.31.0.1" // address of the API servers; node N has 172.31.0.N

// place is the position of a node. The valid numbers are defined in node.sh.
type place struct {
	cluster, name string
	number        int
}

var places = []place{{"west", "west-1", 11}, {"west", "west-2", 12}, {"east", "east-1", 13}}

type world struct {
	options
	clusters map[string]*harness.Cluster
	clients  map[string]*kube.Client
	nodes    map[string]*exec.Cmd
	began    time.Time

	target  target            // Deployment under test
	asked   string            // Deployment of the clients
	streams map[string]Report // reports of the clients when they last settled
}

func runInside(ctx context.Context, o options) error {
	w := &world{
		options:  o,
		clusters: map[string]*harness.Cluster{},
		clients:  map[string]*kube.Client{},
		nodes:    map[string]*exec.Cmd{},
		began:    time.Now(),
		target:   own,
	}
	// The make command in the README must not inherit variables from a parent make.
	if err := errors.Join(os.Chdir(o.repository), os.Unsetenv("MAKELEVEL"), os.Unsetenv("MAKEFLAGS"),
		os.Setenv("KUBECONFIG", o.inside+"/west/kubeconfig:"+o.inside+"/east/kubeconfig"),
		os.Setenv("KUBECACHEDIR", o.inside+"/kubecache"),
		os.Setenv(
			"PATH",
			strings.Join([]string{o.bin, filepath.Join(o.repository, "bin"), os.Getenv("PATH")}, ":"),
		)); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"network, images", w.prepare},
		{"API servers, schedulers, controllers", w.startClusters},
		{"nodes", w.startNodes},
		{"DNS, Services, Pods", w.startPods},
		{
			"Isthmus, as the README installs it; a linked cluster; clients",
			func(ctx context.Context) error { return install(ctx, w) },
		},
		{"events", events{w}.all},
		{
			"Isthmus instead of Linkerd's destination controller",
			func(ctx context.Context) error { return inLinkerdsPlace(ctx, w) },
		},
	} {
		w.log("%s", step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func (w *world) log(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// prepare creates the bridge, the images and the programs for the nodes.
func (w *world) prepare(ctx context.Context) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	for _, command := range []string{
		"ip link set lo up", "ip link add bridge type bridge", "ip address add " + hub + "/24 dev bridge",
		"ip link set bridge up",
	} {
		if _, err := run(ctx, "", strings.Fields(command)...); err != nil {
			return err
		}
	}
	images := filepath.Join(w.inside, "images")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return err
	}
	for name, program := range map[string]string{
		"pause":   w.bin + "/pause",
		"coredns": w.bin + "/coredns",
		"client":  "/proc/self/exe",
	} {
		if err := writeImage(filepath.Join(images, name+".tar"), "nodes.test/"+name+":1", program); err != nil {
			return err
		}
	}
	if w.linkerd != "" {
		if err := writeImage(filepath.Join(images, "linkerd.tar"), linkerdImage, w.linkerd); err != nil {
			return err
		}
	}
	if err := os.WriteFile(w.script(), nodeScript, 0o755); err != nil {
		return err
	}
	return writeLayout(filepath.Join(images, "isthmus.tar"), filepath.Join(w.repository, "out/image/layout"))
}

func (w *world) script() string { return filepath.Join(w.inside, "node.sh") }

// startClusters starts API servers, each with Kubernetes' own scheduler and controllers.
func (w *world) startClusters(ctx context.Context) error {
	var configs []harness.ClusterConfig
	for _, name := range []string{"west", "east"} {
		configs = append(configs, harness.ClusterConfig{
			Name:        name,
			Dir:         filepath.Join(w.inside, name),
			Host:        hub,
			Binary:      filepath.Join(w.repository, "bin/controlplane"),
			Controllers: []string{}, All: true,
		})
	}
	started, err := harness.StartClusters(ctx, configs...)
	if err != nil {
		return err
	}
	for _, c := range started {
		w.clusters[c.Name()] = c
		if w.clients[c.Name()], err = kube.NewClient(c.Name(), c.REST()); err != nil {
			return err
		}
		pki := filepath.Join(c.Dir(), "pki")
		for _, args := range [][]string{
			{"kube-scheduler"},
			{
				"kube-controller-manager",
				"--service-account-private-key-file=" + pki + "/serviceaccount.key",
				"--root-ca-file=" + pki + "/ca.crt",
			},
		} {
			log, err := os.Create(filepath.Join(c.Dir(), args[0]+".log"))
			if err != nil {
				return err
			}
			defer log.Close()
			if _, err := harness.StartProcess(harness.ProcessConfig{
				Path: filepath.Join(w.bin, args[0]), Output: log,
				Args: append(args[1:], "--kubeconfig="+c.Kubeconfig(), "--leader-elect=false", "--secure-port=0"),
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) startNodes(ctx context.Context) error {
	for _, p := range places {
		if err := w.startNode(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range places {
		if err := w.awaitNode(ctx, p, true); err != nil {
			return err
		}
		w.log("  %s is Ready", p.name)
	}
	return nil
}

// startNode starts or restarts a node and connects it to the bridge.
func (w *world) startNode(ctx context.Context, p place) error {
	dir := filepath.Join(w.inside, p.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	node := exec.Command(
		"bash",
		w.script(),
		p.name,
		strconv.Itoa(p.number),
		dir,
		w.bin,
		w.clusters[p.cluster].Kubeconfig(),
		filepath.Base(w.inside),
	)
	node.Stdout, node.Stderr = os.Stdout, os.Stderr
	node.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWIPC,
		Setpgid: true,
	}
	if err := node.Start(); err != nil {
		return err
	}
	w.nodes[p.name] = node
	for _, command := range []string{
		fmt.Sprintf("ip link add %s type veth peer name eth0 netns %d", p.name, node.Process.Pid),
		fmt.Sprintf("ip link set %s master bridge up", p.name),
		fmt.Sprintf("ip route replace 10.244.%d.0/24 via 172.31.0.%d", p.number, p.number),
	} {
		if _, err := run(ctx, "", strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

// loseNode kills a node with all its Pods like a power failure, without any notification.
func (w *world) loseNode(ctx context.Context, name string) error {
	_, err := run(ctx, "", "ip", "link", "set", name, "down")
	w.nodes[name].Process.Kill()
	w.nodes[name].Wait() // the error is the kill signal
	return err
}

func (w *world) awaitNode(ctx context.Context, p place, ready bool) error {
	return await(ctx, p.name, func() error {
		node, err := w.clients[p.cluster].CoreV1().Nodes().Get(ctx, p.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && (c.Status == corev1.ConditionTrue) == ready {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", node.Status.Conditions)
	})
}

// startPods starts DNS and the Pods that clients use, and waits until a Pod has reached another one
// through a Service name.
func (w *world) startPods(ctx context.Context) error {
	for name := range w.clusters {
		text := strings.NewReplacer("CLUSTER", name, "TTL", "30").Replace(objectsYAML)
		if _, err := w.kubectl(ctx, text, name, "apply", "-f", "-"); err != nil {
			return err
		}
		for _, deployment := range []string{"kube-system/coredns", "shop/web"} {
			if err := w.rollout(ctx, name, deployment); err != nil {
				return err
			}
		}
		if _, err := w.kubectl(
			ctx,
			"",
			name,
			"wait",
			"-n",
			"shop",
			"--for=condition=Ready",
			"pod/asks",
			"--timeout=2m",
		); err != nil {
			return fmt.Errorf("no Pod of %s reaches a Service by its name: %w", name, err)
		}
		w.log("  %s: Pods have addresses, and reach http://web.shop by DNS and kube-proxy", name)
	}
	return nil
}

func (w *world) rollout(ctx context.Context, cluster, deployment string) error {
	namespace, name, _ := strings.Cut(deployment, "/")
	_, err := w.kubectl(ctx, "", cluster, "rollout", "status", "-n", namespace, "deployment/"+name, "--timeout=5m")
	return err
}

func (w *world) kubectl(ctx context.Context, input, cluster string, args ...string) (string, error) {
	return run(ctx, input, append([]string{"kubectl", "--context", cluster}, args...)...)
}

// run runs a command in the repository with access to both clusters, and returns its output.
func run(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var complaint strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), &complaint
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s%s", strings.Join(args, " "), err, complaint.String(), out)
	}
	return string(out), err
}

const limit = 4 * time.Minute

func await(ctx context.Context, what string, check func() error) error {
	if err := harness.Poll(ctx, limit, 200*time.Millisecond, check); err != nil {
		return fmt.Errorf("%s: %w", what, errors.Join(err, ctx.Err()))
	}
	return nil
}

// startClients starts clients of a Service's replicas and waits until their endpoints match the
// EndpointSlices.
func (w *world) startClients(ctx context.Context, name, server string) error {
	text := strings.NewReplacer("CLIENTS", name, "SERVER", server).Replace(clientsYAML)
	if _, err := w.kubectl(ctx, text, "west", "apply", "-f", "-"); err != nil {
		return err
	}
	if err := w.rollout(ctx, "west", "shop/"+name); err != nil {
		return err
	}
	w.asked = name
	if err := w.settle(ctx); err != nil {
		return err
	}
	w.log("  %d streams of clients in Pods have what `kubectl get endpointslices` has", len(w.streams))
	return nil
}

// reports collects the reports of all clients. If mark is set, the clients then start a new count.
func (w *world) reports(ctx context.Context, mark bool) (map[string]Report, error) {
	pods, err := w.clients["west"].CoreV1().Pods("shop").List(ctx, metav1.ListOptions{LabelSelector: "app=" + w.asked})
	if err != nil {
		return nil, err
	}
	all := map[string]Report{}
	for _, pod := range pods.Items {
		url := "http://" + pod.Status.PodIP + ":8080/"
		if mark {
			url += "?mark"
		}
		answer, err := http.Get(url)
		if err != nil {
			return nil, err
		}
		var list []Report
		err = errors.Join(json.NewDecoder(answer.Body).Decode(&list), answer.Body.Close())
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			all[pod.Name+" "+r.Name] = r
		}
	}
	return all, nil
}

// settle waits until all streams are open and their endpoints match the cluster's state.
func (w *world) settle(ctx context.Context) error {
	return await(ctx, "clients", func() (err error) {
		web := map[string][]string{}
		for cluster := range w.clusters {
			out, err := w.kubectl(
				ctx,
				"",
				cluster,
				"get",
				"endpointslices",
				"-n",
				"shop",
				"-l",
				"kubernetes.io/service-name=web",
				"-o",
				`jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]}:8080{"\n"}{end}`,
			)
			if err != nil {
				return err
			}
			web[cluster] = strings.Fields(out)
		}
		both := slices.Sorted(slices.Values(slices.Concat(web["west"], web["east"])))
		slices.Sort(web["west"])
		if w.streams, err = w.reports(ctx, false); err != nil {
			return err
		}
		for name, r := range w.streams {
			want := web["west"]
			if strings.Contains(name, "federated") {
				want = both
			}
			slices.Sort(r.Addrs)
			if !r.Open {
				return fmt.Errorf("%s is not open", name)
			}
			if strings.Contains(name, " Get ") && !slices.Equal(r.Addrs, want) {
				return fmt.Errorf("%s has %q; EndpointSlices have %q", name, r.Addrs, want)
			}
		}
		return nil
	})
}
