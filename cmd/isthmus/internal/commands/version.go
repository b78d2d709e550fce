package commands

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

type versionOptions struct {
	Target
	clientOnly bool
}

// Version returns the command "version". The details function prints the version of this program,
// unless the output format is JSON.
func Version(own adminapi.Build, details func(io.Writer)) cli.Command {
	o := new(versionOptions)
	return o.command(cli.Command{
		Use:     "version",
		Summary: "print the versions of this program and of the replicas, for bug reports",
		Intro:   versionIntro,
		Ending:  versionEnding,
		Run:     func(ctx context.Context, p cli.Process) error { return runVersion(ctx, p, o, own, details) },
	}, func(s *pflag.FlagSet) {
		s.BoolVar(&o.clientOnly, "client", false, "Print only the version of this program, without querying replicas.")
		o.pageFlags(s, pageTimeout, pageTimeoutUsage)
	})
}

// runVersion prints the versions. Unreachable replicas do not cause an error, because the version
// of this program is still printed.
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

func printVersions(p cli.Process, v adminapi.VersionOutput) {
	if v.Error != "" {
		v.Gateways = []adminapi.ReplicaBuild{{Error: v.Error}}
	}
	for _, g := range v.Gateways {
		if g.Build == nil {
			fmt.Fprintf(p.Stderr, "%s: cannot read the versions of replicas: %s\n", p.Name, g.Error)
			continue
		}
		text := fmt.Sprintf("replica %s: %s, commit %s, %s", g.Gateway, Printable(g.Version), Printable(g.Commit),
			Printable(g.Go))
		if g.Version != v.Client.Version || g.Commit != v.Client.Commit {
			text += " (not that of this program)"
		}
		fmt.Fprintln(p.Stdout, text)
	}
}

const versionIntro = `isthmus version prints the version and build of this program, and the versions of all
replicas that it finds. Include the output in bug reports.

Usage: isthmus version [FLAGS]`

const versionEnding = `isthmus --version is isthmus version --client.

-o json prints one object per line. go doc isthmus/internal/adminapi.VersionOutput
explains its fields.

The exit code is 0 even if no replica can be queried. Standard error then contains the
reason.

Examples:
  isthmus version
  isthmus version --client
  isthmus version --context west -o json | jq -r '.gateways[].version'`
