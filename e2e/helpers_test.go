package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

func startClusters(t *testing.T, controllers []string, names ...string) []*harness.Cluster {
	t.Helper()
	var configs []harness.ClusterConfig
	for _, name := range names {
		configs = append(
			configs,
			harness.ClusterConfig{Name: name, Dir: filepath.Join(t.TempDir(), name), Controllers: controllers},
		)
	}
	servers, err := harness.StartClusters(t.Context(), configs...)
	must(t, err)
	for _, c := range servers {
		atEnd(t, c.Close)
	}
	return servers
}

func startGateway(t *testing.T, cfg harness.ReplicaConfig) *harness.Replica {
	t.Helper()
	g, err := harness.StartReplica(t.Context(), cfg)
	must(t, err)
	atEnd(t, g.Stop)
	return g
}

func client(t *testing.T, c *harness.Cluster) *kube.Client {
	t.Helper()
	k, err := kube.NewClient(c.Name(), c.REST())
	must(t, err)
	t.Cleanup(k.Close)
	return k
}

// ready returns an error unless all resources of the local cluster and of a linked one are ready.
func ready(p adminapi.Clusters, name string) error {
	all := append([]adminapi.Cluster{p.Local}, p.Clusters...)
	found := false
	for _, c := range all {
		found = found || c.Cluster == name
		if c.State != "ready" {
			return fmt.Errorf("%q is %s: %s", c.Cluster, c.State, c.Reason)
		}
		for _, r := range c.Resources {
			if !r.Synced || r.Err != "" {
				return fmt.Errorf("%q: %s: %s", c.Cluster, r.Resource, r.Err)
			}
		}
	}
	if !found {
		return fmt.Errorf("cluster %s is missing: %+v", name, all)
	}
	return nil
}

// awaitReady waits until all resources of the local cluster and of a linked one are ready.
func awaitReady(t *testing.T, g *harness.Replica, name string) {
	t.Helper()
	await(t, "both clusters are ready, with all their resources", func() error {
		page, err := harness.ReadClusters(t.Context(), g.MetricsAddr())
		if err != nil {
			return err
		}
		return ready(page, name)
	})
}

type verbRun struct {
	stdout, stderr string
	code           int
}

func runVerb(t *testing.T, file string, args ...string) verbRun {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), file, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return verbRun{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// await polls check for three minutes, because Isthmus reads some facts, such as Pod networks, at
// most once per minute.
func await(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := harness.Poll(t.Context(), 3*time.Minute, 50*time.Millisecond, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

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
