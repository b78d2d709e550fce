//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"isthmus/e2e/harness"
)

const dnsLimit = time.Minute

// startDNS starts CoreDNS on a port and waits until it responds for the cluster. Its Corefile
// contains the block from docs/mcs.md.
func startDNS(
	ctx context.Context, cluster string, port int, kubeconfig string, log *os.File,
) (stop func() error, err error) {
	block, err := documentedBlock()
	if err != nil {
		return nil, err
	}
	access := fmt.Sprintf("{\n    kubeconfig %s %s\n", kubeconfig, cluster)
	corefile := fmt.Sprintf(".:%d {\nerrors\n%s\n}\n", port, strings.Replace(block, "{\n", access, 1))
	path := filepath.Join(state, cluster+".Corefile")
	if err := os.WriteFile(path, []byte(corefile), 0o600); err != nil {
		return nil, err
	}
	process, err := harness.StartProcess(harness.ProcessConfig{
		Path:   filepath.Join(bin, "node", "coredns"),
		Args:   []string{"-conf", path},
		Output: log,
	})
	if err != nil {
		return nil, fmt.Errorf("CoreDNS: %w", err)
	}
	if err := awaitDNS(ctx, dnsAddress(port)); err != nil {
		return nil, errors.Join(fmt.Errorf("CoreDNS of cluster %s: %w", cluster, err), process.Kill())
	}
	return process.Kill, nil
}

func documentedBlock() (string, error) {
	path := filepath.Join(docs, "mcs.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	const fence = "```\n"
	_, rest, _ := bytes.Cut(text, []byte(fence+"kubernetes "))
	block, _, found := bytes.Cut(rest, []byte(fence))
	if !found {
		return "", fmt.Errorf("%s has no block of a Corefile that begins with kubernetes", path)
	}
	return "kubernetes " + string(block), nil
}

func dnsAddress(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// awaitDNS waits until CoreDNS resolves a Service that exists in every cluster.
func awaitDNS(ctx context.Context, address string) error {
	return harness.Poll(ctx, dnsLimit, 100*time.Millisecond, func() error {
		lookup := exec.CommandContext(ctx, podProgram("nslookup"), "kubernetes.default.svc.cluster.local.")
		lookup.Env = []string{dnsEnv + "=" + address}
		if text, err := lookup.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	})
}
