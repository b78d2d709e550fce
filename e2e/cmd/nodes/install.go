//go:build linux

package main

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus/e2e/harness/kube"
)

//go:embed clients.yaml
var clientsYAML string

// readInstall returns the README's commands for a standalone installation, after the command that
// builds the image.
func readInstall() ([]string, error) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		return nil, err
	}
	_, section, _ := strings.Cut(string(text), "\n## Install\n")
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, _ = strings.Cut(block, "\n```")
	lines := strings.Split(block, "\n")
	if len(lines) != 3 || !regexp.MustCompile(`^make image IMAGE=\S+ && docker push`).MatchString(lines[0]) {
		return nil, fmt.Errorf("not the three commands that were expected: %q", lines)
	}
	return lines[1:], nil
}

func install(ctx context.Context, w *world) error {
	commands, err := readInstall()
	if err != nil {
		return err
	}
	commands = slices.Insert(
		commands,
		1,
		"kubectl label namespace linkerd pod-security.kubernetes.io/enforce=restricted",
	)
	commands = append(
		commands,
		"kubectl rollout status -n linkerd deployment/isthmus --timeout=5m",
		"isthmus link east --context east --apply",
	)
	for _, command := range commands {
		w.log("  $ %s", command)
		if _, err := run(ctx, "", "sh", "-ec", command); err != nil {
			return err
		}
	}
	return w.startClients(ctx, "clients", "isthmus.linkerd.svc.cluster.local:8086")
}

const (
	linkerdImage = "nodes.test/linkerd-controller:1"
	isthmusImage = "registry.example.com/isthmus:v1" // the name in the README and the Makefile
)

// inLinkerdsPlace runs Linkerd's real destination controller, replaces it by Isthmus, and switches
// back.
func inLinkerdsPlace(ctx context.Context, w *world) error {
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
	w.target = target{"linkerd-destination", "linkerd.io/control-plane-component=destination"}
	if err := w.rollout(ctx, "west", "linkerd/"+w.target.deployment); err != nil {
		return err
	}
	if err := w.startClients(
		ctx,
		"linkerd-clients",
		"linkerd-dst-headless.linkerd.svc.cluster.local:8086",
	); err != nil {
		return err
	}
	happen := events{w}
	return happen.play(ctx, []event{
		{
			"kubectl set image: Isthmus replaces Linkerd's controller",
			happen.change("set", "image", "deployment/linkerd-destination", "destination="+isthmusImage),
		},
		{
			"kubectl rollout undo: Linkerd's controller is back",
			happen.change("rollout", "undo", "deployment/linkerd-destination"),
		},
	})
}

// onlyDestination removes all containers from the Deployment except the destination controller, and
// sets two replicas.
func onlyDestination(deployment *unstructured.Unstructured) {
	spec := deployment.Object["spec"].(map[string]any)
	spec["replicas"] = int64(2)
	pod := spec["template"].(map[string]any)["spec"].(map[string]any)
	delete(pod, "initContainers")
	pod["containers"] = slices.DeleteFunc(
		pod["containers"].([]any),
		func(c any) bool { return c.(map[string]any)["name"] != "destination" },
	)
	pod["containers"].([]any)[0].(map[string]any)["image"] = linkerdImage
}

// writeImage writes an image with one static program in the format of `docker save`.
func writeImage(path, name, program string) (err error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layerPath := path + ".layer"
	if err := writeTar(layerPath, map[string][]byte{"program": data}); err != nil {
		return err
	}
	defer os.Remove(layerPath)
	layer, err := os.ReadFile(layerPath)
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/program"}, "User": "65532:65532"},
		"rootfs": map[string]any{
			"type":     "layers",
			"diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))},
		},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(
		[]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}},
	)
	if err != nil {
		return err
	}
	return writeTar(path, map[string][]byte{"config.json": config, "manifest.json": manifest, "layer.tar": layer})
}

// writeLayout writes a directory, such as an OCI layout, as a single tar file.
func writeLayout(path, dir string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(f)
	return errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close(), f.Close())
}

func writeTar(path string, files map[string][]byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	archive := tar.NewWriter(f)
	for name, data := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return f.Close()
}
