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
	targeting
	token string
	once  bool
}

// flags returns the flags, which store into o.
func (o *options) flags() []cli.Section {
	return []cli.Section{cli.NewSection("Flags", func(s *pflag.FlagSet) {
		o.targeting.flags(s, "addr", "`HOST:PORT` of the gateway's gRPC server, or of Linkerd's destination controller.")
		s.StringVar(&o.token, "token", "", `Context token of the proxy to stand for, as `+"`JSON`"+`: {"ns":"shop","nodeName":"node-1","pod":"web-1"}; `+
			`the node decides on zones, the namespace on ServiceProfiles.`)
		s.BoolVar(&o.once, "once", false, "Print the first state and exit.")
		o.printing.flags(s, "The first state must be there within this `DURATION`.")
	})}
}

// authority returns the one that the arguments name, once all is checked.
func (o *options) authority(p cli.Process) (string, error) {
	switch {
	case len(p.Args) == 0 || p.Args[0] == "":
		return "", cli.Usagef("no AUTHORITY given: name a service, such as web.shop.svc.cluster.local:80")
	case len(p.Args) > 1:
		return "", cli.Usagef("unexpected argument %q: give one AUTHORITY", p.Args[1])
	}
	return p.Args[0], o.check()
}

func (o *options) check() error {
	var token struct {
		NS, NodeName, Pod string
	}
	if o.token != "" && !strings.HasPrefix(o.token, "ns:") {
		if err := json.Unmarshal([]byte(o.token), &token); err != nil {
			return cli.Usagef(`--token: %w: give JSON like {"ns":"shop","nodeName":"node-1"}`, err)
		}
	}
	if err := o.targeting.check(); err != nil {
		return err
	}
	return o.printing.check()
}

// printing is how a verb prints, and how long it waits.
type printing struct {
	output  string
	timeout time.Duration
}

// outputs are what is suggested for -o.
var outputs = map[string][]string{"output": {"table", "json"}}

func (o *printing) flags(s *pflag.FlagSet, timeout string) {
	s.StringVarP(&o.output, "output", "o", "table", "`FORMAT` of what is printed: table or json.")
	s.DurationVar(&o.timeout, "timeout", 10*time.Second, timeout)
}

func (o *printing) check() error {
	if o.output != "table" && o.output != "json" {
		return cli.Usagef("-o is %q: give table or json", o.output)
	}
	if o.timeout <= 0 {
		return cli.Usagef("--timeout is %v: give a duration above 0, such as 10s", o.timeout)
	}
	return nil
}

func (o *printing) asJSON() bool { return o.output == "json" }
