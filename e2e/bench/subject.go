package bench

import (
	"context"
	"errors"
	"time"

	"isthmus/e2e/bench/floor"
	"isthmus/e2e/bench/world"
	"isthmus/e2e/gateway"
)

// Kind is which server a number belongs to.
type Kind string

const (
	Floor   Kind = "floor"
	Gateway Kind = "gateway" // or whatever other server is measured
)

// subject is a running server.
type subject interface {
	Addr() string
	Pid() int
	// change changes one endpoint of a service, or its profile if the method is that of profiles, and returns when the streams
	// could be sent the change.
	change(ctx context.Context, s service) (time.Time, error)
	Stop() error
}

// service is what a stream subscribes to, and where it can be changed.
type service struct {
	method, authority string
	cluster           int    // by number
	name              string // of the Service there
	also              string // another authority that changes with it; empty: none
}

// measured is a server that follows the clusters.
type measured struct {
	world *world.World
	addr  string
	pid   int
	stop  func() error
}

func (m *measured) Addr() string { return m.addr }
func (m *measured) Pid() int     { return m.pid }
func (m *measured) Stop() error  { return m.stop() }

func (m *measured) change(ctx context.Context, s service) (time.Time, error) {
	if s.method == profileMethod {
		return m.world.FlipProfile(ctx, s.cluster, s.name)
	}
	at, _, err := m.world.Flip(ctx, s.cluster, s.name)
	return at, err
}

// bare is a floor.
type bare struct {
	*floor.Process
	turns *turns
}

func (b bare) change(_ context.Context, s service) (time.Time, error) {
	turn := b.turns.next(s.method + " " + s.authority)
	err := b.Step(s.method, s.authority, turn)
	if s.also != "" {
		err = errors.Join(err, b.Step(s.method, s.also, turn))
	}
	return time.Now(), err
}

// beside is a floor that steps once the clusters have been changed as for the gateway: it has no more of the processors.
type beside struct {
	bare
	world *world.World
}

func (b beside) change(ctx context.Context, s service) (time.Time, error) {
	if _, _, err := b.world.Flip(ctx, s.cluster, s.name); err != nil {
		return time.Time{}, err
	}
	return b.bare.change(ctx, s)
}

// start starts a server of a kind.
func (l *Lab) start(ctx context.Context, kind Kind) (subject, error) {
	switch {
	case kind == Floor:
		p, err := floor.Start(ctx, append(l.cfg.Floor, l.recording)...)
		if err != nil {
			return nil, err
		}
		return bare{p, &turns{}}, nil
	case l.cfg.Addr != "":
		return &measured{l.world, l.cfg.Addr, l.cfg.Pid, func() error { return nil }}, nil
	}
	g, err := startGateway(ctx, l.cfg.Isthmus, l.world.Kubeconfig())
	if err != nil {
		return nil, err
	}
	return &measured{l.world, g.Addr(), g.Pid(), func() error { return errors.Join(g.Check(ctx), g.Stop()) }}, nil
}

func startGateway(ctx context.Context, binary, kubeconfig string, more ...string) (*gateway.Gateway, error) {
	return gateway.Start(ctx, gateway.Config{Binary: binary, Kubeconfig: kubeconfig, Args: append(gatewayArgs(), more...)})
}

// gatewayArgs are the flags of a Linkerd install, beyond those of gateway.BaseArgs, and an end without delay.
func gatewayArgs() []string {
	return []string{"-log-level=info", "-outbound-transport-mode=transport-header", "-target-cluster-label=true", "-shutdown-delay=0s", "-drain=0s"}
}
