package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// replicaReadyLimit is how long a started gateway may take until it is ready.
	replicaReadyLimit = 3 * time.Minute
	// replicaStopLimit is how long a gateway may take to end after SIGTERM before it is killed: longer than it
	// waits for its proxies by default.
	replicaStopLimit = time.Minute
)

// ReplicaConfig is what to run.
type ReplicaConfig struct {
	Binary     string     // the isthmus command; empty: Isthmus
	Kubeconfig string     // of the cluster that the gateway is local to
	Args       []string   // flags after those of BaseArgs
	Env        []string   // KEY=VALUE, beyond the environment of this process
	Hostname   string     // identifies it among replicas; empty: isthmus-0
	Container  *Container // instead of the fields above; nil: a process of this machine
	Output     io.Writer  // gets the log as well; nil: nothing does
}

// Container is a gateway as a container runs it: with these arguments and this environment, and
// nothing else. But it has the addresses that Start chooses, since it shares this machine's.
type Container struct {
	Path string // of the command, within the jail
	Args []string
	Env  []string // KEY=VALUE
	Jail Jail
}

// BaseArgs are the flags, without addresses and kubeconfig, of the environment that scenarios are written for.
func BaseArgs() []string {
	return []string{
		"-controller-namespace=linkerd",
		"-cluster-domain=cluster.local",
		"-identity-trust-domain=cluster.local",
		"-default-opaque-ports=25,587,3306,4444,5432,6379,9300,11211",
		"-enable-ipv6=false",
		"-enable-h2-upgrade=true",
		"-outbound-transport-mode=transparent",
		"-target-cluster-label=false",
		"-log-level=debug",
	}
}

// Replica is Isthmus run as a process, as a cluster would run it: by its flags, its sockets and its signals.
//
//	r, err := harness.StartReplica(ctx, harness.ReplicaConfig{
//		Kubeconfig: west.Kubeconfig(),
//		Args:       []string{"-pace=0s"},
//	})
//	...
//	defer r.Stop()
//	conn, err := proxy.Dial(r.Addr())
//
// A Replica is ready when StartReplica or Restart returns. It keeps its addresses over restarts, so
// that clients find it again: their ports are reserved until Stop. Its log goes to a bounded
// buffer, whose end is part of errors, and to ReplicaConfig.Output.
//
// The methods may be called from several goroutines. Restart and Stop take turns.
type Replica struct {
	cfg         ReplicaConfig
	grpc, admin *Port // reserved until Stop, since a gateway listens only while it is ready
	log         *Tail

	life sync.Mutex // held while the process is started or stopped

	mu   sync.Mutex
	args []string // of the last start, beyond those of cfg
	proc *Process
}

// StartReplica runs a gateway on free ports of 127.0.0.1 and returns when it is ready. ctx bounds
// the wait only: the gateway runs until Stop or the end of this process.
func StartReplica(ctx context.Context, cfg ReplicaConfig) (*Replica, error) {
	if cfg.Binary == "" && cfg.Container == nil {
		binary, err := Isthmus.Path(ctx)
		if err != nil {
			return nil, err
		}
		cfg.Binary = binary
	}
	cfg.Hostname = cmp.Or(cfg.Hostname, "isthmus-0")
	grpc, err := ReservePort(firstReplicaPort, lastReplicaPort)
	if err != nil {
		return nil, err
	}
	admin, err := ReservePort(firstReplicaPort, lastReplicaPort)
	if err != nil {
		return nil, errors.Join(err, grpc.Release())
	}
	g := &Replica{cfg: cfg, grpc: grpc, admin: admin, log: &Tail{To: cfg.Output}}
	if err := g.launch(ctx, nil); err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	return g, nil
}

// Ports of gateways. Those of clusters and of fault proxies lie above.
const firstReplicaPort, lastReplicaPort = 10000, 19999

// Addr returns the gRPC address.
func (g *Replica) Addr() string { return g.grpc.Addr() }

// MetricsAddr returns the address of the admin HTTP server.
func (g *Replica) MetricsAddr() string { return g.admin.Addr() }

// Args returns the flags that the last Restart added.
func (g *Replica) Args() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.args)
}

// Log returns the last lines of the log, of all runs of the gateway.
func (g *Replica) Log(lines int) string { return g.log.Lines(lines) }

// Check returns an error when the gateway has exited or does not accept connections any more.
func (g *Replica) Check(ctx context.Context) error {
	proc := g.process()
	if proc == nil {
		return errors.New("the gateway is stopped")
	}
	if !proc.Running() {
		return fmt.Errorf("the gateway has exited: %w", proc.Err())
	}
	return accepts(ctx, g.Addr())
}

// Pid returns the process id of the gateway, 0 while it is stopped.
func (g *Replica) Pid() int {
	if proc := g.process(); proc != nil {
		return proc.Pid()
	}
	return 0
}

// process returns the one that runs, or has ended by itself; nil: the gateway is stopped.
func (g *Replica) process() *Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.proc
}

// Restart stops the gateway and starts it again at the same addresses, with these flags after those
// of its Config. Words that do not begin with a dash are NAME=VALUE of its environment, after those
// of its Config. It returns when the gateway is ready again.
func (g *Replica) Restart(ctx context.Context, args ...string) error {
	if err := g.Halt(); err != nil {
		return err
	}
	return g.launch(ctx, args)
}

// Stop ends the gateway for good, as Halt does. Its ports are free from then on.
func (g *Replica) Stop() error {
	return errors.Join(g.Halt(), g.grpc.Release(), g.admin.Release())
}

// Halt ends the process by SIGTERM, and by SIGKILL when it is there after stopLimit still, which is an
// error. It is none when it has ended already. Restart starts it again.
func (g *Replica) Halt() error {
	g.life.Lock()
	defer g.life.Unlock()
	g.mu.Lock()
	proc := g.proc
	g.proc = nil
	g.mu.Unlock()
	if proc == nil {
		return nil
	}
	if err := proc.Stop(replicaStopLimit); err != nil {
		return fmt.Errorf("stop the gateway: %w\nits log ends with:\n%s", err, g.Log(20))
	}
	return nil
}

// Exited returns a channel that is closed when the process that runs now has ended; nil: it is stopped.
func (g *Replica) Exited() <-chan struct{} {
	if proc := g.process(); proc != nil {
		return proc.Exited()
	}
	return nil
}

// Signal sends a signal to the gateway.
func (g *Replica) Signal(sig syscall.Signal) error {
	proc := g.process()
	if proc == nil {
		return errors.New("the gateway is stopped")
	}
	if err := proc.Signal(sig); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}

// launch starts the process and waits until it is ready.
func (g *Replica) launch(ctx context.Context, more []string) error {
	g.life.Lock()
	defer g.life.Unlock()
	proc, err := StartProcess(g.command(more))
	if err != nil {
		return fmt.Errorf("start the gateway: %w", err)
	}
	g.mu.Lock()
	g.proc, g.args = proc, slices.Clone(more)
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, replicaReadyLimit)
	defer cancel()
	err = proc.Await(ctx, func(ctx context.Context) error {
		return errors.Join(ready(ctx, g.MetricsAddr()), accepts(ctx, g.Addr()))
	})
	if err != nil {
		return fmt.Errorf("the gateway %w\nits log ends with:\n%s", err, g.Log(20))
	}
	return nil
}

// command is the process to start.
func (g *Replica) command(more []string) ProcessConfig {
	addresses := []string{"-addr=" + g.Addr(), "-metrics-addr=" + g.MetricsAddr()}
	var env []string
	more = slices.DeleteFunc(slices.Clone(more), func(word string) bool {
		if flag := strings.HasPrefix(word, "-"); flag {
			return false
		}
		env = append(env, word)
		return true
	})
	if pod := g.cfg.Container; pod != nil {
		return ProcessConfig{
			Path:   pod.Path,
			Args:   slices.Concat(pod.Args, addresses, more),
			Env:    slices.Concat(pod.Env, env),
			Jail:   &pod.Jail,
			Output: g.log,
		}
	}
	return ProcessConfig{
		Path: g.cfg.Binary,
		Args: slices.Concat(
			[]string{"gateway", "-kubeconfig=" + g.cfg.Kubeconfig},
			addresses,
			BaseArgs(),
			g.cfg.Args,
			more,
		),
		// As outside of a Pod, even if this process is in one: there a gateway takes its time to end.
		Env:    slices.Concat([]string{"HOSTNAME=" + g.cfg.Hostname, "KUBERNETES_SERVICE_HOST="}, g.cfg.Env, env),
		Output: g.log,
	}
}

// ready returns an error unless /ready answers with 200.
func ready(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := GetPage(ctx, addr, "/ready")
	return err
}

// accepts returns an error when no server accepts connections at an address.
func accepts(ctx context.Context, addr string) error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("the gateway accepts no connections: %w", err)
	}
	return conn.Close()
}
