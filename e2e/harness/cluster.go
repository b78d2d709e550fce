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

// clusterStartLimit bounds how long a cluster may take to become ready. It takes two
// to three seconds on an idle machine, and minutes on one that is busy with others.
const clusterStartLimit = 5 * time.Minute

// ClusterConfig is how to run one cluster. Name and Dir have to be set.
type ClusterConfig struct {
	Name        string   // the cluster's name, also that of its kubeconfig context
	Dir         string   // its state; the same folder again is the same cluster
	Host        string   // the IP address that it listens on; empty: 127.0.0.1
	Binary      string   // the controlplane command; empty: Controlplane
	Controllers []string // controllers to run; nil: those the command runs by default
	// serve all API groups, and the API's description, which kubectl asks for; else what tests need
	All    bool
	Output io.Writer // what the process logs; nil: appended to Dir/log
}

// Cluster is a real Kubernetes control plane, run by this process: etcd, kube-apiserver and a few
// controllers on loopback, with its state in one folder. It can be killed, started again at the
// same address with the same data and credentials, paused and resumed. Its methods may be called
// from several goroutines.
//
// Each cluster is one process, so that one of them can die or hang alone. This package starts the
// controlplane command and imports none of it, so that tests which need a cluster compile in a
// second and not in minutes.
type Cluster struct {
	cfg  ClusterConfig
	rest *rest.Config

	mu     sync.Mutex
	proc   *Process // the last process started; it may have ended
	closed bool
}

// StartCluster runs a cluster and returns once its API server is ready and the CRDs are
// served. ctx bounds the wait only; the cluster runs until
// Close or the end of this process.
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

// StartClusters starts clusters at the same time and returns them in the order
// given. When one of them cannot be started, none is left running.
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

// Name returns the cluster's name.
func (c *Cluster) Name() string { return c.cfg.Name }

// Dir returns the absolute path of the folder that holds the cluster's state.
func (c *Cluster) Dir() string { return c.cfg.Dir }

// Kubeconfig returns the path of an administrator's kubeconfig. It stays valid
// over restarts.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.cfg.Dir, "kubeconfig") }

// REST returns an administrator's client configuration that no client-side
// rate limit slows down. It stays valid over restarts; the caller owns it.
func (c *Cluster) REST() *rest.Config { return rest.CopyConfig(c.rest) }

// Running reports whether the cluster's process is there, paused or not.
func (c *Cluster) Running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc != nil && c.proc.Running()
}

// Kill ends the cluster's process without warning and waits until it is gone.
// Killing what has ended already is no error.
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

// Restart kills the cluster if it runs and starts it again at the same address
// with the same data and credentials. It returns once the cluster is ready.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.Kill(); err != nil {
		return err
	}
	return c.launch(ctx)
}

// Pause stops the cluster's process where it is: connections stay open and
// nothing is answered, until Resume.
func (c *Cluster) Pause() error { return c.signal(syscall.SIGSTOP) }

// Resume lets a paused cluster go on.
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

// Close ends the cluster for good, paused or not. Its folder stays.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.kill()
}

// launch starts the process and waits until it announces that it is ready.
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

// spawn starts the process and returns once it exists.
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
		defer log.Close() // the process has its own
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

// logTail returns the end of the log for an error message, if the log is a file of ours.
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

// restConfig reads a kubeconfig for clients that are not slowed down.
func restConfig(path string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	cfg.QPS = -1
	return cfg, nil
}
