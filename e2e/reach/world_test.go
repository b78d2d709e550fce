package reach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

func TestMain(m *testing.M) {
	// Closing a connection twice starts a goroutine that waits for a second.
	goleak.VerifyTestMain(
		tests{m},
		goleak.IgnoreTopFunction("github.com/moby/spdystream.(*Connection).shutdown"),
		// The kubelet's library waits 30 s for the second stream of a pair, even after the
		// connection has ended, and may then block while it writes an error.
		goleak.IgnoreAnyFunction(
			"k8s.io/cri-streaming/pkg/streaming/portforward.(*httpStreamHandler).monitorStreamPair",
		),
	)
}

// tests runs all tests one after the other with one API server.
type tests struct{ *testing.M }

var server *harness.Cluster

func (m tests) Run() (code int) {
	dir, err := os.MkdirTemp("", "reach-")
	if err == nil {
		server, err = harness.StartCluster(
			context.Background(),
			harness.ClusterConfig{Name: "west", Dir: filepath.Join(dir, "west")},
		)
	}
	if err == nil {
		code = m.M.Run()
		err = errors.Join(server.Close(), os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// world is a cluster with a Node, and a home directory for the isthmus command.
type world struct {
	server  *harness.Cluster
	client  *kube.Client
	node    *harness.Kubelet
	command string
	home    string // contains a kubeconfig whose current context is west
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{server: server, home: t.TempDir()}
	var err error
	w.command, err = harness.Isthmus.Path(t.Context())
	must(t, err)
	w.command, err = filepath.Abs(w.command)
	must(t, err)
	w.client, err = kube.NewClient("west", w.server.REST())
	must(t, err)
	t.Cleanup(w.client.Close)
	for _, namespace := range []string{"linkerd", "other"} {
		must(t, w.client.Apply(t.Context(), kube.Namespace(namespace)))
	}
	w.clear(t)
	w.node, err = harness.StartKubelet(t.Context(), w.client, "node-1")
	must(t, err)
	atEnd(t, w.node.Close)
	w.kubeconfig(t, nil)
	return w
}

func (w *world) clear(t *testing.T) {
	t.Helper()
	now := *metav1.NewDeleteOptions(0)
	for _, namespace := range []string{"linkerd", "other"} {
		must(t, w.client.CoreV1().Pods(namespace).DeleteCollection(t.Context(), now, metav1.ListOptions{}))
		must(t, w.client.CoreV1().Secrets(namespace).DeleteCollection(t.Context(), now, metav1.ListOptions{}))
	}
	must(t, w.client.CoreV1().Nodes().DeleteCollection(t.Context(), now, metav1.ListOptions{}))
}

// kubeconfig writes a kubeconfig with three kinds of contexts: "west" for an administrator, "gone"
// with an API server that does not exist, and one context per token.
func (w *world) kubeconfig(t *testing.T, tokens map[string]string) {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(w.server.Kubeconfig())
	must(t, err)
	must(t, clientcmdapi.MinifyConfig(cfg))
	own := cfg.Contexts[cfg.CurrentContext]
	cfg.Contexts["west"] = own
	cfg.CurrentContext = "west"
	cfg.Clusters["gone"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	cfg.Contexts["gone"] = &clientcmdapi.Context{Cluster: "gone", AuthInfo: own.AuthInfo}
	for name, token := range tokens {
		cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
		cfg.Contexts[name] = &clientcmdapi.Context{Cluster: own.Cluster, AuthInfo: name}
	}
	must(t, os.MkdirAll(filepath.Join(w.home, ".kube"), 0o700))
	must(t, clientcmd.WriteToFile(*cfg, filepath.Join(w.home, ".kube", "config")))
}

func (w *world) gateway(t *testing.T, pod harness.KubeletPod, args ...string) *harness.Replica {
	t.Helper()
	g, err := harness.StartReplica(t.Context(), harness.ReplicaConfig{
		Kubeconfig: w.server.Kubeconfig(),
		Hostname:   pod.Name,
		Args:       append([]string{"-shutdown-delay=0s", "-drain=0s"}, args...),
	})
	must(t, err)
	atEnd(t, g.Stop)
	pod.Forward = map[int32]string{9996: g.MetricsAddr(), 8086: g.Addr()}
	if pod.Ports != nil {
		pod.Forward = map[int32]string{pod.Ports["dest-admin"]: g.MetricsAddr(), pod.Ports["dest-grpc"]: g.Addr()}
	}
	must(t, w.node.Run(t.Context(), pod))
	return g
}

func isthmusPod(name string) harness.KubeletPod {
	return harness.KubeletPod{
		Namespace: "linkerd",
		Name:      name,
		Container: "isthmus",
		Labels:    map[string]string{"app.kubernetes.io/name": "isthmus"},
	}
}

type verbRun struct {
	stdout, stderr string
	code           int
	took           time.Duration
}

func (w *world) run(t *testing.T, args ...string) verbRun {
	t.Helper()
	return w.as(t, w.command, nil, args...)
}

// as runs the command under another file name, with additional environment variables.
func (w *world) as(t *testing.T, file string, env []string, args ...string) verbRun {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), file, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &errs, w.home
	cmd.Env = append([]string{"HOME=" + w.home, "PATH=" + os.Getenv("PATH")}, env...)
	began := time.Now()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return verbRun{out.String(), errs.String(), cmd.ProcessState.ExitCode(), time.Since(began)}
}

// expect runs the isthmus command for each expectation and checks its output, exit code and
// duration.
func (w *world) expect(t *testing.T, list ...expectation) {
	t.Helper()
	for _, e := range list {
		r := w.run(t, words(e.args)...)
		if e.stderr == "" && r.took > slowAfter { // on a busy machine, the command may print what it is waiting for
			r.stderr = waiting.ReplaceAllString(r.stderr, "")
		}
		for _, p := range []struct{ stream, pattern, text string }{
			{"stdout", e.stdout, r.stdout},
			{"stderr", e.stderr, r.stderr},
		} {
			if p.pattern == "" && p.text != "" || !regexp.MustCompile(p.pattern).MatchString(p.text) {
				t.Errorf("isthmus %s: %s is %q, want %q", e.args, p.stream, p.text, p.pattern)
			}
		}
		if r.code != e.code || r.took > 20*time.Second {
			t.Errorf("isthmus %s: exit code %d after %v: %s%s", e.args, r.code, r.took, r.stdout, r.stderr)
		}
	}
}

// shows runs the isthmus command until its output matches.
func (w *world) shows(t *testing.T, pattern, args string) {
	t.Helper()
	await(t, "isthmus "+args, func() error {
		if r := w.run(t, words(args)...); !regexp.MustCompile(pattern).MatchString(r.stdout) {
			return fmt.Errorf("no %s in %+v", pattern, r)
		}
		return nil
	})
}

func (w *world) grant(t *testing.T, account string, rules []rbacv1.PolicyRule) string {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "linkerd", Name: account}
	_, err := w.client.CoreV1().
		ServiceAccounts("linkerd").
		Create(t.Context(), &v1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
	_, err = w.client.RbacV1().
		Roles("linkerd").
		Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	must(t, err)
	_, err = w.client.RbacV1().RoleBindings("linkerd").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "linkerd", Name: account}},
	}, metav1.CreateOptions{})
	must(t, err)
	token, err := w.client.Token(t.Context(), "linkerd", account)
	must(t, err)
	return token
}

func await(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := harness.Poll(t.Context(), time.Minute, 50*time.Millisecond, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func words(s string) []string { return strings.Fields(s) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func atEnd(t *testing.T, do func() error) {
	t.Cleanup(func() {
		if err := do(); err != nil {
			t.Error(err)
		}
	})
}

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) has(pattern string) error {
	if text := l.String(); !regexp.MustCompile(pattern).MatchString(text) {
		return fmt.Errorf("no %s in %q", pattern, text)
	}
	return nil
}
