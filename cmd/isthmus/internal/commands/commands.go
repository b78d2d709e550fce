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

// All returns all commands of this package, in the order in which the program's overview lists
// them.
func All() []cli.Command {
	return []cli.Command{
		clustersCommand(), servicesCommand(), exportsCommand(), explainCommand(), checkCommand(preflight),
		getCommand(), profileCommand(),
	}
}

// Target holds the flags with which users select replicas. Target also limits how long a command
// waits for the replicas.
type Target struct {
	reach.Options
	Timeout time.Duration // limit for everything that the command does; positive
	output  string        // table or json
	first   bool          // query only the first replica
}

// AdminFlag adds --admin, for commands that read pages.
func (t *Target) AdminFlag(s *pflag.FlagSet) {
	t.AddAddressFlag(s, "admin", "`HOST:PORT` of a replica's admin server. "+
		"The replica's flag --metrics-addr sets this address.")
}

// pageFlags adds the flags of commands that read pages.
func (t *Target) pageFlags(s *pflag.FlagSet, timeout time.Duration, timeoutUsage string) {
	t.AdminFlag(s)
	t.Flags(s)
	t.outputFlags(s, timeout, timeoutUsage)
}

func (t *Target) outputFlags(s *pflag.FlagSet, timeout time.Duration, timeoutUsage string) {
	cli.Choice(s, &t.output, "output", "o", "Output `FORMAT`: table or json.", "table", "json")
	s.DurationVar(&t.Timeout, "timeout", timeout, timeoutUsage)
}

// pageTimeout and pageTimeoutUsage configure --timeout for most commands that read pages.
const (
	pageTimeout      = 10 * time.Second
	pageTimeoutUsage = "Fail if no response arrives within this `DURATION`."
)

// command returns a copy of the command v that accepts the given flags. The values of the flags are
// validated before the command runs. Users cannot combine an address with flags that select a
// cluster.
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

// Check returns a usage error if the value of a flag is invalid.
func (t *Target) Check() error {
	if _, _, err := net.SplitHostPort(t.Address); t.Address != "" && err != nil {
		return cli.Usagef("%s is %q: use HOST:PORT", t.AddressFlag, t.Address)
	}
	if t.Timeout <= 0 {
		return cli.Usagef("--timeout is %v: use a duration above 0, such as 10s", t.Timeout)
	}
	return nil
}

func (t *Target) asJSON() bool { return t.output == "json" }

func (t *Target) screen(p cli.Process) *screen { return &screen{w: p.Stdout, asJSON: t.asJSON()} }

// find returns the replicas that the flags select. Replicas that are not ready come last. The
// caller must call the returned release function when it no longer uses the replicas.
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

func (t *Target) await(ctx context.Context, p cli.Process, what, who string, work func() error) error {
	err := p.Await(ctx, fmt.Sprintf(" for %s, for up to %v", what, t.Timeout), work)
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
	return fmt.Errorf("%s did not respond within %v (--timeout)", who, t.Timeout)
}

func checkToken(text string) error {
	var token struct {
		NS, NodeName, Pod string
	}
	if text == "" || strings.HasPrefix(text, "ns:") {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &token); err != nil {
		return cli.Usagef(`--token: %w: use JSON like {"ns":"shop","nodeName":"node-1"}`, err)
	}
	return nil
}
