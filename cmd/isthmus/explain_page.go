package main

import (
	"google.golang.org/grpc/status"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

func newExplainPage(
	x *grpcapi.Explanation,
	clusters map[federation.ClusterName]cluster.Status,
	problems []string,
	failures []adminapi.Failure,
) adminapi.Explanation {
	d := x.Definition
	page := adminapi.Explanation{
		Authority: printable(x.Authority),
		Client:    adminapi.Client{Namespace: printable(x.Namespace), Node: printable(x.Client.Node), Zone: printable(x.Client.Zone), Instance: printable(x.Client.Instance)},
		Defined:   d != nil,
		Federated: d != nil && d.Federated,
		Imported:  d != nil && d.Imported,
		Problems:  printables(problems),
		Failures:  failures,
		Set: adminapi.Set{
			Version:   x.Set.Version,
			Endpoints: len(x.Set.Endpoints),
			Complete:  x.Set.Complete,
			Changed:   x.Set.Changed,
		},
		Members: []adminapi.ExplainedMember{}, Verdicts: make(map[string]int), More: x.More,
		Held: append([]adminapi.HeldView{}, x.Held...), MoreHeld: x.MoreHeld,
	}
	for i := range page.Held {
		h := &page.Held[i]
		h.Destination, h.Node, h.Zone = printable(h.Destination), printable(h.Node), printable(h.Zone)
	}
	if x.Refusal != nil {
		page.Refused = printable(status.Code(x.Refusal).String() + ": " + status.Convert(x.Refusal).Message())
	}
	if !x.Set.Changed.IsZero() {
		page.Set.Origin = x.Set.Origin.String()
	}
	if d != nil && d.Preference != nil && len(d.Preference.Tiers) > 0 {
		page.Preference = newPreference(d.Preference)
	}
	if x.Steered != nil {
		t := newClients(x.Steered)
		t.Zone, t.Instance, t.Node = printable(t.Zone), printable(t.Instance), printable(t.Node)
		page.Tiers = &t
	}
	for _, m := range x.Members {
		page.Members = append(page.Members, newExplainedMember(m, clusters))
	}
	for v, n := range x.Verdicts {
		page.Verdicts[v.String()] = n
	}
	page.Addresses = make([]adminapi.ExplainedAddress, len(x.Addresses))
	for i := range x.Addresses {
		page.Addresses[i] = newExplainedEntry(&x.Addresses[i], &page.Members[x.Addresses[i].Member])
	}
	return page
}

func newExplainedMember(m federation.WatchedMember, clusters map[federation.ClusterName]cluster.Status) adminapi.ExplainedMember {
	e := adminapi.ExplainedMember{
		Cluster: m.Member.Cluster.String(), Service: m.Member.Service.String(), State: m.Status.Link.String(), Standing: m.Standing.String(),
		NodeLocal: m.NodeLocal, Ports: append([]uint16{}, m.Ports...), Changed: m.Changed, Updates: m.Updates,
	}
	st, known := clusters[m.Member.Cluster]
	if known {
		e.State, e.Since = string(st.State), st.Since
	}
	if !m.Status.Serving() {
		e.Reason = m.Status.String()
		if m.Status.Link != federation.Ready && st.Reason != "" {
			e.Reason += ": " + printable(st.Reason)
		}
	}
	if m.Standing != federation.InService || m.Spreading {
		e.StandingReason = printable(st.StandingReason)
	}
	return e
}

func newExplainedEntry(a *federation.ExplainedAddress, m *adminapi.ExplainedMember) adminapi.ExplainedAddress {
	e := adminapi.ExplainedAddress{
		Cluster: m.Cluster, Service: m.Service, Slice: printable(a.Slice), Address: addressText(a.Considered), Verdict: a.Verdict.String(),
		Detail: printable(a.Detail), Changed: a.Changed, Target: printable(a.Target), Tier: a.Tier,
	}
	if a.Endpoint == nil {
		return e
	}
	endpoint := a.Endpoint
	e.Address, e.Target = addressText(federation.Considered{Addr: endpoint.Addr}),
		printable(cluster.DescribeTarget(endpoint.Twin))
	e.Zone, e.Node, e.Hostname = printable(endpoint.Zone), printable(endpoint.Node), printable(endpoint.Hostname)
	if zones := endpoint.Hints.Zones(); len(zones) > 0 {
		e.Hints = printables(zones)
	}
	if nodes := endpoint.Hints.Nodes(); len(nodes) > 0 {
		e.NodeHints = printables(nodes)
	}
	if a.Verdict == federation.Served {
		id := endpoint.Common.Get().Identity
		e.Identity = printable(id.DNS + id.URI) // one of them, or none
	}
	return e
}

// addressText is an address as far as it is known.
func addressText(a federation.Considered) string {
	switch {
	case !a.Addr.IsValid():
		return printable(a.Text)
	case a.Addr.Port() == 0:
		return a.Addr.Addr().String()
	}
	return a.Addr.String()
}
