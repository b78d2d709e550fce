package commands

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// explainTimeout is the default of --timeout. A replica queues requests for explanations, and
// rejects a request that has waited too long.
const explainTimeout = 30 * time.Second

// explainOptions are the options of "isthmus explain".
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
		o.pageFlags(s, explainTimeout,
			"The gateways must have answered within this `DURATION`. Each explains one service at a time, and "+
				"others wait.")
		s.StringVar(&o.token, "token", "",
			"Context token of the client's proxy, as `JSON`"+`: {"ns":"shop","nodeName":"node-1"}.`)
		s.StringVar(&o.node, "node", "", "`NODE` that the client runs on, in place of a token: it decides on zones.")
		s.StringVar(&o.address, "address", "", "Only this `IP` address.")
	})
}

// runExplain shows every address of a service with its verdict.
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

// query returns the URL query for the page, and the address to explain.
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

// readAddress parses an IP address, optionally with a port.
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

// explainState is an explanation that is printed.
type explainState struct {
	adminapi.ExplainOutput
	address netip.Addr // set by --address; invalid for all addresses
	node    string     // set by --node
}

// unserved returns an error if the client does not receive the requested endpoints.
func (s *explainState) unserved() error {
	p := &s.Explanation
	switch {
	case s.address.IsValid() && p.Verdicts[served] > 0 && p.Refused == "":
		return nil
	case s.address.IsValid() && totalOf(p) == 0:
		return fmt.Errorf("no EndpointSlice of %s has %v\n  Is it a Pod of that Service, in a cluster of the "+
			"table? One that is not selected has no EndpointSlice", Printable(p.Authority), s.address)
	case s.address.IsValid():
		return fmt.Errorf("this client does not get %v", s.address)
	case p.Refused != "":
		return fmt.Errorf("a new stream of this client is refused: %s", Printable(p.Refused))
	case p.Set.Endpoints == 0:
		return errors.New("this client gets no endpoint")
	}
	return nil
}

// totalOf returns the total number of addresses.
func totalOf(p *adminapi.Explanation) (n int) {
	for _, count := range p.Verdicts {
		n += count
	}
	return n
}

// table returns a headline and the sections of the explanation: client, problems, tiers, members,
// addresses, remedies and proxies.
func (s *explainState) table() (string, []byte) {
	var b bytes.Buffer
	p := &s.Explanation
	writeUnchecked(&b, s.Unchecked)
	fmt.Fprintf(&b, "Client: %s\n", Printable(s.client()))
	if p.Refused != "" {
		fmt.Fprintf(&b, "A new stream is refused: %s\n", Printable(p.Refused))
	}
	writeList(&b, "Problems of the Service", p.Problems, maxLines)
	writeList(&b, "Problems of Isthmus", failuresOf(p), maxLines)
	if p.Tiers != nil {
		e := adminapi.Service{Service: p.Authority, Preference: p.Preference, Clients: []adminapi.Clients{*p.Tiers}}
		writeClients(&e, &b, s.Time)
	}
	s.writeMembers(&b)
	s.writeAddresses(&b)
	writeList(&b, "What to do", remedies(p, cmp.Or(s.node, p.Client.Node, p.Client.Zone) != ""), maxLines)
	s.writeHeld(&b)
	return s.headline(), b.Bytes()
}

// failuresOf returns the reasons why Isthmus can't update the service.
func failuresOf(p *adminapi.Explanation) (list []string) {
	for _, f := range p.Failures {
		list = append(list, f.String())
	}
	return list
}

// definitionPanicked reports whether the service is undefined because every attempt to define it
// panicked.
func definitionPanicked(p *adminapi.Explanation) bool {
	return !p.Defined &&
		slices.ContainsFunc(p.Failures, func(f adminapi.Failure) bool { return f.Where == "definition" })
}

func (s *explainState) headline() string {
	p := &s.Explanation
	summary := p.Authority
	switch {
	case definitionPanicked(p):
		summary += " (not defined)"
	case !p.Defined:
		summary += " (no such Service)"
	case p.Imported:
		summary += " (import)"
	case p.Federated:
		summary += " (federated)"
	}
	if len(p.Failures) > 0 && totalOf(p) == 0 {
		return fmt.Sprintf("%s: not explained, since Isthmus can't update it; this client keeps %s",
			summary, text.Count(p.Set.Endpoints, "endpoint", "endpoints"))
	}
	n := totalOf(p)
	behind := p.Verdicts[behindGateway]
	if behind > 0 && !s.address.IsValid() {
		return fmt.Sprintf("%s: %d of %s served, and %d behind gateways", summary, p.Verdicts[served],
			text.Count(n-behind, "address", "addresses"), behind)
	}
	if n > 0 || s.address.IsValid() {
		return fmt.Sprintf("%s: %d of %s served", summary, p.Verdicts[served], text.Count(n, "address", "addresses"))
	}
	return summary + ": no addresses"
}

// client describes the client of the explanation.
func (s *explainState) client() string {
	c := s.Client
	with := func(what, value string) string {
		if value == "" {
			return ""
		}
		return what + value
	}
	zone := with("zone ", c.Zone)
	if s.node != "" && c.Zone == "" {
		zone = "whose zone the gateway does not know"
	}
	list := joined(", ", with("namespace ", c.Namespace), with("node ", cmp.Or(c.Node, s.node)), zone,
		with("asks for instance ", c.Instance))
	return cmp.Or(list, "any, in no zone (--node or --token names one)")
}

func (s *explainState) writeMembers(b *bytes.Buffer) {
	var t cells
	t.row("CLUSTER", "SERVICE", "STATE", "SINCE", "STANDING", "PORTS", "SERVED", "CHANGED", "WHY NOT")
	for _, m := range s.Members {
		t.row(m.Cluster, m.Service, coloured(m.State), age(s.Time, m.Since),
			coloured(m.Standing), portsOf(&m), servedOf(&s.Explanation, m), age(s.Time, m.Changed),
			whyNotServed(&s.Explanation, m))
	}
	t.writeUnder(b, "Members:\n")
}

// maxAddressLines limits how many addresses of a service are listed.
const maxAddressLines = 40

func (s *explainState) writeAddresses(b *bytes.Buffer) {
	list := slices.Clone(s.Addresses)
	title, more := "Addresses", 0
	if n := totalOf(&s.Explanation); len(list) > maxAddressLines && !s.address.IsValid() {
		slices.SortStableFunc(list,
			func(a, b adminapi.ExplainedAddress) int { return cmp.Compare(rankOf(&a), rankOf(&b)) })
		list, more = list[:maxAddressLines], n-maxAddressLines
		title = fmt.Sprintf("Addresses (%s)", countsOf(&s.Explanation))
	}
	var t cells
	t.row("CLUSTER", "SLICE", "ADDRESS", "VERDICT", "FOR", "ZONE", "TIER", "CHANGED", "WHY")
	for _, a := range list {
		t.row(a.Cluster, a.Slice, a.Address, cell{a.Verdict, verdictColour(a.Verdict)}, standsFor(&a),
			a.Zone, a.Tier, age(s.Time, a.Changed), whyOf(&a))
	}
	t.writeUnder(b, Printable(title)+":\n")
	if more > 0 {
		fmt.Fprintf(b, "  … and %d more: --address IP shows one, -o json %d of them\n", more, len(s.Addresses))
	}
}

func (s *explainState) writeHeld(b *bytes.Buffer) {
	if len(s.Held) == 0 {
		b.WriteString("No proxy of this gateway follows the service.\n")
		return
	}
	var t cells
	t.row("DESTINATION", "NODE", "ZONE", "STREAMS", "UP TO DATE", "WAIT", "SLOW", "VERSION", "ENDPOINTS",
		"LAST MESSAGE")
	for _, h := range s.Held[:min(maxLines, len(s.Held))] {
		t.row(h.Destination, h.Node, h.Zone, h.Streams, h.UpToDate,
			troubled(h.Waiting), troubled(h.Slow), h.Version, h.Endpoints, age(s.Time, h.LastMessage))
	}
	t.writeUnder(b, "Proxies:\n")
	if more := len(s.Held) - maxLines; more > 0 || s.MoreHeld > 0 {
		fmt.Fprintf(b, "  … and %d more: -o json lists %d of them\n", max(0, more)+s.MoreHeld, len(s.Held))
	}
}

func portsOf(m *adminapi.ExplainedMember) string {
	var list []string
	for _, p := range m.Ports {
		list = append(list, strconv.Itoa(int(p)))
	}
	return text.Some(list, maxNames)
}

// servedOf returns how many addresses of a member are served, or "" if the page does not contain
// all addresses.
func servedOf(p *adminapi.Explanation, m adminapi.ExplainedMember) string {
	if p.More > 0 {
		return ""
	}
	n := countOf(p, m)
	text := fmt.Sprintf("%d of %d", n.served, n.all-n.behind)
	if n.behind > 0 {
		text += fmt.Sprintf(", %d behind", n.behind)
	}
	return text
}

// memberCount counts the addresses of a member on the page.
type memberCount struct {
	all, served int
	behind      int  // behind a gateway
	noGateway   bool // an address lacks a gateway
	undeclared  bool // the Service must declare the port but does not
}

func countOf(p *adminapi.Explanation, m adminapi.ExplainedMember) (n memberCount) {
	for _, a := range p.Addresses {
		if a.Cluster != m.Cluster || a.Service != m.Service {
			continue
		}
		n.all++
		switch a.Verdict {
		case served:
			n.served++
		case behindGateway:
			n.behind++
			n.noGateway = n.noGateway || a.Detail != ""
		case portUndeclared:
			n.undeclared = true
		}
	}
	return n
}

func whyNotServed(p *adminapi.Explanation, m adminapi.ExplainedMember) string {
	local, ports := "", ""
	if m.NodeLocal {
		local = "internalTrafficPolicy is Local"
	}
	n := countOf(p, m)
	switch {
	case m.Reason != "" || p.More > 0:
	case n.noGateway:
		ports = "no address of a gateway is known: isthmus clusters shows why"
	case n.undeclared:
		ports = "its Service does not declare the port, and the gateway has written this one"
	case len(m.Ports) > 0:
	case n.served > 0:
		ports = "its Service does not have the port: the Pods' own port of that number is used"
	case n.all == 0:
		ports = "its EndpointSlices have no addresses"
	}
	return joined("; ", m.Reason, m.StandingReason, local, ports)
}

// remedies returns one line for each possible problem, with its remedy. The parameter placed means
// that the client's node or zone is known.
func remedies(p *adminapi.Explanation, placed bool) (list []string) {
	switch {
	case definitionPanicked(p):
		list = append(list,
			"the Service is not defined, because of the bug: new streams are refused until a retry succeeds; "+
				"undo the newest change of its annotations and labels, if there is one")
	case !p.Defined:
		list = append(list,
			"no such Service: see whether name, namespace and port are those that the application dials: kubectl "+
				"get service -A")
	}
	for _, m := range p.Members {
		if remedy := stateRemedies[m.State]; remedy != "" {
			list = append(list, m.Cluster+" is "+m.State+": "+remedy)
		}
	}
	for _, v := range byCount(p) {
		remedy := verdicts[v].remedy
		if ofNode[v] && !placed {
			remedy = "give the client's node by --node"
		}
		if remedy != "" {
			list = append(list, fmt.Sprintf("%s (%d): %s", v, p.Verdicts[v], remedy))
		}
	}
	return list
}

// troubled returns the cell for a number that should be 0.
func troubled(n int) cell {
	if n > 0 {
		return cell{strconv.Itoa(n), yellow}
	}
	return cell{text: "0"}
}

// standsFor returns the object that has the address. For a gateway, the page has neither slice nor
// target.
func standsFor(a *adminapi.ExplainedAddress) string {
	if a.Slice == "gateways" {
		return "gateway of " + a.Cluster
	}
	return a.Target
}

// rankOf returns the sort key of an address for a list that does not contain all addresses.
func rankOf(a *adminapi.ExplainedAddress) int {
	switch a.Verdict {
	case served:
		return 1
	case behindGateway:
		return 2
	}
	return 0
}

// whyOf returns the verdict as a sentence with details.
func whyOf(a *adminapi.ExplainedAddress) string {
	why := cmp.Or(verdicts[a.Verdict].why, a.Verdict)
	switch a.Verdict {
	case "other-node":
		why += ": " + cmp.Or(a.Node, "its node is not known")
	case "hinted-to-other-nodes":
		why += ": " + text.Some(a.NodeHints, maxNames)
	case "hinted-to-other-zones":
		why += ": " + text.Some(a.Hints, maxNames)
	case "other-instance":
		why += ": " + cmp.Or(a.Hostname, "it has none")
	}
	if a.Detail != "" {
		why += ": " + a.Detail
	}
	return why
}

func verdictColour(verdict string) colour {
	switch verdict {
	case served:
		return green
	case behindGateway, "tier-not-in-use", "hinted-to-other-nodes", "hinted-to-other-zones",
		"other-node", "other-instance", "other-address-preferred", "just-changed":
		return plain
	}
	return red
}

// countsOf returns the number of addresses by verdict, the most frequent verdict first.
func countsOf(p *adminapi.Explanation) string {
	var list []string
	for _, v := range byCount(p) {
		list = append(list, fmt.Sprintf("%d %s", p.Verdicts[v], v))
	}
	return strings.Join(list, ", ")
}

func byCount(p *adminapi.Explanation) []string {
	return slices.SortedFunc(maps.Keys(p.Verdicts), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.Verdicts[b], p.Verdicts[a]), strings.Compare(a, b))
	})
}

// verdictWords are the texts for a verdict: why an address is not served, and the remedy if there
// is one.
type verdictWords struct{ why, remedy string }

// Verdicts that are no problem. Clients reach an address behind a gateway through the address of
// the gateway.
const (
	served        = "served"
	behindGateway = "behind-a-gateway"
)

// portUndeclared is the verdict for all addresses of a member whose Service must declare the port.
// portUndeclared applies to Services that Isthmus writes.
const portUndeclared = "port-not-declared"

// verdicts contains the texts for all verdicts of this version.
var verdicts = map[string]verdictWords{
	served: {"clients get it", ""},
	"no-such-service": {"the cluster has no such Service, or one of type ExternalName",
		"create the Service in that cluster, or take the cluster out of the definition"},
	"no-such-port": {"its EndpointSlice does not have the port, or not for TCP",
		"no container of the Pod has a TCP port with the name of the Service's targetPort, " +
			"or the slice is not of this Service: kubectl get service,endpointslice,pod -o yaml"},
	"terminating": {"it is not ready, and being shut down", ""},
	"not-ready":   {"it is not ready", "look at its readiness: kubectl describe pod, in its cluster"},
	"stands-for-something-else": {"it stands for something that is neither a Pod nor an ExternalWorkload",
		"correct targetRef in the EndpointSlice, or leave it out"},
	"unusable-text": {"it can't be read, or a text of it can't be sent to proxies",
		"look at the EndpointSlice, and at the Pod's labels, for texts that are too long or not UTF-8"},
	"not-routable": {"no other host can have it: loopback, link-local, multicast, 255.255.255.255, or of 0.0.0.0/8",
		"correct what writes the EndpointSlice"},
	"pod-not-known": {"the gateway does not know what it stands for, not yet or no longer",
		"see whether that Pod or ExternalWorkload exists in its cluster, and whether the link may read those: " +
			"isthmus clusters"},
	"unusable":    {"its ExternalWorkload can't be used", "correct the ExternalWorkload"},
	behindGateway: {"its cluster is on another network: clients reach it through the cluster's gateways", ""},
	"gateway-dead": {"the gateway does not answer probes, and another of its cluster does",
		"see why it does not answer: isthmus clusters"},
	"nothing-behind-the-gateway": {"the Service has no ready endpoint behind the gateway",
		"look at the Service's Pods in that cluster"},
	portUndeclared: {
		"its own Service does not declare the port for TCP, as members of a Service that the gateway writes must",
		"declare the port with protocol TCP in the Service of that cluster"},
	"just-changed": {"it has just changed", "ask again"},
	"outside-ranges": {"the link may not offer it",
		"correct the address ranges of the link Secret, if that is the cluster's Pod network"},
	"owned-by-local-cluster": {"the gateway's own cluster has it",
		"the networks of the two clusters overlap: only one can be reached"},
	"cluster-cordoned": {"its cluster is withdrawn by hand", "end the cordon, if it is not meant"},
	"cluster-lost":     {"its cluster is withdrawn, since its API is not followed", "see why: isthmus clusters"},
	"taken": {"another member or slice before it has it",
		"if these are different Pods, the networks of the clusters overlap"},
	"other-instance": {"it does not have the hostname that was asked for", ""},
	"other-node": {"traffic stays on the client's node, by internalTrafficPolicy",
		"run its Pods on the client's node too, or set the Service's internalTrafficPolicy to Cluster"},
	"in-no-tier": {"no tier of the preference names it",
		"add a tier such as any to isthmus.io/prefer, if it is to be used"},
	"tier-not-in-use": {"its tier is not needed now", ""},
	"hinted-to-other-zones": {"it is hinted to other zones than the client's",
		"that keeps traffic in its zone; to end it, take trafficDistribution " +
			"and service.kubernetes.io/topology-mode off the Service, or see what writes the hints"},
	"hinted-to-other-nodes": {"it is hinted to other nodes than the client's, which has an endpoint of its own",
		"that keeps traffic on its node; " +
			"to end it, take trafficDistribution off the Service, or see what writes the hints"},
	"ipv6-off": {"the gateway does not serve IPv6",
		"run the gateway with --enable-ipv6, if clients can reach it"},
	"other-address-preferred": {"clients get its Pod by an IPv6 address", ""},
}

// ofNode contains the verdicts that depend on the client's node.
var ofNode = map[string]bool{"other-node": true, "hinted-to-other-nodes": true, "hinted-to-other-zones": true}

// stateRemedies contains the remedy for each state of a member's cluster.
var stateRemedies = map[string]string{
	"unlinked": "no link Secret names the cluster: link it, or take it out of the definition",
	"rejected": "its link Secret can't be used: correct that",
	"pending":  "the gateway has not read it yet: ask again in some seconds",
	"unreachable": "its API has never answered: isthmus clusters shows why; check server and credentials of its " +
		"link Secret",
	"stale": "its API has stopped answering; what it had stays: isthmus clusters shows why",
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
