package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// oldestKubectl returns the oldest kubectl that docs/install.md names. Its file is called kubectl.
func oldestKubectl(t *testing.T) (path string) {
	t.Helper()
	built, err := harness.Kubectl.Path(t.Context())
	must(t, err)
	path = filepath.Join(t.TempDir(), "kubectl")
	must(t, os.Symlink(built, path))
	return path
}

// TestOldestKubectl checks that the oldest kubectl is built from the version that docs/install.md names.
func TestOldestKubectl(t *testing.T) {
	t.Parallel()
	version, err := os.ReadFile("tools/kubectl/version.txt")
	must(t, err)
	page, err := os.ReadFile("../docs/install.md")
	must(t, err)
	built := regexp.MustCompile(`^v0\.(\d+)\.\d+\n$`).FindStringSubmatch(string(version))
	named := regexp.MustCompile(`from kubectl 1\.(\d+) `).FindStringSubmatch(string(page))
	if built == nil || named == nil || built[1] != named[1] {
		t.Errorf("the tests build %q, and the page names %q", built, named)
	}
}

// shownCommand is a command of kubectl, in a block or within a sentence.
var shownCommand = regexp.MustCompile("(?m)`(kubectl [^`]+)`|^ *(kubectl .*)$")

// documentedCommands returns the commands of kubectl that the pages of docs show, each once, without comments. It
// leaves out what sentences only begin, such as "kubectl apply -k".
func documentedCommands(t *testing.T) (commands []string) {
	t.Helper()
	pages, err := filepath.Glob("../docs/*.md")
	must(t, err)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, found := range shownCommand.FindAllStringSubmatch(string(text), -1) {
			command, _, _ := strings.Cut(found[1]+found[2], " #")
			command = strings.TrimSpace(command)
			words := strings.Fields(command)
			begun := len(words) < 4 || slices.Contains([]string{"-", "-f", "-k"}, words[len(words)-1])
			if !begun && !slices.Contains(commands, command) {
				commands = append(commands, command)
			}
		}
	}
	return commands
}

// elsewhere are commands that need more than an API server and this folder. TestInstallAsDocumented and
// TestExportsAsDocumented run most of them. No test runs port-forward.
var elsewhere = regexp.MustCompile(`port-forward|rollout|apply -k \.$`)

// TestDocumentedCommands runs the commands of kubectl that docs show against an API server, with the oldest kubectl
// that docs/install.md names.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	kubectl := oldestKubectl(t)
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	c := client(t, server)
	must(t, c.ServeMCS(t.Context(), kube.MCSVersions...))
	for _, name := range []string{"linkerd", "linkerd-multicluster", "shop"} {
		must(t, c.Apply(t.Context(), kube.Namespace(name)))
	}
	must(t, c.Apply(t.Context(), kube.Link("east", []byte("{}"))))
	must(t, c.Apply(t.Context(), kube.ServiceAccount("shop", "web"), kube.Pod("shop", "web-0", "web")))
	must(t, c.Apply(t.Context(), kube.Service("shop", "web")))
	must(t, c.ApplyYAML(t.Context(),
		"{apiVersion: coordination.k8s.io/v1, kind: Lease, "+
			"metadata: {name: isthmus-exports-write, namespace: linkerd}}"))

	text, err := os.ReadFile("../docs/exports.md")
	must(t, err)
	dir := documentedFolder(t, shownInDocs.FindStringSubmatch(string(text))[1])
	must(t, os.Symlink(manifest(t, "."), filepath.Join(dir, "manifests")))
	placeholders := strings.NewReplacer("NAMESPACE", "shop", "NAME", "web-0")
	ran := 0
	for _, command := range documentedCommands(t) {
		if elsewhere.MatchString(command) {
			continue
		}
		ran++
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", placeholders.Replace(command))
		cmd.Dir = dir
		path := "PATH=" + filepath.Dir(kubectl) + ":" + os.Getenv("PATH")
		cmd.Env = append(userEnvironment(t), path, "KUBECONFIG="+server.Kubeconfig())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	if ran < 14 {
		t.Errorf("only %d commands are found", ran)
	}
}
