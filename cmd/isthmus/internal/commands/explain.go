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

// explainTimeout is longer than pageTimeout, because replicas queue requests for
// explanations.
const explainTimeout = 30 * time.Second

type explainOptions struct {
	Target
	token, node, address string
}

func explainCommand() cli.Command {
	o := &explainOptions{Target: Target{first: true}}
	return o.command(cli.Command{
		Use:     "explain AUTHORITY",
		Example: "web.shop.svc.cluster.local:80",
		Summary: "show every address of a service, and why clients do or do not receive it",
		Intro:   explainIntro,
		Ending:  explainEnding,
		OneOf:   [][2]string{{"token", "node"}},
		Run:     func(ctx context.Context, p cli.Process) error { return runExplain(ctx, p, o) },
	}, func(s *pflag.FlagSet) {
		o.pageFlags(s, explainTimeout,
			"Fail if a replica does not respond within this `DURATION`. "+
				"A replica explains one service at a time, and other requests wait.")
		s.StringVar(&o.token, "token", "",
			"Context token of the client's proxy, as `JSON`"+`: {"ns":"shop","nodeName":"node-1"}.`)
		s.StringVar(&o.node, "node", "",
			"`NODE` of the client, as an alternative to --token. The node determines the zone.")
		s.StringVar(&o.address, "address", "", "Show only this `IP` address.")
	})
}

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

func readAddress(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		var at netip.AddrPort
		at, err = netip.ParseAddrPort(text)
		ip = at.Addr()
	}
	if err != nil || ip.Zone() != "" {
		return ip, cli.Usagef("--address is %q: use an IP address, such as 10.0.0.1", text)
	}
	return ip.Unmap(), nil
}

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
		return fmt.Errorf("no EndpointSlice of %s contains %v\n  Check that the Service selects the Pod, "+
			"and that the Pod runs in one of the clusters in the table", Printable(p.Authority), s.address)
	case s.address.IsValid():
		return fmt.Errorf("this client does not get %v", s.address)
	case p.Refused != "":
		return fmt.Errorf("a new stream from this client would be rejected: %s", Printable(p.Refused))
	case p.Set.Endpoints == 0:
		return errors.New("this client gets no endpoint")
	}
	return nil
}

func totalOf(p *adminapi.Explanation) (n int) {
	for _, count := range p.Verdicts {
		n += count
	}
	return n
}

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
		return fmt.Sprintf("%s: no explanation is available, because Isthmus cannot recompute the endpoints; "+
			"the client keeps %s",
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
		zone = "whose zone the replica does not know"
	}
	list := joined(", ", with("namespace ", c.Namespace), with("node ", cmp.Or(c.Node, s.node)), zone,
		with("asks for instance ", c.Instance))
	return cmp.Or(list, "any client without a zone (to set a zone, use --node or --token)")
}

func (s *explainState) writeMembers(b *bytes.Buffer) {
	var t cells
	t.row("CLUSTER", "SERVICE", "STATE", "SINCE", "STANDING", "PORTS", "SERVED", "CHANGED", "WHY NOT")
	for _, m := range s.Members {
		t.row(m.Cluster, m.Service, colored(m.State), age(s.Time, m.Since),
			colored(m.Standing), portsOf(&m), servedOf(&s.Explanation, m), age(s.Time, m.Changed),
			whyNotServed(&s.Explanation, m))
	}
	t.writeUnder(b, "Members:\n")
}

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
		t.row(a.Cluster, a.Slice, a.Address, cell{a.Verdict, verdictColor(a.Verdict)}, standsFor(&a),
			a.Zone, a.Tier, age(s.Time, a.Changed), whyOf(&a))
	}
	t.writeUnder(b, Printable(title)+":\n")
	if more > 0 {
		fmt.Fprintf(b, "  … and %d more: --address IP shows one, -o json %d of them\n", more, len(s.Addresses))
	}
}

func (s *explainState) writeHeld(b *bytes.Buffer) {
	if len(s.Held) == 0 {
		b.WriteString("No proxy that is connected to this replica watches the service.\n")
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

// memberCount counts the addresses of one member in an explanation.
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
	local, ports, copied := "", "", ""
	if !m.CopyOf.IsZero() {
		copied = "from a copy of " + m.CopyOf.UTC().Format(time.RFC3339)
	}
	if m.NodeLocal {
		local = "internalTrafficPolicy is Local"
	}
	n := countOf(p, m)
	switch {
	case m.Reason != "" || p.More > 0:
	case n.noGateway:
		ports = "no gateway of the cluster has a known address: run isthmus clusters to see why"
	case n.undeclared:
		ports = "the member's Service does not declare the port, " +
			"and Isthmus includes only declared ports in the Services that it writes"
	case len(m.Ports) > 0:
	case n.served > 0:
		ports = "the Service does not declare the port, so clients connect to the same port number on the Pods"
	case n.all == 0:
		ports = "its EndpointSlices have no addresses"
	}
	return joined("; ", m.Reason, copied, m.StandingReason, local, ports)
}

// remedies returns one line for each possible problem, with its remedy. If placed is true, the
// client's node or zone is known.
func remedies(p *adminapi.Explanation, placed bool) (list []string) {
	switch {
	case definitionPanicked(p):
		list = append(list,
			"a bug prevents Isthmus from reading the Service, "+
				"and new streams are rejected until a retry succeeds: "+
				"revert the latest change to the annotations and labels of the Service")
	case !p.Defined:
		list = append(list,
			"no such Service: check that the name, namespace and port match what the application dials: "+
				"kubectl get service -A")
	}
	for _, m := range p.Members {
		if remedy := stateRemedies[m.State]; remedy != "" {
			list = append(list, m.Cluster+" is "+m.State+": "+remedy)
		}
	}
	for _, v := range byCount(p) {
		remedy := verdicts[v].remedy
		if ofNode[v] && !placed {
			remedy = "use the client's node by --node"
		}
		if remedy != "" {
			list = append(list, fmt.Sprintf("%s (%d): %s", v, p.Verdicts[v], remedy))
		}
	}
	return list
}

func troubled(n int) cell {
	if n > 0 {
		return cell{strconv.Itoa(n), yellow}
	}
	return cell{text: "0"}
}

// standsFor returns the object to which the address is assigned. The slice name "gateways" means
// that the address belongs to a gateway.
func standsFor(a *adminapi.ExplainedAddress) string {
	if a.Slice == "gateways" {
		return "gateway of " + a.Cluster
	}
	return a.Target
}

// rankOf returns the sort key of an address. In a shortened list, addresses that are neither served
// nor behind a gateway come first.
func rankOf(a *adminapi.ExplainedAddress) int {
	switch a.Verdict {
	case served:
		return 1
	case behindGateway:
		return 2
	}
	return 0
}

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

func verdictColor(verdict string) color {
	switch verdict {
	case served:
		return green
	case behindGateway, "tier-not-in-use", "hinted-to-other-nodes", "hinted-to-other-zones",
		"other-node", "other-instance", "other-address-preferred", "just-changed":
		return plain
	}
	return red
}

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

type verdictWords struct{ why, remedy string }

// Verdicts that are no problem. Clients reach an address behind a gateway through the address of
// the gateway.
const (
	served        = "served"
	behindGateway = "behind-a-gateway"
)

// portUndeclared is the verdict for all addresses of a member whose Service does not declare a
// required port.
const portUndeclared = "port-not-declared"

var verdicts = map[string]verdictWords{
	served: {"clients get it", ""},
	"no-such-service": {"the cluster has no such Service, or the Service has type ExternalName",
		"create the Service in that cluster, or remove the cluster from the definition"},
	"no-such-port": {"the EndpointSlice does not contain the port with protocol TCP",
		"check that a container in the Pod declares a TCP port whose name is the Service's targetPort, " +
			"and that the EndpointSlice belongs to the Service: kubectl get service,endpointslice,pod -o yaml"},
	"terminating": {"it is not ready, and is terminating", ""},
	"not-ready": {"it is not ready",
		"find out why the Pod is not ready: run kubectl describe pod in the Pod's cluster"},
	"stands-for-something-else": {"the targetRef of the address names neither a Pod nor an ExternalWorkload",
		"correct or remove targetRef in the EndpointSlice"},
	"unusable-text": {"the endpoint is invalid, or contains a string that cannot be sent to proxies",
		"in the EndpointSlice and the Pod's labels, look for strings that are too long or not UTF-8"},
	"not-routable": {"other hosts cannot reach the address, " +
		"which is unspecified, loopback, link-local, multicast, 255.255.255.255 or in 0.0.0.0/8",
		"correct the writer of the EndpointSlice"},
	"pod-not-known": {"Isthmus cannot find the Pod or ExternalWorkload of this address",
		"check that the Pod or ExternalWorkload exists in its cluster, " +
			"and run isthmus clusters to see whether the link is allowed to read such objects"},
	"unusable":    {"its ExternalWorkload cannot be used", "correct the ExternalWorkload"},
	behindGateway: {"the cluster is on another network, so clients reach its Pods through its gateways", ""},
	"gateway-dead": {"the gateway does not respond to probes, but another gateway of its cluster does",
		"run isthmus clusters to see why the gateway does not respond"},
	"nothing-behind-the-gateway": {"the Service has no ready endpoint behind the gateway",
		"check the Service's Pods in that cluster"},
	portUndeclared: {
		"the member's Service does not declare the TCP port, " +
			"and Isthmus includes only declared ports in the Services that it writes",
		"declare the port with protocol TCP in the Service of that cluster"},
	"just-changed": {"it has just changed", "run the command again"},
	"outside-ranges": {"the link may not offer it",
		"if the address is in the cluster's Pod network, correct the address ranges in the link Secret"},
	"owned-by-local-cluster": {"the local cluster uses the same address",
		"resolve the overlap: clients can reach only one of two clusters whose networks overlap"},
	"cluster-cordoned": {"the cluster is cordoned", "end the cordon if it is not intended"},
	"cluster-lost": {"the cluster is withdrawn, because its API cannot be watched",
		"run isthmus clusters to see why"},
	"taken": {"an earlier member or EndpointSlice already offers the same address",
		"if different Pods have this address, resolve the overlap of the clusters' networks"},
	"other-instance": {"it does not have the requested hostname", ""},
	"other-node": {"internalTrafficPolicy keeps traffic on the client's node",
		"run a Pod on the client's node, or set the Service's internalTrafficPolicy to Cluster"},
	"in-no-tier": {"no tier of the preference names it",
		`to use the address, add a tier such as "any" to isthmus.io/prefer`},
	"tier-not-in-use": {"its tier is not needed now", ""},
	"hinted-to-other-zones": {"the endpoint's hints do not include the client's zone",
		"hints keep traffic within a zone; to change this, " +
			"remove trafficDistribution and service.kubernetes.io/topology-mode from the Service, " +
			"or change the configuration of the component that writes the hints"},
	"hinted-to-other-nodes": {
		"the endpoint's hints do not include the client's node, but the hints of another endpoint do",
		"hints keep traffic on a node; " +
			"to change this, remove trafficDistribution from the Service, " +
			"or change the configuration of the component that writes the hints"},
	"ipv6-off": {"Isthmus does not serve IPv6 addresses",
		"if clients can reach IPv6 addresses, run isthmus gateway with --enable-ipv6"},
	"other-address-preferred": {"clients get its Pod by an IPv6 address", ""},
}

var ofNode = map[string]bool{"other-node": true, "hinted-to-other-nodes": true, "hinted-to-other-zones": true}

var stateRemedies = map[string]string{
	"unlinked": "no link Secret names the cluster: link the cluster, or remove it from the definition",
	"rejected": "the link Secret of the cluster is unusable: correct the Secret",
	"pending":  "Isthmus has not read the cluster yet: run the command again in a few seconds",
	"unreachable": "the cluster's API server has never responded: run isthmus clusters to see why, " +
		"and check the server and the credentials in the link Secret",
	"stale": "the cluster's API server has stopped responding, but the cluster's endpoints stay in use: " +
		"run isthmus clusters to see why",
}

const explainIntro = `isthmus explain shows every address in the EndpointSlices of a service, in all its clusters.
For each address, the command shows whether clients receive it, and the reason.

Usage: isthmus explain AUTHORITY [FLAGS]

AUTHORITY is the name that an application dials: SERVICE.NAMESPACE.svc.DOMAIN:PORT. Its
short forms are NAMESPACE/SERVICE and SERVICE.NAMESPACE. Without :PORT, the port is the
Service's only port, or 80 if there are several. A cluster IP stands for its Service.
SERVICE.NAMESPACE.svc.clusterset.local[:PORT] explains the ServiceImport of that name.`

const explainEnding = `The tables:
  Members     the members of the service: the state of each cluster and its age, the
              standing, the PORTS to which the requested port resolves, the number of
              SERVED addresses and of those behind gateways, the last time that the
              endpoints CHANGED while proxies watch them, and WHY NOT
  Addresses   each address with its verdict, the object that it stands FOR, the last time
              that the replica saw a CHANGED slice, and WHY. A long list starts with
              addresses that are not served and ends with addresses behind gateways
  Proxies     the proxies of this replica: the number of STREAMS with each set of
              endpoints, and how many are UP TO DATE, WAIT for the first message, or are
              SLOW because they have not read a message for a second

-o json prints one object per line. go doc isthmus/internal/adminapi.ExplainOutput
explains its fields.

The exit code is 0 if the client receives endpoints or, with --address, that address. The
exit code is 1 otherwise, or if no replica can be queried. Missing clusters do not change
the exit code. Check the clusters with isthmus check.

Examples:
  isthmus explain shop/web-federated
  isthmus explain web-federated.shop.svc.cluster.local:80 --node node-1 --address 10.1.0.7
  isthmus explain shop/web -o json | jq -r '.addresses[] | select(.verdict != "served")'`
