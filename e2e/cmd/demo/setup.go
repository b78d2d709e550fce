package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
)

const firstToken = "remote-access-token-1"

func (d *demo) setUp(ctx context.Context) error {
	if d.options.bin == "" {
		d.screen.print("  building the programs; the first build takes some minutes\n")
	}
	isthmus, controlplane, err := d.options.programs(ctx)
	if err != nil {
		return err
	}
	d.isthmus = isthmus
	return d.parts(ctx, []part{
		{
			"start the API servers of west, east and north",
			func(ctx context.Context) error { return d.startClusters(ctx, controlplane) },
		},
		{"deploy web and cart in each cluster", d.deploy},
		{"link east and north to west", d.link},
		{"start Isthmus in west", d.startGateway},
	})
}

type part struct {
	what string
	do   func(context.Context) error
}

func (d *demo) parts(ctx context.Context, list []part) error {
	for _, p := range list {
		start := time.Now()
		if err := p.do(ctx); err != nil {
			return d.explain(p.what, err)
		}
		d.screen.done(p.what, time.Since(start))
	}
	return nil
}

func (d *demo) startClusters(ctx context.Context, binary string) error {
	var configs []harness.ClusterConfig
	for _, name := range names {
		configs = append(configs, harness.ClusterConfig{
			Name:        name,
			Dir:         filepath.Join(d.dir, name),
			Binary:      binary,
			Controllers: shop.Controllers,
			All:         d.options.keep,
		})
	}
	servers, err := harness.StartClusters(ctx, configs...)
	if err != nil {
		return err
	}
	for _, server := range servers {
		d.servers[server.Name()] = server
		d.later(server.Close)
	}
	for i, server := range servers {
		c, err := shop.New(server.Name(), byte(i+1), server.REST())
		if err != nil {
			return err
		}
		d.shops[server.Name()] = c
		d.later(func() error { c.Close(); return nil })
		d.background(ctx, c.Run)
	}
	return nil
}

func (d *demo) deploy(ctx context.Context) error {
	web := map[string]int{west: 3, east: 2, north: 2}
	err := d.everywhere(func(c *shop.Cluster) error {
		return errors.Join(c.Deploy(ctx, web[c.Name], 2), c.ServeMCS(ctx, kube.MCSVersions...))
	})
	if err != nil {
		return err
	}
	return d.shops[west].Mirror(ctx)
}

// everywhere calls a function for all clusters in parallel and returns the first error.
func (d *demo) everywhere(do func(*shop.Cluster) error) error {
	var all errgroup.Group
	for _, name := range names {
		all.Go(func() error { return do(d.shops[name]) })
	}
	return all.Wait()
}

func (d *demo) link(ctx context.Context) error {
	kubeconfig, err := d.shops[west].GatewayAccess(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.path("gateway.kubeconfig"), kubeconfig, 0o600); err != nil {
		return err
	}
	for _, remote := range []string{east, north} {
		if _, err := d.linkBy(ctx, remote, firstToken); err != nil {
			return err
		}
	}
	return nil
}

// linkBy links a cluster with the token of the given name, which it creates if necessary. It
// returns the time of the write.
func (d *demo) linkBy(ctx context.Context, remote, token string) (time.Time, error) {
	kubeconfig, err := d.shops[remote].RemoteAccess(ctx, token)
	if err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	return now, d.shops[west].Link(ctx, remote, kubeconfig)
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

func (d *demo) startGateway(ctx context.Context) error {
	log, err := os.OpenFile(d.path("gateway.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	d.later(log.Close)
	var env []string
	if d.options.networks { // the gateways run on this machine
		env = []string{"ISTHMUS_TEST_LOOPBACK_GATEWAYS=true"}
	}
	d.gateway, err = harness.StartReplica(ctx, harness.ReplicaConfig{
		Binary: d.isthmus, Kubeconfig: d.path("gateway.kubeconfig"), Output: log, Env: env,
		Args: []string{ // the defaults of Linkerd's chart, followed by the demo's flags
			"-outbound-transport-mode=transport-header",
			`-meshed-http2-client-params={"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},` +
				`"while_idle":true}}`,
			"-log-level=info",
			"-target-cluster-label=true", // adds the label that the table uses for clusters
			"-exports=on",
			"-shutdown-delay=0s", "-drain=1s", // the proxy need not move to another replica
		},
	})
	if err != nil {
		return err
	}
	d.later(d.gateway.Stop)
	stream, closes, err := d.subscribe(ctx, proxy.Get, federated)
	if err != nil {
		return err
	}
	d.stream = stream
	d.later(closes)
	return nil
}

// subscribe opens a stream like the proxy of a Pod in west.
func (d *demo) subscribe(
	ctx context.Context,
	kind proxy.Kind,
	authority string,
) (stream *proxy.Stream, closes func() error, err error) {
	conn, err := proxy.Dial(d.gateway.Addr())
	if err != nil {
		return nil, nil, err
	}
	stream = proxy.NewStream(proxy.Config{
		Conn: conn, Kind: kind, Authority: authority,
		Token: fmt.Sprintf(`{"ns":"shop","nodeName":%q,"pod":"demo"}`, d.shops[west].Node()),
	})
	// The stream outlives ctx, so that Ctrl-C does not look like a fault of Isthmus.
	if err := stream.Open(context.WithoutCancel(ctx)); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return stream, func() error {
		stream.Close()
		return conn.Close()
	}, nil
}
