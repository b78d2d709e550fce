//go:build linux

package main

import (
	"context"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus/e2e/harness/kube"
)

const (
	linkerdImage = "nodes.test/linkerd-controller:1"
	isthmusImage = "registry.example.com/isthmus:v1" // as the README and the Makefile name it
)

// inLinkerdsPlace runs Linkerd's real destination controller, and lets the gateway take its place and leave it.
func (w *world) inLinkerdsPlace(ctx context.Context) error {
	if w.linkerd == "" {
		w.log("  left out: LINKERD_CONTROLLER=FILE, Linkerd's controller, is not given (e2e/cmd/nodes/README.md)")
		return nil
	}
	for _, file := range []string{"rights", "destination"} {
		text, err := os.ReadFile("e2e/testdata/linkerd/" + file + ".yaml")
		if err != nil {
			return err
		}
		objects, err := kube.Parse(string(text))
		if err != nil {
			return err
		}
		for _, o := range objects {
			if o.GetKind() == "Deployment" {
				onlyDestination(o)
			}
			if err := w.clients["west"].Apply(ctx, o); err != nil {
				return err
			}
		}
	}
	w.gateway = gateway{"linkerd-destination", "linkerd.io/control-plane-component=destination"}
	if err := w.rollout(ctx, "west", "linkerd/"+w.gateway.deployment); err != nil {
		return err
	}
	if err := w.startClients(ctx, "linkerd-clients", "linkerd-dst-headless.linkerd.svc.cluster.local:8086"); err != nil {
		return err
	}
	return w.play(ctx, []event{
		{"kubectl set image: the gateway takes the place", w.change("set", "image", "deployment/linkerd-destination", "destination="+isthmusImage)},
		{"kubectl rollout undo: Linkerd's is back", w.change("rollout", "undo", "deployment/linkerd-destination")},
	})
}

// change is an update by a command of kubectl.
func (w *world) change(args ...string) func(context.Context, *window) error {
	return func(ctx context.Context, n *window) error {
		began := time.Now()
		before, err := w.pods(ctx, 2)
		if err != nil {
			return err
		}
		if _, err := w.kubectl(ctx, "", "west", append(args, "-n", "linkerd")...); err != nil {
			return err
		}
		if err := w.finish(ctx, n, began); err != nil {
			return err
		}
		after, err := w.pods(ctx, 2)
		n.linkerds = map[string]bool{}
		for _, pod := range slices.Concat(before, after) {
			n.linkerds[addressOf(pod)] = pod.Spec.Containers[0].Image == linkerdImage
		}
		return err
	}
}

// onlyDestination leaves the Deployment the container that is real, without the proxy in front of it. It gets a second replica.
func onlyDestination(deployment *unstructured.Unstructured) {
	spec := deployment.Object["spec"].(map[string]any)
	spec["replicas"] = int64(2)
	pod := spec["template"].(map[string]any)["spec"].(map[string]any)
	delete(pod, "initContainers")
	pod["containers"] = slices.DeleteFunc(pod["containers"].([]any), func(c any) bool { return c.(map[string]any)["name"] != "destination" })
	pod["containers"].([]any)[0].(map[string]any)["image"] = linkerdImage
}
