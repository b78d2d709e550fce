package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"isthmus/e2e/harness/kube"
)

var (
	// shownInDocs is a kustomization in a page of docs.
	shownInDocs = regexp.MustCompile("(?s)\n```yaml\n(# kustomization.yaml\n.*?)\n```\n")
	// shownInHead is a line of the kustomization that the comment at the head of a kustomization.yaml shows.
	shownInHead = regexp.MustCompile(`(?m)^#   (.*)\n`)
)

// documentedKustomizations returns each kustomization that docs, the README and the heads of manifests show,
// by where it is shown.
func documentedKustomizations(t *testing.T) map[string]string {
	t.Helper()
	shown := make(map[string]string)
	pages, err := filepath.Glob("../docs/*.md")
	must(t, err)
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		must(t, err)
		for i, found := range shownInDocs.FindAllStringSubmatch(string(text), -1) {
			shown[filepath.Base(page)+" "+string(rune('1'+i))] = found[1]
		}
	}
	err = filepath.WalkDir(manifest(t, "."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "kustomization.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		head, _, _ := strings.Cut(string(text), "\napiVersion:")
		var lines []string
		for _, line := range shownInHead.FindAllStringSubmatch(head+"\n", -1) {
			lines = append(lines, line[1])
		}
		if len(lines) > 0 {
			shown[strings.TrimPrefix(path, manifest(t, ".")+"/")] = strings.Join(lines, "\n")
		}
		return nil
	})
	must(t, err)
	return shown
}

// documentedFolder writes a kustomization into a folder where isthmus is this repository, as docs/install.md says, and
// linkerd.yaml is Linkerd's manifest. Heads of components leave out what they are components of, which is added.
func documentedFolder(t *testing.T, text string) string {
	t.Helper()
	var k map[string]any
	must(t, yaml.Unmarshal([]byte(text), &k))
	if k["resources"] == nil {
		k["resources"] = []string{"isthmus/manifests/install"}
		if strings.Contains(text, "exports/names") {
			k["components"] = []string{"isthmus/manifests/install/exports"}
		}
	}
	complete, err := yaml.Marshal(k)
	must(t, err)
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	must(t, err)
	must(t, os.Symlink(root, filepath.Join(dir, "isthmus")))
	linkerd, err := os.ReadFile("testdata/linkerd/destination.yaml")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "linkerd.yaml"), linkerd, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), complete, 0o644))
	return dir
}

// TestDocumentedKustomizations builds every kustomization that is documented, and every folder of manifests, with the
// oldest kubectl that docs/install.md names.
func TestDocumentedKustomizations(t *testing.T) {
	t.Parallel()
	kubectl := oldestKubectl(t)
	shown := documentedKustomizations(t)
	for _, place := range []string{
		"exports.md 1", "exports.md 2", "install.md 1", "install/exports/kustomization.yaml",
	} {
		if shown[place] == "" {
			t.Errorf("no kustomization is found in %s", place)
		}
	}
	build := func(t *testing.T, dir string) string {
		cmd := exec.CommandContext(t.Context(), kubectl, "kustomize", dir)
		var complaint strings.Builder
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if err != nil || len(out) == 0 {
			t.Fatalf("%v: prints %q and %s", err, out, complaint.String())
		}
		return string(out)
	}
	for place, text := range shown {
		t.Run(place, func(t *testing.T) {
			out := build(t, documentedFolder(t, text))
			if !strings.Contains(text, "--exports=on") {
				return
			}
			objects, err := kube.Parse(out)
			must(t, err)
			d := find[appsv1.Deployment](t, objects, "Deployment", "isthmus")
			if args := d.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--exports=on") {
				t.Errorf("the patch has no effect: %q", args)
			}
		})
	}
	for _, name := range []string{
		"dashboards", "install", "install/exports/guard", "install/exports/linkerd", "link", "monitoring",
	} {
		t.Run(name, func(t *testing.T) { build(t, manifest(t, name)) })
	}
	for _, component := range []string{"exports", "mcs-crds", "openshift", "podmonitor", "policy"} {
		t.Run("component "+component, func(t *testing.T) {
			build(t, documentedFolder(t, "components: [isthmus/manifests/install/"+component+"]"))
		})
	}
}

// TestExportsAsDocumented runs the commands of docs/exports.md that apply manifests, where its first kustomization is.
func TestExportsAsDocumented(t *testing.T) {
	t.Parallel()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	must(t, client(t, server).Apply(t.Context(), kube.Namespace("linkerd"), kube.Namespace("linkerd-multicluster")))
	text, err := os.ReadFile("../docs/exports.md")
	must(t, err)
	dir := documentedFolder(t, shownInDocs.FindStringSubmatch(string(text))[1])
	commands := regexp.MustCompile(`(?m)^kubectl apply -k .*$`).FindAllString(string(text), -1)
	if len(commands) < 2 {
		t.Fatalf("too few commands are found: %q", commands)
	}
	for _, command := range commands {
		mustShell(t, server, "cd "+dir+" && "+command)
	}
	awaitPermissions(t, server, "linkerd:isthmus",
		[]permission{{"create services -A", "yes"}, {"list namespaces -A", "yes"}})
}
