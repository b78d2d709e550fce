package commands

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// exportsState is a page of exports to be shown.
type exportsState struct{ adminapi.ExportsOutput }

// table has a line for each export, what differs between them, and who writes.
func (s *exportsState) table() (string, []byte) {
	var b bytes.Buffer
	writeUnchecked(&b, s.Unchecked)
	var t cells
	t.row("EXPORT", "CLUSTER", "KIND", "WRITTEN AS", "STATE", "UNTIL", "DETAIL")
	for _, e := range s.Exports.Exports {
		until := ""
		if !e.Until.IsZero() {
			until = duration.HumanDuration(max(0, e.Until.Sub(s.Time)))
		}
		_, object, _ := strings.Cut(e.Object, "/")
		state := cell{e.State, yellow}
		if e.State == "written" {
			state.colour = green
		}
		t.row(e.Export, e.Cluster, e.Kind, object, state, until, e.Detail)
	}
	t.writeUnder(&b, "")
	if s.MoreExports > 0 {
		fmt.Fprintf(&b, "  … and %d more: name one, or a namespace\n", s.MoreExports)
	}
	var lines []string
	for _, c := range s.Conflicts {
		lines = append(lines, fmt.Sprintf("%s: %s: %s", c.Object, c.Reason, c.Message))
	}
	writeList(&b, "Conflicts", lines, maxLines)
	writeList(&b, "Linkerd", s.Writer.Notes, maxLines)
	changes := len(s.Changes) + s.MoreChanges
	headline := text.Count(len(s.Exports.Exports)+s.MoreExports, "export", "exports") + ", " + s.writer()
	if changes > 0 {
		headline += "; " + text.Count(changes, "object is", "objects are") + " to be changed: --diff shows it"
	}
	return headline, b.Bytes()
}

// writer says who writes.
func (s *exportsState) writer() string {
	switch w := s.Writer; {
	case w.Mode == "plan":
		return "nothing is written (--exports=plan)"
	case w.LeaseError != "":
		return "the Lease of the replica that writes can't be used: " + w.LeaseError
	case w.Leading:
		return "written by " + w.Identity
	case w.Holder != "":
		return "written by " + w.Holder
	}
	return "no replica writes now"
}

// printDiff prints each change like a unified diff.
func (s *exportsState) printDiff(w io.Writer) error {
	var b bytes.Buffer
	for _, c := range s.Changes {
		before := cmp.Or(c.ObjectKind, "Service") + " " + c.Object
		after := before
		switch c.Verb {
		case "create":
			before = "/dev/null"
		case "delete":
			after = "/dev/null"
		}
		fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ %s, for the %s of %s @@\n", Printable(before), Printable(after), Printable(c.Verb), Printable(c.Kind), Printable(c.Of))
		if c.Error != "" {
			fmt.Fprintf(&b, " # tried, and failed: %s\n", Printable(c.Error))
		}
		for _, f := range c.Fields {
			if f.Before != "" {
				b.WriteString(red.paint("-"+Printable(f.Field+": "+f.Before)) + "\n")
			}
			if f.After != "" {
				b.WriteString(green.paint("+"+Printable(f.Field+": "+f.After)) + "\n")
			}
		}
	}
	if s.MoreChanges > 0 {
		fmt.Fprintf(&b, "# … and %d more: name one, or a namespace\n", s.MoreChanges)
	}
	return printText(w, b.String())
}

// printWritten prints the objects that are written, each as what kubectl reads.
func (s *exportsState) printWritten(w io.Writer) error {
	var b bytes.Buffer
	for _, kind := range []struct {
		version, name string
		ids           []string
	}{{"v1", "Service", s.Written}, {"multicluster.x-k8s.io/" + s.Writer.MCS, "ServiceImport", s.WrittenImports}} {
		for _, id := range kind.ids {
			namespace, name, _ := strings.Cut(id, "/")
			line, err := JSONLine(map[string]any{"apiVersion": kind.version, "kind": kind.name, "metadata": map[string]string{"namespace": namespace, "name": name}})
			if err != nil {
				return err
			}
			b.Write(line)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}
