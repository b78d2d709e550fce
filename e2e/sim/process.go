package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"isthmus/e2e/gateway"
)

// startGateway runs a gateway that is local to the first cluster, with flags after those that all tests have.
func (w *world) startGateway(ctx context.Context, args ...string) (*gateway.Gateway, error) {
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
	return gateway.Start(ctx, gateway.Config{
		Binary: w.cfg.Gateway, Kubeconfig: kubeconfig, Output: w.cfg.Log,
		Args: append([]string{"-target-cluster-label=true"}, args...),
	})
}

// fetch reads a page of the gateway's admin server.
func fetch(ctx context.Context, g *gateway.Gateway, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.MetricsAddr()+path, nil)
	if err != nil {
		return nil, err
	}
	admin := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	resp, err := admin.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s says %s", path, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
