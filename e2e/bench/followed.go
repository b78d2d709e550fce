package bench

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/gateway"
)

// followed is a fleet, and a gateway that follows it.
type followed struct {
	fleet   *fleet.Fleet
	gateway *gateway.Gateway
	ready   time.Duration // the gateway took to start
}

// follow starts a fleet and a gateway, with more flags, until end.
func follow(ctx context.Context, cfg Config, what fleet.Config, more ...string) (*followed, error) {
	f, kubeconfig, err := startFleet(cfg, what)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	g, err := startGateway(ctx, cfg.Isthmus, kubeconfig, more...)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &followed{f, g, time.Since(began)}, nil
}

// end ends both. It is an error if the gateway has failed before.
func (f *followed) end(ctx context.Context) error {
	return errors.Join(f.gateway.Check(ctx), f.gateway.Stop(), f.fleet.Close())
}

// startFleet starts a fleet, and writes the kubeconfig of the cluster that gateways are local to.
func startFleet(cfg Config, what fleet.Config) (_ *fleet.Fleet, kubeconfig string, err error) {
	f, err := fleet.Start(what)
	if err != nil {
		return nil, "", err
	}
	kubeconfig = filepath.Join(cfg.Dir, "fleet.kubeconfig")
	if err := f.WriteKubeconfig(kubeconfig); err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return f, kubeconfig, nil
}
