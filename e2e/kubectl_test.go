package e2e

import (
	"os"
	"path/filepath"
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
)

// TestMain makes this test's binary kubectl where it is run under that name, for machines that have no kubectl. It has the
// commands that the documentation names.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		runKubectl()
	}
	os.Exit(m.Run())
}

// runKubectl runs the command of this process's arguments, and ends the process.
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
