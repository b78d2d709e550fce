package commands

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

// versionOptions are the options of "isthmus version".
type versionOptions struct {
	Target
	clientOnly bool
}

// Version returns the command "version". For this program, the command prints details or, as JSON,
// own.
func Version(own adminapi.Build, details func(io.Writer)) cli.Command {
	o := new(versionOptions)
	return o.command(cli.Command{
		Use:     "version",
		Summary: "print the version and what it was built with, and those of gateways: put it into bug reports",
		Intro:   versionIntro,
		Ending:  versionEnding,
		Run:     func(ctx context.Context, p cli.Process) error { return runVersion(ctx, p, o, own, details) },
	}, func(s *pflag.FlagSet) {
		s.BoolVar(&o.clientOnly, "client", false, "Print that of this program only, and ask no gateway.")
		o.pageFlags(s, pageTimeout, pageAllowed)
	})
}

// runVersion prints the versions. An unreachable replica is no failure, because the version of this
// program is still printed.
func runVersion(
	ctx context.Context, p cli.Process, o *versionOptions, own adminapi.Build, details func(io.Writer),
) error {
	if !o.asJSON() {
		details(p.Stdout) // first, because replicas may respond slowly
	}
	v := adminapi.VersionOutput{Client: own}
	if !o.clientOnly {
		answers, err := ReadAll[adminapi.Build](ctx, p, &o.Target, "/debug/version")
		if err != nil {
			v.Error = err.Error()
		}
		for _, a := range answers {
			g := adminapi.ReplicaBuild{Gateway: a.Replica, Build: a.Value}
			if a.Err != nil {
				g.Build = nil
				g.Error = a.Err.Error()
			}
			v.Gateways = append(v.Gateways, g)
		}
	}
	if o.asJSON() {
		return printJSON(p.Stdout, v)
	}
	printVersions(p, v)
	return nil
}

// printVersions prints one line for each replica. Errors of replicas go to standard error.
func printVersions(p cli.Process, v adminapi.VersionOutput) {
	if v.Error != "" {
		v.Gateways = []adminapi.ReplicaBuild{{Error: v.Error}}
	}
	for _, g := range v.Gateways {
		if g.Build == nil {
			fmt.Fprintf(p.Stderr, "%s: the version of gateways is not known: %s\n", p.Name, g.Error)
			continue
		}
		text := fmt.Sprintf("gateway %s: %s, commit %s, %s", g.Gateway, Printable(g.Version), Printable(g.Commit),
			Printable(g.Go))
		if g.Version != v.Client.Version || g.Commit != v.Client.Commit {
			text += " (not that of this program)"
		}
		fmt.Fprintln(p.Stdout, text)
	}
}

const versionIntro = `isthmus version prints the version of this program and what it was built with, and
the versions of the gateways that it finds: put it into bug reports.

Usage: isthmus version [FLAGS]`

const versionEnding = `isthmus --version is isthmus version --client.

-o json prints one object in a line: go doc isthmus/internal/adminapi.VersionOutput.

Exit code 0 whether a gateway can be asked or not; standard error has why not.

Examples:
  isthmus version
  isthmus version --client
  isthmus version --context west -o json | jq -r '.gateways[].version'`
