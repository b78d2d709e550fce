// Package kubectl has kubectl's own commands, those that the documentation names, for machines that have no kubectl.
//
// A test's binary is kubectl where it is run under that name:
//
//	func TestMain(m *testing.M) {
//		if filepath.Base(os.Args[0]) == "kubectl" {
//			kubectl.Main()
//		}
//		os.Exit(m.Run())
//	}
package kubectl

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/annotate"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/auth"
	"k8s.io/kubectl/pkg/cmd/create"
	"k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/kustomize"
	"k8s.io/kubectl/pkg/cmd/label"
	"k8s.io/kubectl/pkg/cmd/rollout"
	"k8s.io/kubectl/pkg/cmd/set"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// Main runs the command of this process's arguments, and ends the process.
func Main() {
	flags := genericclioptions.NewConfigFlags(true)
	root := &cobra.Command{Use: "kubectl", SilenceUsage: true}
	flags.AddFlags(root.PersistentFlags())
	factory := cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(flags))
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root.AddCommand(
		annotate.NewCmdAnnotate("kubectl", factory, streams),
		apply.NewCmdApply("kubectl", factory, streams),
		auth.NewCmdAuth(factory, streams),
		create.NewCmdCreate(factory, streams),
		delete.NewCmdDelete(factory, streams),
		kustomize.NewCmdKustomize(streams),
		label.NewCmdLabel(factory, streams),
		rollout.NewCmdRollout("kubectl", factory, streams),
		set.NewCmdSet(factory, streams),
	)
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
