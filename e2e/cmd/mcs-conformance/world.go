package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/cluster"
	"isthmus/e2e/gateway"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
)

const remoteNamespace = "linkerd-multicluster"

var (
	// names are those of the clusters, and of their contexts. To the suite the first is the one that exports.
	names = []string{"west", "east"}
	// controllers are those of a real cluster that play a part.
	controllers = []string{"namespace", "serviceaccount", "gc"}
	// applied are the manifests that each cluster gets.
	applied = []string{
		"install/mcs-crds/serviceexports.yaml",
		"install/mcs-crds/serviceimports.yaml",
		"install/rbac.yaml",
		"install/exports/rbac.yaml",
		"install/exports/guard/guard.yaml",
		"install/exports/guard/mark.yaml",
		"link/remote-access.yaml",
	}
)

// world is the clusters with their gateways.
type world struct {
	kubeconfigs []string // administrators', in the order of names
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
	var configs []cluster.Config
	for _, name := range names {
		configs = append(configs, cluster.Config{
			Name: name, Dir: filepath.Join(state, name), Binary: filepath.Join(bin, "controlplane"), Controllers: controllers, All: true,
		})
	}
	servers, err := cluster.StartAll(ctx, configs...)
	if err != nil {
		return err
	}
	for _, server := range servers {
		w.later(server.Close)
	}
	var clients []*kube.Client
	for _, server := range servers {
		client, err := kube.New(server.Name(), server.REST())
		if err != nil {
			return err
		}
		w.later(func() error { client.Close(); return nil })
		if err := install(ctx, client); err != nil {
			return err
		}
		w.later(runPods(client))
		clients, w.kubeconfigs = append(clients, client), append(w.kubeconfigs, server.Kubeconfig())
	}
	for i, client := range clients {
		if err := w.link(ctx, client, clients[1-i]); err != nil {
			return fmt.Errorf("cluster %s: %w", client.Name, err)
		}
	}
	return nil
}

// install applies definitions and rights.
func install(ctx context.Context, c *kube.Client) error {
	if err := c.Apply(ctx, object.Namespace(object.LinkNamespace), object.Namespace(remoteNamespace)); err != nil {
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

// link links another cluster, and starts the gateway.
func (w *world) link(ctx context.Context, c, other *kube.Client) error {
	remote, err := access(ctx, other, remoteNamespace, "isthmus-remote-access")
	if err != nil {
		return err
	}
	own, err := access(ctx, c, object.LinkNamespace, "isthmus")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(state, c.Name+".gateway")
	if err := errors.Join(c.Apply(ctx, object.Link(other.Name, remote)), os.WriteFile(kubeconfig, own, 0o600)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(out, c.Name+".log"))
	if err != nil {
		return err
	}
	w.later(log.Close)
	g, err := gateway.Start(ctx, gateway.Config{
		Binary: filepath.Join(bin, "isthmus"), Kubeconfig: kubeconfig, Output: log, Args: []string{"-exports=on", "-cluster-name=" + c.Name, "-shutdown-delay=0s", "-drain=0s"},
	})
	if err == nil {
		w.later(g.Stop)
	}
	return err
}

// access returns a kubeconfig of a ServiceAccount.
func access(ctx context.Context, c *kube.Client, namespace, account string) ([]byte, error) {
	token, err := c.Token(ctx, namespace, account)
	if err != nil {
		return nil, err
	}
	return c.Kubeconfig(c.Server(), clientcmdapi.AuthInfo{Token: token})
}
