package client

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

// gatewayBuild is what one gateway was built from, or why that is not known.
type gatewayBuild struct {
	Gateway string `json:"gateway"`
	*adminapi.Build
	Error string `json:"error,omitempty"`
}

// versions is the line of "isthmus version -o json".
type versions struct {
	Client   adminapi.Build `json:"client"`
	Gateways []gatewayBuild `json:"gateways,omitempty"`
	Error    string         `json:"error,omitempty"`
}

// versionOptions are those of "isthmus version".
type versionOptions struct {
	adminOptions
	clientOnly bool
}

// VersionVerb is the verb "version". Of this program it prints details, or own as JSON.
func VersionVerb(own adminapi.Build, details func(io.Writer)) cli.Verb {
	o := new(versionOptions)
	return cli.Verb{
		Use:     "version",
		Summary: "print the version and what it was built with, and those of gateways: put it into bug reports",
		Intro:   versionIntro,
		Ending:  versionEnding,
		Flags: []cli.Section{cli.NewSection("Flags", func(s *pflag.FlagSet) {
			s.BoolVar(&o.clientOnly, "client", false, "Print that of this program only, and ask no gateway.")
			o.adminOptions.flags(s)
		})},
		Run: func(ctx context.Context, p cli.Process) error { return runVersion(ctx, p, o, own, details) },
	}
}

// runVersion prints the versions. A gateway that can't be asked is no failure: this
// program's version is there.
func runVersion(ctx context.Context, p cli.Process, o *versionOptions, own adminapi.Build, details func(io.Writer)) error {
	if err := o.check(); err != nil {
		return err
	}
	v := versions{Client: own}
	if !o.asJSON() {
		details(p.Stdout) // whatever the gateways take
	}
	if !o.clientOnly {
		v.ask(ctx, p, &o.adminOptions)
	}
	if o.asJSON() {
		line, err := jsonLine(v)
		if err == nil {
			_, err = p.Stdout.Write(line)
		}
		return err
	}
	v.printGateways(p)
	return nil
}

// ask adds the versions of gateways.
func (v *versions) ask(ctx context.Context, p cli.Process, o *adminOptions) {
	answers, err := readAll[adminapi.Build](ctx, p, o, "/debug/version")
	if err != nil {
		v.Error = err.Error()
		return
	}
	for _, a := range answers {
		g := gatewayBuild{Gateway: a.Gateway, Build: a.Value}
		if a.Err != nil {
			g.Build, g.Error = nil, a.Err.Error()
		}
		v.Gateways = append(v.Gateways, g)
	}
}

// printGateways has a line for each gateway, and notes on standard error for those
// that can't be asked.
func (v *versions) printGateways(p cli.Process) {
	note := func(text string) {
		fmt.Fprintf(p.Stderr, "%s: the version of gateways is not known: %s\n", p.Name, text)
	}
	if v.Error != "" {
		note(v.Error)
	}
	for _, g := range v.Gateways {
		if g.Build == nil {
			note(g.Error)
			continue
		}
		text := fmt.Sprintf("gateway %s: %s, commit %s, %s", g.Gateway, printable(g.Version), printable(g.Commit), printable(g.Go))
		if g.Version != v.Client.Version || g.Commit != v.Client.Commit {
			text += " (not that of this program)"
		}
		fmt.Fprintln(p.Stdout, strings.TrimSpace(text))
	}
}

const versionIntro = `isthmus version prints the version of this program and what it was built with, and
the versions of the gateways that it finds: put it into bug reports.

Usage: isthmus version [FLAGS]`

const versionEnding = `isthmus --version is isthmus version --client.

-o json prints one object in a line:
  {"client":{"version":…, "commit":…, "go":…}, "gateways":[{"gateway":…,
   "version":…, "commit":…, "go":…, "error":…}], "error":…}
Fields without a value are left out. "gateway" is HOST:PORT, or NAMESPACE/POD.

Exit code 0 whether a gateway can be asked or not; standard error has why not.

Examples:
  isthmus version
  isthmus version --client
  isthmus version --context west -o json | jq -r '.gateways[].version'`
