package commands

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// explainState is a page about a service to be shown.
type explainState struct {
	adminapi.ExplainOutput
	address netip.Addr // that was asked for; not valid: all
	node    string     // that was asked for
}

// unserved returns an error if the client does not get what was asked about.
func (s *explainState) unserved() error {
	p := &s.Explanation
	switch {
	case s.address.IsValid() && p.Verdicts[served] > 0 && p.Refused == "":
		return nil
	case s.address.IsValid() && totalOf(p) == 0:
		return fmt.Errorf("no EndpointSlice of %s has %v\n  Is it a Pod of that Service, in a cluster of the table? One that is not selected has no EndpointSlice", Printable(p.Authority), s.address)
	case s.address.IsValid():
		return fmt.Errorf("this client does not get %v", s.address)
	case p.Refused != "":
		return fmt.Errorf("a new stream of this client is refused: %s", Printable(p.Refused))
	case p.Set.Endpoints == 0:
		return errors.New("this client gets no endpoint")
	}
	return nil
}

// totalOf is how many addresses there are.
func totalOf(p *adminapi.Explanation) (n int) {
	for _, count := range p.Verdicts {
		n += count
	}
	return n
}

// table has what the service is made of, its addresses, what to do, and what proxies have.
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

// failuresOf returns why Isthmus can't update the service.
func failuresOf(p *adminapi.Explanation) (list []string) {
	for _, f := range p.Failures {
		list = append(list, f.String())
	}
	return list
}

// definitionPanicked reports whether the service is not defined because each attempt to define it has panicked.
func definitionPanicked(p *adminapi.Explanation) bool {
	return !p.Defined && slices.ContainsFunc(p.Failures, func(f adminapi.Failure) bool { return f.Where == "definition" })
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
	n, behind := totalOf(p), p.Verdicts[behindGateway]
	if behind > 0 && !s.address.IsValid() {
		return fmt.Sprintf("%s: %d of %s served, and %d behind gateways", summary, p.Verdicts[served], text.Count(n-behind, "address", "addresses"), behind)
	}
	if n > 0 || s.address.IsValid() {
		return fmt.Sprintf("%s: %d of %s served", summary, p.Verdicts[served], text.Count(n, "address", "addresses"))
	}
	return summary + ": no addresses"
}

// client is whom the answer is for.
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
	list := joined(", ", with("namespace ", c.Namespace), with("node ", cmp.Or(c.Node, s.node)), zone, with("asks for instance ", c.Instance))
	return cmp.Or(list, "any, in no zone (--node or --token names one)")
}

func (s *explainState) writeMembers(b *bytes.Buffer) {
	var t cells
	t.row("CLUSTER", "SERVICE", "STATE", "SINCE", "STANDING", "PORTS", "SERVED", "CHANGED", "WHY NOT")
	for _, m := range s.Members {
		t.row(m.Cluster, m.Service, coloured(m.State), age(s.Time, m.Since),
			coloured(m.Standing), portsOf(&m), servedOf(&s.Explanation, m), age(s.Time, m.Changed), whyNotServed(&s.Explanation, m))
	}
	t.writeUnder(b, "Members:\n")
}

func portsOf(m *adminapi.ExplainedMember) string {
	var list []string
	for _, p := range m.Ports {
		list = append(list, strconv.Itoa(int(p)))
	}
	return text.Some(list, maxNames)
}

// servedOf counts the addresses of a member; empty: not all of them are on the page.
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

// memberCount is how many addresses of a member are on the page.
type memberCount struct {
	all, served int
	behind      int  // gateways
	noGateway   bool // there is none for these
	undeclared  bool // the port, where it has to be
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

// remedies has a line for each thing that may be wrong, and what to do about it. placed: it is
// known where the client runs.
func remedies(p *adminapi.Explanation, placed bool) (list []string) {
	switch {
	case definitionPanicked(p):
		list = append(list, "the Service is not defined, because of the bug: new streams are refused until a retry succeeds; undo the newest "+
			"change of its annotations and labels, if there is one")
	case !p.Defined:
		list = append(list, "no such Service: see whether name, namespace and port are those that the application dials: kubectl get service -A")
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

func (s *explainState) writeHeld(b *bytes.Buffer) {
	if len(s.Held) == 0 {
		b.WriteString("No proxy of this gateway follows the service.\n")
		return
	}
	var t cells
	t.row("DESTINATION", "NODE", "ZONE", "STREAMS", "UP TO DATE", "WAIT", "SLOW", "VERSION", "ENDPOINTS", "LAST MESSAGE")
	for _, h := range s.Held[:min(maxLines, len(s.Held))] {
		t.row(h.Destination, h.Node, h.Zone, h.Streams, h.UpToDate,
			troubled(h.Waiting), troubled(h.Slow), h.Version, h.Endpoints, age(s.Time, h.LastMessage))
	}
	t.writeUnder(b, "Proxies:\n")
	if more := len(s.Held) - maxLines; more > 0 || s.MoreHeld > 0 {
		fmt.Fprintf(b, "  … and %d more: -o json lists %d of them\n", max(0, more)+s.MoreHeld, len(s.Held))
	}
}

// troubled is a number that should be 0.
func troubled(n int) cell {
	if n > 0 {
		return cell{strconv.Itoa(n), yellow}
	}
	return cell{text: "0"}
}
