package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// helpCommand is "help [VERB]".
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [VERB]",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			for _, verb := range c.Root().Commands() {
				if len(args) == 0 && verb.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(verb.Name(), verb.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		DisableFlagParsing: true, // "help --help" is as good as "help"
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "help" || isHelp(args[0]) {
				return c.Root().Help()
			}
			verb, _, err := c.Root().Find(args[:1])
			if err != nil {
				return err
			}
			if verb == c.Root() {
				return unknownVerb(c.Root(), args)
			}
			return verb.Help()
		},
	}
}

// overview prints all verbs, by group.
func (g *Program) overview(w io.Writer) {
	name := lastWord(g.Name)
	fmt.Fprintf(w, "%s\n\nUsage: %s VERB [FLAGS]\n", g.Intro, name)
	for i, group := range g.Groups {
		fmt.Fprintf(w, "\n%s:\n", group.Title)
		for _, v := range group.Verbs {
			summary := v.Summary
			for _, a := range v.Aliases {
				if !strings.HasPrefix(a, "-") {
					summary += " (alias: " + a + ")"
				}
			}
			printVerb(w, v.name(), summary)
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

// flagHelp is one flag's part of the help.
type flagHelp struct {
	name, short  string
	value        string // what its value is called; empty: it is a boolean
	usage        string
	defaultValue string
}

func (f flagHelp) print(w io.Writer) {
	dashed := "--" + f.name
	switch {
	case len(f.name) == 1:
		dashed = "-" + f.name
	case f.short != "":
		dashed = "-" + f.short + ", " + dashed
	}
	if f.value != "" {
		dashed += " " + strings.ToUpper(f.value)
	}
	fmt.Fprintf(w, "  %s\n", dashed)
	usage := f.usage
	switch {
	case f.defaultValue == "":
	case f.value == "" && f.defaultValue == "true":
		usage += fmt.Sprintf(" Default: true (--%s=false turns it off).", f.name)
	default:
		usage += fmt.Sprintf(" Default: %s.", f.defaultValue)
	}
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

func lastWord(name string) string {
	_, last := cutLast(name)
	return last
}

// cutLast returns what is before a text's last word, and that word.
func cutLast(text string) (before, last string) {
	i := strings.LastIndex(text, " ")
	return text[:max(i, 0)], text[i+1:]
}
