package commands

import (
	"context"
	"encoding/json"
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

// explainTimeout is by default for an explanation: a gateway lets it wait for its turn, or refuses it after a while.
const explainTimeout = 30 * time.Second

// explainOptions are those of "isthmus explain".
type explainOptions struct {
	Target
	token, node, address string
}

func explainCommand() cli.Command {
	o := &explainOptions{Target: Target{first: true}}
	return o.command(cli.Command{
		Use:     "explain AUTHORITY",
		Such:    "web.shop.svc.cluster.local:80",
		Summary: "show every address of a service, served or not, and why",
		Intro:   explainIntro,
		Ending:  explainEnding,
		OneOf:   [][2]string{{"token", "node"}},
		Run:     func(ctx context.Context, p cli.Process) error { return runExplain(ctx, p, o) },
	}, func(s *pflag.FlagSet) {
		o.pageFlags(s, explainTimeout, "The gateways must have answered within this `DURATION`. Each explains one service at a time, and others wait.")
		s.StringVar(&o.token, "token", "", "Context token of the client's proxy, as `JSON`"+`: {"ns":"shop","nodeName":"node-1"}.`)
		s.StringVar(&o.node, "node", "", "`NODE` that the client runs on, in place of a token: it decides on zones.")
		s.StringVar(&o.address, "address", "", "Only this `IP` address.")
	})
}

// runExplain shows what becomes of the addresses of a service.
func runExplain(ctx context.Context, p cli.Process, o *explainOptions) error {
	query, ip, err := o.query(p)
	if err != nil {
		return err
	}
	answer, _, err := readEach[adminapi.Explanation](ctx, p, &o.Target, "/debug/explain?"+query, nil)
	if err != nil {
		return err
	}
	page := adminapi.ExplainOutput{
		Time: answer.At, Gateway: answer.Replica, Explanation: *answer.Value, Unchecked: answer.Unchecked(p.Build),
	}
	s := &explainState{page, ip, o.node}
	if err := o.screen(p).show(s.Time, s.Gateway, s.ExplainOutput, s.table); err != nil {
		return err
	}
	if err := answer.OtherFormat(p.Build); err != nil {
		return err
	}
	return s.unserved()
}

// query returns what to ask the page, and the address that is asked about.
func (o *explainOptions) query(p cli.Process) (query string, ip netip.Addr, err error) {
	if err := checkToken(o.token); err != nil {
		return "", ip, err
	}
	q := url.Values{"authority": {p.Args[0]}}
	if o.node != "" {
		token, err := json.Marshal(map[string]string{"nodeName": o.node})
		if err != nil {
			return "", ip, cli.Usagef("--node: %w", err)
		}
		o.token = string(token)
	}
	if o.token != "" {
		q.Set("token", o.token)
	}
	if o.address != "" {
		if ip, err = readAddress(o.address); err != nil {
			return "", ip, err
		}
		q.Set("address", ip.String())
	}
	return q.Encode(), ip, nil
}

// readAddress reads an IP address, of which a port may follow.
func readAddress(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		var at netip.AddrPort
		at, err = netip.ParseAddrPort(text)
		ip = at.Addr()
	}
	if err != nil || ip.Zone() != "" {
		return ip, cli.Usagef("--address is %q: give an IP address, such as 10.0.0.1", text)
	}
	return ip.Unmap(), nil
}

const explainIntro = `isthmus explain shows every address that any EndpointSlice of a service has, in any
cluster that it is made of, served or not, and the one reason for it.

Usage: isthmus explain AUTHORITY [FLAGS]

AUTHORITY is what an application dials: SERVICE.NAMESPACE.svc.DOMAIN:PORT. Short for it
are NAMESPACE/SERVICE and SERVICE.NAMESPACE, with :PORT or the Service's only port, or
80 of several. A Service's cluster IP stands for that Service.
SERVICE.NAMESPACE.svc.clusterset.local[:PORT] explains the ServiceImport of that name.`

const explainEnding = `The tables:
  Members     what the service is made of: the state of each cluster and since when, its
              standing, the PORTS that this one resolves to there, how many addresses
              are SERVED (and how many are behind gateways, which stand for them), when
              what it offers last CHANGED while proxies watch it, and WHY NOT
  Addresses   each with a verdict, what it stands FOR, when its slice last CHANGED in
              the gateway, and WHY. Of many, those that are not served come first,
              and those behind gateways last
  Proxies     of this replica: how many STREAMS have each set of endpoints, are up to
              date, WAIT for their first message, or are SLOW: they have not taken a
              message for a second

-o json prints one object in a line: go doc isthmus/internal/adminapi.ExplainOutput
explains its fields.

Exit code 0 if the client gets endpoints; with --address, if it gets that one. 1 if not,
or if the gateway can't be asked. Clusters that are missing do not change it: isthmus
check is for those.

Examples:
  isthmus explain shop/web-federated
  isthmus explain web-federated.shop.svc.cluster.local:80 --node node-1 --address 10.1.0.7
  isthmus explain shop/web -o json | jq -r '.addresses[] | select(.verdict != "served")'`
