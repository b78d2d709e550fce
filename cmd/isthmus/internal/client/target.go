package client

import (
	"encoding/json"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
)

// Target is how users name gateways, for verbs of this package and of others, and how long a verb waits for them.
type Target struct {
	reach.Options
	Address string        // HOST:PORT of the only gateway; empty: it is found by Options
	Timeout time.Duration // of all that the verb does; it is above 0
	output  string        // table or json
	gateway string        // the one whose page has been read: HOST:PORT, or NAMESPACE/POD
}

// AdminFlag adds --admin, for verbs that read pages.
func (t *Target) AdminFlag(s *pflag.FlagSet) {
	t.addressFlag(s, "admin", "`HOST:PORT` of the gateway's admin server, which is its --metrics-addr.")
}

func (t *Target) addressFlag(s *pflag.FlagSet, name, usage string) {
	t.AddressFlag = "--" + name
	s.StringVar(&t.Address, name, "", usage+" Without it: it is found in Pods by the kubeconfig, and reached through the API server.")
}

// pageFlags are those of the verbs that read pages. limit is for how long by default, and allowed what that is for.
func (t *Target) pageFlags(s *pflag.FlagSet, limit time.Duration, allowed string) {
	t.AdminFlag(s)
	t.Flags(s)
	t.outputFlags(s, limit, allowed)
}

func (t *Target) outputFlags(s *pflag.FlagSet, limit time.Duration, allowed string) {
	cli.Choice(s, &t.output, "output", "o", "`FORMAT` of what is printed: table or json.", "table", "json")
	s.DurationVar(&t.Timeout, "timeout", limit, allowed)
}

// What most verbs that read pages have as --timeout.
const (
	pageTimeout = 10 * time.Second
	pageAllowed = "The gateway must have answered within this `DURATION`."
)

// check is Check for verbs that need no cluster where they have an address: flags that name one are refused then.
func (t *Target) check() error {
	if other := t.Set(); t.Address != "" && other != "" {
		return cli.Usagef("%s goes straight to a gateway, %s looks for it: give one of them", t.AddressFlag, other)
	}
	return t.Check()
}

// Check returns a usage error unless the flags are good.
func (t *Target) Check() error {
	if t.Address != "" && t.Pod != "" {
		return cli.Usagef("%s goes straight to a gateway, --pod looks for it: give one of them", t.AddressFlag)
	}
	if _, _, err := net.SplitHostPort(t.Address); t.Address != "" && err != nil {
		return cli.Usagef("%s is %q: give HOST:PORT", t.AddressFlag, t.Address)
	}
	if t.Timeout <= 0 {
		return cli.Usagef("--timeout is %v: give a duration above 0, such as 10s", t.Timeout)
	}
	return nil
}

func (t *Target) asJSON() bool { return t.output == "json" }

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
