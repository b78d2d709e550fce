package sim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"isthmus/e2e/harness"
	"isthmus/internal/adminapi"
)

// startGateway runs a gateway that is local to the first cluster, with flags after those that all tests have.
func (w *world) startGateway(ctx context.Context, args ...string) (*harness.Replica, error) {
	local := w.clusters[0]
	text, err := local.api.Kubeconfig(local.proxy.Addr(), local.token())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "isthmus-sim-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // a gateway reads it once
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		return nil, err
	}
	return harness.StartReplica(ctx, harness.ReplicaConfig{
		Binary: w.cfg.Gateway, Kubeconfig: kubeconfig, Output: w.cfg.Log,
		Args: append([]string{"-target-cluster-label=true"}, args...),
		Env:  []string{"ISTHMUS_TEST_LOOPBACK_GATEWAYS=true"}, // those that the simulator plays
	})
}

// ready returns why a cluster is not ready though it is linked.
func (c *cluster) ready(page adminapi.Clusters) error {
	if c.link.accepted == "" {
		return nil
	}
	state := "unknown"
	for _, x := range page.Clusters {
		if x.Cluster != c.name || x.State == "rejected" {
			continue
		}
		state = string(x.State)
		if c.link.good() && strings.Contains(strings.Join(x.Warnings, " "), "new credentials") {
			state = "not rotated"
		}
		if state == "ready" {
			return nil
		}
	}
	return fmt.Errorf("the gateway shows cluster %s as %s", c.name, state)
}
