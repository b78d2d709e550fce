package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// overview prints all verbs, by group.
func (g *Program) overview(w io.Writer) {
	name := lastWord(g.Name)
	fmt.Fprintf(w, "%s\n\nUsage: %s VERB [FLAGS]\n", g.Intro, name)
	for i, group := range g.Groups {
		fmt.Fprintf(w, "\n%s:\n", group.Title)
		for _, v := range group.Verbs {
			verb, _, _ := strings.Cut(v.Use, " ")
			summary := v.Summary
			for _, a := range v.Aliases {
				summary += " (alias: " + a + ")"
			}
			printVerb(w, verb, summary)
		}
		if i == len(g.Groups)-1 {
			printVerb(w, "completion", completionSummary)
			printVerb(w, "help [VERB]", "explain "+name+", or a verb and its flags")
		}
	}
	fmt.Fprintln(w, "\nExamples:")
	for _, e := range g.Examples {
		fmt.Fprintf(w, "  %s\n", e)
	}
}

func printVerb(w io.Writer, name, summary string) {
	for _, line := range wrap(summary, 65) {
		fmt.Fprintf(w, "  %-12s %s\n", name, line)
		name = ""
	}
}

// printFlag prints a flag's part of the help.
func printFlag(w io.Writer, f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	dashed := "--" + f.Name
	if f.Shorthand != "" {
		dashed = "-" + f.Shorthand + ", " + dashed
	}
	if value != "" {
		dashed += " " + strings.ToUpper(value)
	}
	switch {
	case f.DefValue == "":
	case value == "" && f.DefValue == "true":
		usage += fmt.Sprintf(" Default: true (--%s=false turns it off).", f.Name)
	default:
		usage += fmt.Sprintf(" Default: %s.", f.DefValue)
	}
	fmt.Fprintf(w, "  %s\n", dashed)
	for _, line := range wrap(usage, 72) {
		fmt.Fprintf(w, "        %s\n", line)
	}
}

// wrap breaks a text into lines of at most width bytes, longer words alone.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
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
