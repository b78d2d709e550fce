package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A cluster is ready after two to three seconds on an idle machine, but after minutes on a busy
// one.
const clusterStartLimit = 5 * time.Minute

// ClusterConfig configures a cluster. Name and Dir are required.
type ClusterConfig struct {
	Name        string   // the name of the cluster and of its kubeconfig context
	Dir         string   // the state; a directory that is used again restores the same cluster
	Host        string   // IP address to listen on; the default is 127.0.0.1
	Binary      string   // path of the controlplane command; the default is Controlplane
	Controllers []string // controllers to run; nil means the command's default
	// All serves all API groups and the OpenAPI description, which kubectl needs. The default is
	// only what tests need.
	All    bool
	Output io.Writer // log of the process; nil appends to Dir/log
}

// Cluster is a real Kubernetes control plane that runs as a child process: etcd, kube-apiserver and
// a few controllers on loopback. All state is in one directory. A cluster can be killed, paused,
// resumed, and restarted with the same address, data and credentials. All methods are safe for
// concurrent use.
//
// Each cluster is one process, so that a single cluster can crash or hang. This package runs the
// controlplane command instead of importing it, so that tests compile in a second and not in
// minutes.
type Cluster struct {
	cfg  ClusterConfig
	rest *rest.Config

	mu     sync.Mutex
	proc   *Process // the last process; it may have ended
	closed bool
}

// StartCluster starts a cluster and returns once the API server is ready and serves the CRDs. The
// context only limits the wait: the cluster runs until Close or until this process ends.
func StartCluster(ctx context.Context, cfg ClusterConfig) (*Cluster, error) {
	if cfg.Dir == "" {
		return nil, fmt.Errorf("cluster %s: no Dir", cfg.Name)
	}
	if cfg.Binary == "" {
		binary, err := Controlplane.Path(ctx)
		if err != nil {
			return nil, err
		}
		cfg.Binary = binary
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cfg.Name, err)
	}
	cfg.Dir = dir
	c := &Cluster{cfg: cfg}
	if err := c.launch(ctx); err != nil {
		return nil, err
	}
	c.rest, err = restConfig(c.Kubeconfig())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cluster %s: %w", cfg.Name, err), c.Close())
	}
	return c, nil
}

// StartClusters starts clusters concurrently and returns them in the order of their configurations.
// If one cluster fails, the others are closed.
func StartClusters(ctx context.Context, cfgs ...ClusterConfig) ([]*Cluster, error) {
	clusters := make([]*Cluster, len(cfgs))
	starting, ctx := errgroup.WithContext(ctx)
	for i, cfg := range cfgs {
		starting.Go(func() (err error) {
			clusters[i], err = StartCluster(ctx, cfg)
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		for _, c := range clusters {
			if c != nil {
				err = errors.Join(err, c.Close())
			}
		}
		return nil, err
	}
	return clusters, nil
}

func (c *Cluster) Name() string { return c.cfg.Name }

// Dir returns the absolute path of the directory with the cluster's state.
func (c *Cluster) Dir() string { return c.cfg.Dir }

// Kubeconfig returns the path of a kubeconfig for an administrator. The file stays valid across
// restarts.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.cfg.Dir, "kubeconfig") }

// REST returns a new client configuration for an administrator, without a client-side rate limit.
// The configuration stays valid across restarts.
func (c *Cluster) REST() *rest.Config { return rest.CopyConfig(c.rest) }

// Running reports whether the cluster's process exists, including while it is paused.
func (c *Cluster) Running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc != nil && c.proc.Running()
}

// Kill kills the cluster's process and waits for its end. Killing a process that has already ended
// is not an error.
func (c *Cluster) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kill()
}

func (c *Cluster) kill() error {
	if c.proc == nil {
		return nil
	}
	if err := c.proc.Kill(); err != nil {
		return fmt.Errorf("cluster %s: %w", c.cfg.Name, err)
	}
	return nil
}

// Restart kills the cluster if it runs, and starts the cluster again with the same address, data
// and credentials. It returns once the cluster is ready.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.Kill(); err != nil {
		return err
	}
	return c.launch(ctx)
}

// Pause suspends the cluster's process until Resume. Connections stay open, but the API server does
// not respond.
func (c *Cluster) Pause() error { return c.signal(syscall.SIGSTOP) }

// Resume continues a paused cluster.
func (c *Cluster) Resume() error { return c.signal(syscall.SIGCONT) }

func (c *Cluster) signal(sig os.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc == nil || !c.proc.Running() {
		return fmt.Errorf("cluster %s is not running", c.cfg.Name)
	}
	if err := c.proc.Signal(sig); err != nil {
		return fmt.Errorf("cluster %s: %w", c.cfg.Name, err)
	}
	return nil
}

// Close permanently stops the cluster, even if it is paused. The directory with the state is not
// removed.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.kill()
}

func (c *Cluster) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterStartLimit)
	defer cancel()
	proc, err := c.spawn()
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.cfg.Name, err)
	}
	if _, err := proc.AwaitLine(ctx); err != nil {
		return errors.Join(fmt.Errorf("cluster %s: %w%s", c.cfg.Name, err, c.logTail()), c.Kill())
	}
	return nil
}

func (c *Cluster) spawn() (*Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("is closed")
	}
	args := []string{
		"serve",
		"--name",
		c.cfg.Name,
		"--dir",
		c.cfg.Dir,
		"--until-eof",
		fmt.Sprintf("--all=%t", c.cfg.All),
	}
	if c.cfg.Host != "" {
		args = append(args, "--host", c.cfg.Host)
	}
	if c.cfg.Controllers != nil {
		args = append(args, "--controllers", strings.Join(c.cfg.Controllers, ","))
	}
	output := c.cfg.Output
	if output == nil {
		if err := os.MkdirAll(c.cfg.Dir, 0o700); err != nil {
			return nil, err
		}
		log, err := os.OpenFile(c.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer log.Close() // the process has its own file descriptor
		output = log
	}
	proc, err := StartProcess(ProcessConfig{Path: c.cfg.Binary, Args: args, Output: output, Announces: true})
	if err != nil {
		return nil, err
	}
	c.proc = proc
	return proc, nil
}

func (c *Cluster) logPath() string { return filepath.Join(c.cfg.Dir, "log") }

// logTail returns the end of the log for an error message. It is empty if the log goes to
// cfg.Output.
func (c *Cluster) logTail() string {
	if c.cfg.Output != nil {
		return ""
	}
	text, err := os.ReadFile(c.logPath())
	if err != nil || len(text) == 0 {
		return ""
	}
	return fmt.Sprintf("\n%s ends with:\n%s", c.logPath(), LastLines(string(text), 15))
}

// restConfig loads a kubeconfig and disables the client-side rate limit.
func restConfig(path string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	cfg.QPS = -1
	return cfg, nil
}
