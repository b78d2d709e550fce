package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubectlannotate "k8s.io/kubectl/pkg/cmd/annotate"
	kubectlapply "k8s.io/kubectl/pkg/cmd/apply"
	kubectlauth "k8s.io/kubectl/pkg/cmd/auth"
	kubectlcreate "k8s.io/kubectl/pkg/cmd/create"
	kubectldelete "k8s.io/kubectl/pkg/cmd/delete"
	kubectlkustomize "k8s.io/kubectl/pkg/cmd/kustomize"
	kubectllabel "k8s.io/kubectl/pkg/cmd/label"
	kubectlrollout "k8s.io/kubectl/pkg/cmd/rollout"
	kubectlset "k8s.io/kubectl/pkg/cmd/set"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"isthmus/e2e/harness"
)

// userEnvironment returns an environment in which kubectl is this test binary, without the
// variables of a parent make.
func userEnvironment(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	must(t, os.Symlink(self, filepath.Join(dir, "kubectl")))
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "MAKE") ||
			slices.Contains(
				[]string{"MFLAGS", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUSTOMIZE", "IMAGE", "VERSION"},
				name,
			)
	})
	return append(env, "PATH="+dir+":"+os.Getenv("PATH"), "KUBECACHEDIR="+t.TempDir())
}

// shell runs a command in the root of the repository with access to a cluster, and returns its
// output.
func shell(t *testing.T, server *harness.Cluster, command string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", command)
	cmd.Dir = ".."
	cmd.Env = append(userEnvironment(t), "KUBECONFIG="+server.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func mustShell(t *testing.T, server *harness.Cluster, command string) string {
	t.Helper()
	out, err := shell(t, server, command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// readCommands returns the blocks of commands in a section of README.md without comments.
func readCommands(t *testing.T, heading string) (blocks [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	must(t, err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("README.md has no section %s", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?s)\n```sh\n(.*?)\n```\n").FindAllStringSubmatch(section, -1) {
		var commands []string
		for line := range strings.SplitSeq(strings.ReplaceAll(block[1], "\\\n", ""), "\n") {
			command, _, _ := strings.Cut(line, "  #")
			commands = append(commands, strings.TrimSpace(command))
		}
		blocks = append(blocks, commands)
	}
	return blocks
}

// TestMain makes the test binary act as kubectl if it is run under that name, because a machine may
// not have kubectl. It supports the commands in the documentation.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		runKubectl()
	}
	os.Exit(m.Run())
}

// runKubectl runs the command in the process's arguments and exits.
func runKubectl() {
	flags := genericclioptions.NewConfigFlags(true)
	root := &cobra.Command{Use: "kubectl", SilenceUsage: true}
	flags.AddFlags(root.PersistentFlags())
	factory := cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(flags))
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root.AddCommand(
		kubectlannotate.NewCmdAnnotate("kubectl", factory, streams),
		kubectlapply.NewCmdApply("kubectl", factory, streams),
		kubectlauth.NewCmdAuth(factory, streams),
		kubectlcreate.NewCmdCreate(factory, streams),
		kubectldelete.NewCmdDelete(factory, streams),
		kubectlkustomize.NewCmdKustomize(streams),
		kubectllabel.NewCmdLabel(factory, streams),
		kubectlrollout.NewCmdRollout("kubectl", factory, streams),
		kubectlset.NewCmdSet(factory, streams),
	)
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
