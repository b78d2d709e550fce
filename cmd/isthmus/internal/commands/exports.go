package commands

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/duration"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

type exportsOptions struct {
	Target
	diff, written bool
}

func exportsCommand() cli.Command {
	o := new(exportsOptions)
	return o.command(cli.Command{
		Use:     "exports [NAME…]",
		Summary: "show the exports of all clusters, and the Services that Isthmus writes for them",
		Intro:   exportsIntro,
		Ending:  exportsEnding,
		OneOf:   [][2]string{{"diff", "written"}},
		Run:     func(ctx context.Context, p cli.Process) error { return runExports(ctx, p, o) },
	}, func(s *pflag.FlagSet) {
		o.pageFlags(s, pageTimeout, pageTimeoutUsage)
		s.BoolVar(&o.diff, "diff", false,
			"Show the pending changes to each object. The exit code is 1 if any change is pending.")
		s.BoolVar(&o.written, "written", false,
			"Print the Services and ServiceImports that Isthmus has written, as input to kubectl delete -f -.")
	})
}

func runExports(ctx context.Context, p cli.Process, o *exportsOptions) error {
	query := url.Values{}
	for _, arg := range p.Args {
		name, ok := parseServiceName(arg)
		switch namespace, all := strings.CutSuffix(arg, "/"); {
		case all && namespace != "":
			query.Add("service", arg)
		case !ok:
			return cli.Usagef("%q is not a valid service name: use NAME, NAMESPACE/NAME, NAME.NAMESPACE, "+
				"or NAMESPACE/ for all services in a namespace", arg)
		default:
			query.Add("service", strings.TrimPrefix(name.namespace+"/"+name.name, "/"))
		}
	}
	answers, err := ReadAll[adminapi.Exports](ctx, p, &o.Target, "/debug/exports?"+query.Encode())
	if err != nil {
		return err
	}
	shown := chooseExports(answers)
	page, _ := errors.AsType[pageError](shown.Err)
	other, _ := errors.AsType[versionError](shown.Err)
	switch {
	case other.status == http.StatusNotFound:
		return fmt.Errorf("%w. Either the replica's version does not support exports, "+
			"or the replica runs with --exports=off, which is the default",
			other)
	case page.status == http.StatusNotFound:
		return fmt.Errorf("%s does not read exports: it runs with --exports=off, which is the default\n"+
			"  Start the replica with --exports=plan to see planned changes before anything is written", shown.Replica)
	case shown.Err != nil:
		return shown.Err
	case shown.Value.Unread != "":
		return fmt.Errorf("%s: %s", shown.Replica, Printable(shown.Value.Unread))
	}
	return o.print(p, shown)
}

// chooseExports returns the response of the replica that writes objects for exports, because only
// that replica knows about failed writes. If the writing replica does not respond, chooseExports
// returns the response of another replica.
func chooseExports(answers []Answer[adminapi.Exports]) Answer[adminapi.Exports] {
	rank := func(a Answer[adminapi.Exports]) int {
		switch {
		case a.Err != nil:
			return 3
		case a.Value.Unread != "":
			return 2
		case !a.Value.Writer.Leading:
			return 1
		}
		return 0
	}
	return slices.MinFunc(answers, func(a, b Answer[adminapi.Exports]) int { return rank(a) - rank(b) })
}

func (o *exportsOptions) print(p cli.Process, shown Answer[adminapi.Exports]) (err error) {
	unchecked := shown.Unchecked(p.Build)
	s := &exportsState{adminapi.ExportsOutput{
		Time: shown.At, Gateway: shown.Replica, Exports: *shown.Value, Unchecked: unchecked,
	}}
	if o.diff || o.written {
		if err := shown.OtherFormat(p.Build); err != nil {
			return err
		}
		if unchecked != "" {
			fmt.Fprintf(p.Stderr, "%s: %s: not checked: %s\n", p.Name, Printable(shown.Replica), unchecked)
		}
	}
	changes := len(s.Changes) + s.MoreChanges
	switch {
	case o.written:
		return s.printWritten(p.Stdout)
	case o.diff && !o.asJSON():
		err = s.printDiff(p.Stdout)
	default:
		err = o.screen(p).show(s.Time, s.Gateway, s.ExportsOutput, s.table)
	}
	if err == nil && o.diff && changes > 0 {
		err = fmt.Errorf("%s pending changes", text.Count(changes, "object has", "objects have"))
	}
	return err
}

type exportsState struct{ adminapi.ExportsOutput }

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
			state.color = green
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
		headline += "; " + text.Count(changes, "object has", "objects have") +
			" pending changes: use --diff to see them"
	}
	return headline, b.Bytes()
}

// writer returns a message about the replica that writes objects for exports.
func (s *exportsState) writer() string {
	switch w := s.Writer; {
	case w.Mode == "plan":
		return "nothing is written (--exports=plan)"
	case w.LeaseError != "":
		return "Isthmus cannot use the Lease that decides which replica writes Services: " + w.LeaseError
	case w.Leading:
		return "written by " + w.Identity
	case w.Holder != "":
		return "written by " + w.Holder
	}
	return "no replica writes now"
}

// printDiff prints the changes in the style of a unified diff.
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
		fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ %s, for the %s of %s @@\n", Printable(before), Printable(after),
			Printable(c.Verb), Printable(c.Kind), Printable(c.Of))
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

// printWritten prints the written objects as JSON that kubectl accepts.
func (s *exportsState) printWritten(w io.Writer) error {
	var b bytes.Buffer
	for _, kind := range []struct {
		version, name string
		ids           []string
	}{{"v1", "Service", s.Written}, {"multicluster.x-k8s.io/" + s.Writer.MCS, "ServiceImport", s.WrittenImports}} {
		for _, id := range kind.ids {
			namespace, name, _ := strings.Cut(id, "/")
			line, err := JSONLine(map[string]any{"apiVersion": kind.version, "kind": kind.name,
				"metadata": map[string]string{"namespace": namespace, "name": name}})
			if err != nil {
				return err
			}
			b.Write(line)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

const exportsIntro = `isthmus exports shows the exports of the local cluster and all linked clusters, through Linkerd's
labels and through ServiceExports. It also shows the objects that Isthmus writes in the local
cluster for these exports, or would write.

Usage: isthmus exports [NAME…] [FLAGS]

NAME is the name of an export or of the object that Isthmus writes for it: NAME in any
namespace, NAMESPACE/NAME, NAME.NAMESPACE, or NAMESPACE/ for all exports of a namespace.`

const exportsEnding = `Isthmus writes these objects only with --exports=on. With --exports=plan, it only plans the
changes, so that you can review them first:

  isthmus exports           a table of the exports of each cluster, with their states
  isthmus exports --diff    each field of each object that would change

The table:
  CLUSTER     the exporting cluster; local is the local cluster
  KIND        mirror (NAME-CLUSTER), federated (NAME-federated), or import: the ServiceImport
              NAME with its Service NAME-clusterset
  WRITTEN AS  the Service in the local cluster
  STATE       written, or why not; docs/exports.md explains each state and its remedy
  UNTIL       when the state ends by itself
If there are several replicas, the command shows the page of the leader, which knows the
failed writes.

In the output of --diff, "+" marks planned lines and "-" marks existing lines. Labels and
annotations of other writers stay and are not shown.

--written prints the objects that carry the mark of Isthmus, one line of JSON for each, which
kubectl accepts. To delete all of them, first restart Isthmus with --exports=plan, so that it
does not write them again. Then run:

  isthmus exports --written | kubectl delete -f -

-o json prints one object per line. go doc isthmus/internal/adminapi.ExportsOutput
explains its fields.

The exit code is 1 if no replica can be queried, if exports are off or, with --diff, if there
are pending changes.

Examples:
  isthmus exports
  isthmus exports shop/web
  isthmus exports shop/ --diff
  isthmus exports -o json | jq -r '.exports[] | select(.state == "taken") | .object'`
