package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// CompleteVerb is the verb that shells call to complete the arguments that follow.
const CompleteVerb = cobra.ShellCompRequestCmd

var shells = []string{"bash", "zsh", "fish", "powershell"}

const completionSummary = "print a script by which your shell completes verbs and flags"

// completionVerb is "completion SHELL".
func completionVerb(root *cobra.Command) *Verb {
	return &Verb{
		Use:     "completion SHELL",
		Summary: completionSummary,
		Intro:   strings.ReplaceAll(completionIntro, "PROGRAM", root.Name()),
		Run: func(_ context.Context, p Process) error {
			if len(p.Args) != 1 {
				return Usagef("give one SHELL: %s", strings.Join(shells, ", "))
			}
			switch p.Args[0] {
			case "bash":
				return root.GenBashCompletionV2(p.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(p.Stdout)
			case "fish":
				return root.GenFishCompletion(p.Stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(p.Stdout)
			}
			return Usagef("unknown shell %q: give one of %s", p.Args[0], strings.Join(shells, ", "))
		},
	}
}

const completionIntro = `PROGRAM completion prints a script by which a shell completes verbs, flags and their
values.

Usage: PROGRAM completion SHELL

SHELL is bash (with the package bash-completion), zsh, fish or powershell.

Examples:
  source <(PROGRAM completion bash)       # in ~/.bashrc
  source <(PROGRAM completion zsh)        # in ~/.zshrc, after compinit
  PROGRAM completion fish | source        # in ~/.config/fish/config.fish
  PROGRAM completion powershell | Out-String | Invoke-Expression

As kubectl plugin: kubectl asks a program kubectl_complete-PROGRAM, which may be a
link to this one:
  ln -s "$(command -v PROGRAM)" ~/.local/bin/kubectl-PROGRAM
  ln -s "$(command -v PROGRAM)" ~/.local/bin/kubectl_complete-PROGRAM`
