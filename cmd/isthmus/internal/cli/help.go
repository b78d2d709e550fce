package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// overview prints all verbs, by group.
func (g *Program) overview(w io.Writer) {
	name := lastWord(g.Name)
	fmt.Fprintf(w, "%s\n\nUsage: %s VERB [FLAGS]\n", g.Intro, name)
	line := func(verb, summary string) { fmt.Fprintf(w, "  %-12s %s\n", verb, summary) }
	for _, group := range g.Groups {
		fmt.Fprintf(w, "\n%s:\n", group.Title)
		for _, v := range group.Commands {
			verb, _, _ := strings.Cut(v.Use, " ")
			summary := v.Summary
			for _, a := range v.Aliases {
				summary += " (alias: " + a + ")"
			}
			line(verb, summary)
		}
	}
	line("completion", completionSummary)
	line("help [VERB]", "explain "+name+", or a verb and its flags")
	fmt.Fprintln(w, "\nExamples:")
	for _, e := range g.Examples {
		fmt.Fprintf(w, "  %s\n", e)
	}
}

// printRenamed prints a text that is written with the last word of a program's name
// with all of it.
func printRenamed(w io.Writer, text func(io.Writer), name string) {
	var b bytes.Buffer
	text(&b)
	io.WriteString(w, strings.ReplaceAll(b.String(), lastWord(name)+" ", name+" "))
}

func lastWord(name string) string { return name[strings.LastIndex(name, " ")+1:] }

const completionSummary = "print a script by which your shell completes verbs and flags"

// pluginHelp follows cobra's help of the verb completion.
const pluginHelp = `
As kubectl plugin: kubectl asks a program kubectl_complete-PROGRAM, which may be a
link to this one:
  ln -s "$(command -v PROGRAM)" ~/.local/bin/kubectl-PROGRAM
  ln -s "$(command -v PROGRAM)" ~/.local/bin/kubectl_complete-PROGRAM`
