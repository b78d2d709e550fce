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
	replicaReadyLimit = 3 * time.Minute
	// replicaStopLimit is longer than a replica's default wait for its proxies after SIGTERM.
	replicaStopLimit = time.Minute
)

// ReplicaConfig configures a Replica.
type ReplicaConfig struct {
	Binary     string     // path of the isthmus command; the default is Isthmus
	Kubeconfig string     // kubeconfig of the replica's local cluster
	Args       []string   // flags after those of BaseArgs
	Env        []string   // KEY=VALUE, in addition to the environment of this process
	Hostname   string     // name of the replica; the default is isthmus-0
	Container  *Container // replaces the fields above if not nil
	Output     io.Writer  // optional writer for the log
}

// Container runs a replica as in a container, with exactly these arguments and this environment.
// Only the addresses differ: StartReplica chooses them, because the replica shares the machine's
// network.
type Container struct {
	Path string // path of the command inside of the jail
	Args []string
	Env  []string // KEY=VALUE
	Jail Jail
}

// BaseArgs returns the flags that cases rely on, without addresses and kubeconfig.
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

// Replica is an Isthmus process that is only used like in a cluster: through its flags, ports and
// signals.
//
//	r, err := harness.StartReplica(ctx, harness.ReplicaConfig{
//		Kubeconfig: west.Kubeconfig(),
//		Args:       []string{"-pace=0s"},
//	})
//	...
//	defer r.Stop()
//	conn, err := proxy.Dial(r.Addr())
//
// A Replica is ready when StartReplica or Restart returns. Its ports are reserved until Stop, so
// that clients find it on the same addresses after a restart. Its log goes to ReplicaConfig.Output
// and to a bounded buffer, whose end is part of errors.
//
// All methods are safe for concurrent use. Restart and Stop wait for each other.
type Replica struct {
	cfg         ReplicaConfig
	grpc, admin *Port // reserved until Stop, because a replica only listens while it is ready
	log         *Tail

	life sync.Mutex // held while the process is started or stopped

	mu   sync.Mutex
	args []string // additional flags of the last start
	proc *Process
}

// StartReplica starts a replica on free ports of 127.0.0.1 and waits until it is ready. The context
// only limits the wait: the replica runs until Stop or until this process ends.
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

// Clusters and fault proxies use ranges above these ports.
const firstReplicaPort, lastReplicaPort = 10000, 19999

// Addr returns the gRPC address.
func (g *Replica) Addr() string { return g.grpc.Addr() }

// MetricsAddr returns the address of the admin server.
func (g *Replica) MetricsAddr() string { return g.admin.Addr() }

// Args returns the additional flags of the last Restart.
func (g *Replica) Args() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.args)
}

// Log returns the last lines of the log, which includes earlier runs.
func (g *Replica) Log(lines int) string { return g.log.Lines(lines) }

// Check returns an error if the replica has exited or does not accept connections.
func (g *Replica) Check(ctx context.Context) error {
	proc := g.process()
	if proc == nil {
		return errors.New("the replica is stopped")
	}
	if !proc.Running() {
		return fmt.Errorf("the replica has exited: %w", proc.Err())
	}
	return accepts(ctx, g.Addr())
}

// Pid returns the process id of the replica, or 0 while the replica is stopped.
func (g *Replica) Pid() int {
	if proc := g.process(); proc != nil {
		return proc.Pid()
	}
	return 0
}

// process returns the last started process, which may have exited. It returns nil if the replica
// was stopped.
func (g *Replica) process() *Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.proc
}

// Restart stops the replica and starts it again on the same addresses, with additional flags.
// Arguments without a leading dash are environment variables, NAME=VALUE. Flags and variables
// follow those of the ReplicaConfig. Restart returns when the replica is ready.
func (g *Replica) Restart(ctx context.Context, args ...string) error {
	if err := g.Halt(); err != nil {
		return err
	}
	return g.launch(ctx, args)
}

// Stop permanently stops the replica, as Halt does, and releases its ports.
func (g *Replica) Stop() error {
	return errors.Join(g.Halt(), g.grpc.Release(), g.admin.Release())
}

// Halt stops the process with SIGTERM. If the process is still running after replicaStopLimit, Halt
// kills it and returns an error. A process that has already ended is not an error. Restart starts
// the replica again.
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
		return fmt.Errorf("stop the replica: %w\nits log ends with:\n%s", err, g.Log(20))
	}
	return nil
}

// Exited returns a channel that is closed when the current process has ended. It returns nil if the
// replica is stopped.
func (g *Replica) Exited() <-chan struct{} {
	if proc := g.process(); proc != nil {
		return proc.Exited()
	}
	return nil
}

func (g *Replica) Signal(sig syscall.Signal) error {
	proc := g.process()
	if proc == nil {
		return errors.New("the replica is stopped")
	}
	if err := proc.Signal(sig); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}

func (g *Replica) launch(ctx context.Context, more []string) error {
	g.life.Lock()
	defer g.life.Unlock()
	proc, err := StartProcess(g.command(more))
	if err != nil {
		return fmt.Errorf("start the replica: %w", err)
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
		return fmt.Errorf("the replica %w\nits log ends with:\n%s", err, g.Log(20))
	}
	return nil
}

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
		// The empty variable hides that this process may run in a Pod, where a replica delays its
		// shutdown.
		Env:    slices.Concat([]string{"HOSTNAME=" + g.cfg.Hostname, "KUBERNETES_SERVICE_HOST="}, g.cfg.Env, env),
		Output: g.log,
	}
}

func ready(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := GetPage(ctx, addr, "/ready")
	return err
}

func accepts(ctx context.Context, addr string) error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("the replica accepts no connections: %w", err)
	}
	return conn.Close()
}
