package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
)

// All returns all commands of this package, in the order of the program's
// overview. preflight is for checks where there is no replica.
func All(preflight Preflighter) []cli.Command {
	return []cli.Command{
		clustersCommand(), servicesCommand(), exportsCommand(), explainCommand(), checkCommand(preflight),
		getCommand(), profileCommand(),
	}
}

// Target is how users name replicas, for commands of this package and of others, and how long a command waits for them.
type Target struct {
	reach.Options
	Timeout time.Duration // of all that the command does; it is above 0
	output  string        // table or json
	first   bool          // only the first replica is asked
}

// AdminFlag adds --admin, for commands that read pages.
func (t *Target) AdminFlag(s *pflag.FlagSet) {
	t.AddAddressFlag(s, "admin", "`HOST:PORT` of the gateway's admin server, which is its --metrics-addr.")
}

// pageFlags are those of the commands that read pages. limit is for how long by default, and allowed what that is for.
func (t *Target) pageFlags(s *pflag.FlagSet, limit time.Duration, allowed string) {
	t.AdminFlag(s)
	t.Flags(s)
	t.outputFlags(s, limit, allowed)
}

func (t *Target) outputFlags(s *pflag.FlagSet, limit time.Duration, allowed string) {
	cli.Choice(s, &t.output, "output", "o", "`FORMAT` of what is printed: table or json.", "table", "json")
	s.DurationVar(&t.Timeout, "timeout", limit, allowed)
}

// What most commands that read pages have as --timeout.
const (
	pageTimeout = 10 * time.Second
	pageAllowed = "The gateway must have answered within this `DURATION`."
)

// command returns a command with these flags, which it checks before it runs: those that name a
// cluster are refused beside an address.
func (t *Target) command(v cli.Command, flags func(*pflag.FlagSet)) cli.Command {
	v.Flags = []cli.Section{cli.NewSection("Flags", flags)}
	for _, other := range []string{"kubeconfig", "context", "pod"} {
		v.OneOf = append(v.OneOf, [2]string{strings.TrimPrefix(t.AddressFlag, "--"), other})
	}
	run := v.Run
	v.Run = func(ctx context.Context, p cli.Process) error {
		if err := t.Check(); err != nil {
			return err
		}
		return run(ctx, p)
	}
	return v
}

// Check returns a usage error unless the values of the flags are good.
func (t *Target) Check() error {
	if _, _, err := net.SplitHostPort(t.Address); t.Address != "" && err != nil {
		return cli.Usagef("%s is %q: give HOST:PORT", t.AddressFlag, t.Address)
	}
	if t.Timeout <= 0 {
		return cli.Usagef("--timeout is %v: give a duration above 0, such as 10s", t.Timeout)
	}
	return nil
}

func (t *Target) asJSON() bool { return t.output == "json" }

func (t *Target) screen(p cli.Process) *screen { return &screen{w: p.Stdout, asJSON: t.asJSON()} }

// find returns the replicas that the flags choose: at least one that can be asked, and after
// those the replicas that are not ready. The function that it returns must be called once none
// of them is in use.
func (t *Target) find(ctx context.Context, p cli.Process) (list []reach.Replica, release func(), err error) {
	if t.Address != "" {
		return []reach.Replica{{Address: t.Address}}, func() {}, nil
	}
	cluster, err := t.Open()
	if err != nil {
		return nil, nil, err
	}
	err = t.await(ctx, p, cluster.String(), cluster.String(), func() (err error) {
		list, err = cluster.Replicas(ctx)
		return err
	})
	if err != nil {
		cluster.Close()
		return nil, nil, err
	}
	return list, cluster.Close, nil
}

// await does work that somebody has to answer within the timeout, and prints what it waits for if
// that takes long.
func (t *Target) await(ctx context.Context, p cli.Process, what, who string, work func() error) error {
	err := p.Await(ctx, fmt.Sprintf(" for %s, for %v at most", what, t.Timeout), work)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return errors.New("interrupted")
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return t.late(who)
	}
	return err
}

func (t *Target) late(who string) error {
	return fmt.Errorf("%s has not answered within %v (--timeout)", who, t.Timeout)
}

// checkToken checks a context token, as far as users can get it wrong.
func checkToken(text string) error {
	var token struct {
		NS, NodeName, Pod string
	}
	if text == "" || strings.HasPrefix(text, "ns:") {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &token); err != nil {
		return cli.Usagef(`--token: %w: give JSON like {"ns":"shop","nodeName":"node-1"}`, err)
	}
	return nil
}
