package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/e2e/shop"
)

const firstToken = "remote-access-token-1"

// setUp is the act that starts the clusters and Isthmus, and opens the proxy's stream.
type setUp struct{ *demo }

func (s setUp) play(ctx context.Context) error {
	if s.options.bin == "" {
		s.screen.print("  building the programs; the first build takes some minutes\n")
	}
	isthmus, controlplane, err := s.options.programs(ctx)
	if err != nil {
		return err
	}
	s.isthmus = isthmus
	return s.parts(ctx, []part{
		{
			"start the API servers of west, east and north",
			func(ctx context.Context) error { return s.startClusters(ctx, controlplane) },
		},
		{"deploy web and cart in each cluster", s.deploy},
		{"link east and north to west", s.link},
		{"start Isthmus in west", s.startGateway},
	})
}

func (s setUp) startClusters(ctx context.Context, binary string) error {
	var configs []harness.ClusterConfig
	for _, name := range names {
		configs = append(configs, harness.ClusterConfig{
			Name:        name,
			Dir:         filepath.Join(s.dir, name),
			Binary:      binary,
			Controllers: shop.Controllers,
			All:         s.options.keep,
		})
	}
	servers, err := harness.StartClusters(ctx, configs...)
	if err != nil {
		return err
	}
	for _, server := range servers {
		s.servers[server.Name()] = server
		s.later(server.Close)
	}
	for i, server := range servers {
		c, err := shop.New(server.Name(), byte(i+1), server.REST())
		if err != nil {
			return err
		}
		s.shops[server.Name()] = c
		s.later(func() error { c.Close(); return nil })
		s.background(ctx, c.Run)
	}
	return nil
}

func (s setUp) deploy(ctx context.Context) error {
	web := map[string]int{west: 3, east: 2, north: 2}
	err := s.everywhere(func(c *shop.Cluster) error {
		return errors.Join(c.Deploy(ctx, web[c.Name], 2), c.ServeMCS(ctx, kube.MCSVersions...))
	})
	if err != nil {
		return err
	}
	return s.shops[west].Mirror(ctx)
}

// everywhere calls a function for all clusters in parallel and returns the first error.
func (s setUp) everywhere(do func(*shop.Cluster) error) error {
	var all errgroup.Group
	for _, name := range names {
		all.Go(func() error { return do(s.shops[name]) })
	}
	return all.Wait()
}

func (s setUp) link(ctx context.Context) error {
	kubeconfig, err := s.shops[west].GatewayAccess(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path("gateway.kubeconfig"), kubeconfig, 0o600); err != nil {
		return err
	}
	for _, remote := range []string{east, north} {
		if _, err := s.linkBy(ctx, remote, firstToken); err != nil {
			return err
		}
	}
	return nil
}

func (s setUp) startGateway(ctx context.Context) error {
	log, err := os.OpenFile(s.path("gateway.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	s.later(log.Close)
	var env []string
	if s.options.networks { // the gateways run on this machine
		env = []string{"ISTHMUS_TEST_LOOPBACK_GATEWAYS=true"}
	}
	s.gateway, err = harness.StartReplica(ctx, harness.ReplicaConfig{
		Binary: s.isthmus, Kubeconfig: s.path("gateway.kubeconfig"), Output: log, Env: env,
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
	s.later(s.gateway.Stop)
	stream, closes, err := s.subscribe(ctx, proxy.Get, federated)
	if err != nil {
		return err
	}
	s.stream = stream
	s.later(closes)
	return nil
}
