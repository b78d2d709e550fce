package client

import (
	"encoding/json"
	"flag"
	"strings"

	"isthmus/cmd/isthmus/internal/cli"
)

// options are those of the verbs that open a stream.
type options struct {
	addr, token, output string
	once                bool
}

// flags returns a flag set that stores into o.
func (o *options) flags(verb, intro, ending string) *cli.Flags {
	f := cli.NewFlags(verb, intro, ending)
	f.Section("Flags", func(s *flag.FlagSet) {
		s.StringVar(&o.addr, "addr", "localhost:8086", "`HOST:PORT` of the gateway's gRPC server, or of Linkerd's destination controller.")
		s.StringVar(&o.token, "token", "", `Context token of the proxy to stand for, as `+"`JSON`"+`: {"ns":"shop","nodeName":"node-1","pod":"web-1"}; `+
			`the node decides on zones, the namespace on ServiceProfiles.`)
		s.StringVar(&o.output, "o", "table", "`FORMAT` of the states: table or json.")
		s.BoolVar(&o.once, "once", false, "Print the first state and exit.")
	})
	return f
}

// parse reads the arguments and returns the authority. If they ask for help, it
// prints that and returns no authority.
func (o *options) parse(f *cli.Flags, p cli.Process) (authority string, err error) {
	rest, err := f.Parse(p.Args)
	switch {
	case err != nil:
		return "", err
	case f.HelpAsked():
		f.Help(p.Stdout)
		return "", nil
	case len(rest) == 0 || rest[0] == "":
		return "", cli.Usagef("no AUTHORITY given: name a service, such as web.shop.svc.cluster.local:80")
	case len(rest) > 1:
		return "", cli.Usagef("unexpected argument %q: give one AUTHORITY", rest[1])
	}
	return rest[0], o.check()
}

func (o *options) check() error {
	if o.output != "table" && o.output != "json" {
		return cli.Usagef("-o is %q: give table or json", o.output)
	}
	var token struct {
		NS, NodeName, Pod string
	}
	if o.token != "" && !strings.HasPrefix(o.token, "ns:") {
		if err := json.Unmarshal([]byte(o.token), &token); err != nil {
			return cli.Usagef(`--token: %w: give JSON like {"ns":"shop","nodeName":"node-1"}`, err)
		}
	}
	return nil
}
