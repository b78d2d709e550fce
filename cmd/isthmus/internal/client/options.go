package client

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
)

// options are those of the verbs that open a stream.
type options struct {
	printing
	replicaOptions
	token string
	once  bool
}

// flags returns the flags, which store into o.
func (o *options) flags() []cli.Section {
	return []cli.Section{cli.NewSection("Flags", func(s *pflag.FlagSet) {
		o.replicaOptions.flags(s, "addr", "`HOST:PORT` of the gateway's gRPC server, or of Linkerd's destination controller.")
		s.StringVar(&o.token, "token", "", `Context token of the proxy to stand for, as `+"`JSON`"+`: {"ns":"shop","nodeName":"node-1","pod":"web-1"}; `+
			`the node decides on zones, the namespace on ServiceProfiles.`)
		s.BoolVar(&o.once, "once", false, "Print the first state and exit.")
		o.printing.flags(s, "The first state must be there within this `DURATION`.")
	})}
}

func (o *options) check() error {
	if err := checkToken(o.token); err != nil {
		return err
	}
	if err := o.replicaOptions.check(); err != nil {
		return err
	}
	return o.printing.check()
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

// printing is how a verb prints, and how long it waits.
type printing struct {
	output  string
	timeout time.Duration
}

func (o *printing) flags(s *pflag.FlagSet, timeout string) {
	cli.Choice(s, &o.output, "output", "o", "`FORMAT` of what is printed: table or json.", "table", "json")
	s.DurationVar(&o.timeout, "timeout", 10*time.Second, timeout)
}

// allow replaces the default of --timeout, and what it is for.
func (o *printing) allow(limit time.Duration, s *pflag.FlagSet, usage string) {
	flag := s.Lookup("timeout")
	o.timeout, flag.DefValue, flag.Usage = limit, limit.String(), usage
}

func (o *printing) check() error {
	if o.timeout <= 0 {
		return cli.Usagef("--timeout is %v: give a duration above 0, such as 10s", o.timeout)
	}
	return nil
}

func (o *printing) asJSON() bool { return o.output == "json" }
