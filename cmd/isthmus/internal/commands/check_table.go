package commands

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"isthmus/cmd/isthmus/internal/check"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// marks are how levels are shown, and what precedes a hint.
type marks struct {
	byLevel map[check.Level]string
	hint    string
}

var (
	unicodeMarks = marks{map[check.Level]string{check.OK: "✓", check.Warning: "‼", check.Failure: "✗", check.Unchecked: "?"}, "→"}
	asciiMarks   = marks{map[check.Level]string{check.OK: "[ok]  ", check.Warning: "[warn]", check.Failure: "[fail]", check.Unchecked: "[skip]"}, "->"}
)

// marksOf returns those that the locale of an environment has.
func marksOf(getenv func(string) string) marks {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(getenv(name)); value != "" { // the first one decides, as in setlocale
			if strings.Contains(value, "utf-8") || strings.Contains(value, "utf8") {
				return unicodeMarks
			}
			break
		}
	}
	return asciiMarks
}

var levelColours = map[check.Level]colour{check.OK: green, check.Warning: yellow, check.Failure: red, check.Unchecked: plain}

// table returns the results by section, and a summary.
func (s *checkState) table() string {
	var b bytes.Buffer
	if s.From == adminapi.CheckedHere {
		b.WriteString("No gateway was asked: what follows was checked from here, not from its network.\n\n")
	}
	for _, section := range runs(s.Results, func(r check.Result) string { return r.Section }) {
		fmt.Fprintf(&b, "%s\n", Printable(section[0].Section))
		for _, one := range runs(section, func(r check.Result) string { return r.Check }) {
			s.writeCheck(&b, one)
		}
		b.WriteByte('\n')
	}
	b.WriteString(s.summary() + "\n")
	return b.String()
}

// runs divides results where something of them changes.
func runs(list []check.Result, of func(check.Result) string) (all [][]check.Result) {
	for i, r := range list {
		if i == 0 || of(r) != of(list[i-1]) {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], r)
	}
	return all
}

// maxFine is how many lines one check has at most for what is fine.
const maxFine = 5

// writeCheck writes the results of one check: what is fine is summed up.
func (s *checkState) writeCheck(b *bytes.Buffer, list []check.Result) {
	var texts []string
	objects := make(map[string][]string) // by text, of what is fine
	var bad []check.Result
	fine := 0
	for _, r := range list {
		if r.Level != check.OK {
			bad = append(bad, r)
			continue
		}
		fine++
		if r.Gateway != "" {
			r.Text += " (" + r.Gateway + ")"
		}
		if objects[r.Text] == nil {
			texts = append(texts, r.Text)
			objects[r.Text] = []string{}
		}
		if r.Object != "" {
			objects[r.Text] = append(objects[r.Text], r.Object)
		}
	}
	if len(texts) > maxFine {
		s.writeLine(b, check.OK, fmt.Sprintf("%d are fine (%s): -o json has each", fine, list[0].Check))
		texts = nil
	}
	for _, result := range texts {
		if names := objects[result]; len(names) > 0 {
			result = text.Some(names, maxNames) + ": " + result
		}
		s.writeLine(b, check.OK, result)
	}
	s.writeBad(b, bad)
}

// writeBad writes what is not fine, the worst first, with what to do.
func (s *checkState) writeBad(b *bytes.Buffer, bad []check.Result) {
	slices.SortStableFunc(bad, func(x, y check.Result) int { return check.Rank(y.Level) - check.Rank(x.Level) })
	for i, r := range bad[:min(len(bad), maxLines)] {
		s.writeLine(b, r.Level, resultLine(r))
		if last := i == min(len(bad), maxLines)-1; r.Hint != "" && (last || bad[i+1].Hint != r.Hint) {
			fmt.Fprintf(b, "      %s %s\n", s.marks.hint, Printable(r.Hint))
		}
	}
	if more := len(bad) - maxLines; more > 0 {
		s.writeLine(b, bad[maxLines].Level, fmt.Sprintf("%d more like these: -o json has all", more))
	}
}

func (s *checkState) writeLine(b *bytes.Buffer, level check.Level, text string) {
	fmt.Fprintf(b, "  %s %s\n", levelColours[level].paint(s.marks.byLevel[level]), Printable(text))
}

// summary counts what is not fine.
func (s *checkState) summary() string {
	var parts []string
	for _, n := range []struct {
		found     int
		one, many string
	}{{s.Failures, "failure", "failures"}, {s.Warnings, "warning", "warnings"}, {s.Unchecked, "not checked", "not checked"}} {
		if n.found > 0 {
			parts = append(parts, text.Count(n.found, n.one, n.many))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("All is fine: %s.", text.Count(len(s.Results), "check", "checks"))
	}
	return strings.Join(parts, ", ") + "."
}
