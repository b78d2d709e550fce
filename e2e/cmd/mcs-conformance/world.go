//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

const (
	remoteNamespace = "linkerd-multicluster"
	firstDNSPort    = 5301 // port of the first cluster's CoreDNS in the network namespace

	// massHold is the time for which Isthmus delays a mass deletion. The suite deletes exports so
	// fast that they count as a mass loss, and only waits 20 s until a ServiceImport is deleted.
	massHold = "10s" // the minimum
)

var (
	// names are the names of the clusters and contexts. The suite exports from the first cluster.
	names       = []string{"west", "east"}
	controllers = []string{"namespace", "serviceaccount", "gc", "endpointslice", "deployment", "replicaset"}
	applied     = []string{
		"install/mcs-crds/serviceexports.yaml",
		"install/mcs-crds/serviceimports.yaml",
		"install/rbac.yaml",
		"install/exports/rbac.yaml",
		"install/exports/guard/guard.yaml",
		"install/exports/guard/mark.yaml",
		"link/remote-access.yaml",
	}
)

type world struct {
	kubeconfigs []string // kubeconfigs of administrators, in the order of names
	undo        []func() error
}

func (w *world) later(undo func() error) { w.undo = append(w.undo, undo) }

func (w *world) close() (err error) {
	for _, undo := range slices.Backward(w.undo) {
		err = errors.Join(err, undo())
	}
	return err
}

func (w *world) start(ctx context.Context) error {
	var configs []harness.ClusterConfig
	for _, name := range names {
		configs = append(configs, harness.ClusterConfig{
			Name:        name,
			Dir:         filepath.Join(state, name),
			Binary:      filepath.Join(bin, "controlplane"),
			Controllers: controllers,
			All:         true,
		})
	}
	servers, err := harness.StartClusters(ctx, configs...)
	if err != nil {
		return err
	}
	for _, server := range servers {
		w.later(server.Close)
	}
	var clients []*kube.Client
	for _, server := range servers {
		client, err := kube.NewClient(server.Name(), server.REST())
		if err != nil {
			return err
		}
		w.later(func() error { client.Close(); return nil })
		if err := install(ctx, client); err != nil {
			return err
		}
		clients, w.kubeconfigs = append(clients, client), append(w.kubeconfigs, server.Kubeconfig())
	}
	if err := installPodPrograms(); err != nil {
		return err
	}
	answers, err := newAnswers()
	if err != nil {
		return err
	}
	w.later(answers.listener.Close)
	for i, client := range clients {
		if err := w.serve(ctx, i, client, clients[1-i], answers); err != nil {
			return fmt.Errorf("cluster %s: %w", client.Name, err)
		}
	}
	return nil
}

// serve links another cluster, and starts Isthmus, CoreDNS and the simulated node of a cluster.
func (w *world) serve(ctx context.Context, number int, c, other *kube.Client, answers *answers) error {
	isthmus, err := w.link(ctx, c, other)
	if err != nil {
		return err
	}
	log, err := w.log(c.Name + ".coredns.log")
	if err != nil {
		return err
	}
	port := firstDNSPort + number
	stop, err := startDNS(ctx, c.Name, port, w.kubeconfigs[number], log)
	if err != nil {
		return err
	}
	w.later(stop)
	env := []string{dnsEnv + "=" + dnsAddress(port), isthmusEnv + "=" + isthmus}
	undo, err := runNode(ctx, c, number, answers, env)
	if err == nil {
		w.later(undo)
	}
	return err
}

func (w *world) log(name string) (*os.File, error) {
	log, err := os.Create(filepath.Join(out, name))
	if err == nil {
		w.later(log.Close)
	}
	return log, err
}

func install(ctx context.Context, c *kube.Client) error {
	if err := c.Apply(ctx, kube.Namespace(kube.LinkNamespace), kube.Namespace(remoteNamespace)); err != nil {
		return err
	}
	for _, name := range applied {
		text, err := os.ReadFile(filepath.Join(manifests, name))
		if err != nil {
			return err
		}
		if err := c.ApplyYAML(ctx, string(text)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (w *world) link(ctx context.Context, c, other *kube.Client) (string, error) {
	remote, err := access(ctx, other, remoteNamespace, "isthmus-remote-access")
	if err != nil {
		return "", err
	}
	own, err := access(ctx, c, kube.LinkNamespace, "isthmus")
	if err != nil {
		return "", err
	}
	kubeconfig := filepath.Join(state, c.Name+".gateway")
	err = errors.Join(c.Apply(ctx, kube.Link(other.Name, remote)), os.WriteFile(kubeconfig, own, 0o600))
	if err != nil {
		return "", err
	}
	log, err := w.log(c.Name + ".log")
	if err != nil {
		return "", err
	}
	g, err := harness.StartReplica(ctx, harness.ReplicaConfig{
		Binary:     filepath.Join(bin, "isthmus"),
		Kubeconfig: kubeconfig,
		Output:     log,
		Args: []string{
			"-exports=on", "-cluster-name=" + c.Name, "-enable-ipv6=true", "-shutdown-delay=0s", "-drain=0s",
			"-unlinked-after=" + massHold,
		},
	})
	if err != nil {
		return "", err
	}
	w.later(g.Stop)
	return g.Addr(), nil
}

func access(ctx context.Context, c *kube.Client, namespace, account string) ([]byte, error) {
	token, err := c.Token(ctx, namespace, account)
	if err != nil {
		return nil, err
	}
	return c.Kubeconfig(c.Server(), clientcmdapi.AuthInfo{Token: token})
}
