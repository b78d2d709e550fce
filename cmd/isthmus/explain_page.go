package main

import (
	"time"

	"google.golang.org/grpc/status"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
)

// explainPage is /debug/explain: what becomes of each address of a service for one client.
type explainPage struct {
	Authority  string            `json:"authority"`
	Client     explainedClient   `json:"client"`
	Defined    bool              `json:"defined"` // the own cluster has such a Service
	Federated  bool              `json:"federated"`
	Problems   []string          `json:"problems"`          // of the Service's annotations and labels
	Refused    string            `json:"refused,omitempty"` // how a new stream would be refused; empty: it would be served
	Set        explainedSet      `json:"set"`
	Preference *preferenceEntry  `json:"preference,omitempty"`
	Tiers      *clientsEntry     `json:"tiers,omitempty"`         // that the client uses, if it does not simply get everything
	Members    []explainedMember `json:"members"`                 // in order of precedence
	Verdicts   map[string]int    `json:"verdicts"`                // how many addresses have which
	Addresses  pageList          `json:"addresses"`               // of explainedEntry
	More       int               `json:"moreAddresses,omitempty"` // that are not listed
	// Held is what proxies have of the service, whatever client the page is about.
	Held     []grpcapi.HeldView `json:"streams"`
	MoreHeld int                `json:"moreStreamViews,omitempty"` // that are not listed
}

type explainedClient struct {
	Namespace string `json:"namespace,omitempty"`
	Node      string `json:"node,omitempty"`
	Zone      string `json:"zone,omitempty"`
	Instance  string `json:"instance,omitempty"`
}

// explainedSet is what the client gets.
type explainedSet struct {
	Version   uint64    `json:"version"`
	Endpoints int       `json:"endpoints"`
	Complete  bool      `json:"complete"`         // no member's cluster is pending
	Changed   time.Time `json:"changed,omitzero"` // when the newest change behind it happened, as far as known
	Origin    string    `json:"origin,omitempty"` // with changed: the cluster
}

type explainedMember struct {
	Cluster        string    `json:"cluster"`
	Service        string    `json:"service"` // its name in that cluster
	State          string    `json:"state"`   // of the cluster
	Since          time.Time `json:"since,omitzero"`
	Reason         string    `json:"reason,omitempty"` // why it does not serve; empty: it does
	Standing       string    `json:"standing"`
	StandingReason string    `json:"standingReason,omitempty"`
	NodeLocal      bool      `json:"nodeLocal,omitempty"` // internalTrafficPolicy is Local
	Ports          []uint16  `json:"ports"`               // that the port resolves to in its slices
	Changed        time.Time `json:"changed,omitzero"`    // when what it offers changed last, while the service is watched
	Updates        uint64    `json:"updates"`             // how often it has
}

// explainedList makes the entries of addresses.
type explainedList struct {
	addresses []federation.ExplainedAddress
	members   []explainedMember
	port      uint16
	entry     *explainedEntry // the last one made
}

// Len implements pageList.
func (l explainedList) Len() int { return len(l.addresses) }

// At implements pageList.
func (l explainedList) At(i int) any {
	a := &l.addresses[i]
	*l.entry = newExplainedEntry(a, &l.members[a.Member], l.port)
	return l.entry
}

// explainedEntry is one address of one slice.
type explainedEntry struct {
	Cluster  string    `json:"cluster"`
	Service  string    `json:"service"`
	Slice    string    `json:"slice"`
	Address  string    `json:"address"` // without a port if the slice does not have it
	Verdict  string    `json:"verdict"`
	Detail   string    `json:"detail,omitempty"`
	Changed  time.Time `json:"changed,omitzero"` // when its slice did last in the gateway, or was first read there
	Target   string    `json:"target,omitempty"` // what it stands for
	Tier     string    `json:"tier,omitempty"`
	Zone     string    `json:"zone,omitempty"`
	Node     string    `json:"node,omitempty"`
	Hostname string    `json:"hostname,omitempty"`
	Hints    []string  `json:"hints,omitempty"`
	Identity string    `json:"identity,omitempty"`
}

func newExplainPage(x *grpcapi.Explanation, clusters map[federation.ClusterName]cluster.Status, problems []string) explainPage {
	d := x.Definition
	page := explainPage{
		Authority: printable(x.Authority),
		Client:    explainedClient{printable(x.Namespace), printable(x.Client.Node), printable(x.Client.Zone), printable(x.Client.Instance)},
		Defined:   d != nil, Federated: d != nil && d.Federated, Problems: printables(problems),
		Set:     explainedSet{Version: x.Set.Version, Endpoints: len(x.Set.Endpoints), Complete: x.Set.Complete, Changed: x.Set.Changed},
		Members: []explainedMember{}, Verdicts: make(map[string]int), More: x.More,
		Held: append([]grpcapi.HeldView{}, x.Held...), MoreHeld: x.MoreHeld,
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
		page.Preference = newPreferenceEntry(d.Preference)
	}
	if x.Steered != nil {
		tiers := newClientsEntry(*x.Steered, x.Steered.Preference)
		tiers.Zone, tiers.Instance, tiers.Node = printable(tiers.Zone), printable(tiers.Instance), printable(tiers.Node)
		page.Tiers = &tiers
	}
	for _, m := range x.Members {
		page.Members = append(page.Members, newExplainedMember(m, clusters))
	}
	for v, n := range x.Verdicts {
		page.Verdicts[v.String()] = n
	}
	page.Addresses = explainedList{x.Addresses, page.Members, x.Port, new(explainedEntry)}
	return page
}

func newExplainedMember(m federation.ExplainedMember, clusters map[federation.ClusterName]cluster.Status) explainedMember {
	e := explainedMember{
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

func newExplainedEntry(a *federation.ExplainedAddress, m *explainedMember, port uint16) explainedEntry {
	e := explainedEntry{
		Cluster: m.Cluster, Service: m.Service, Slice: printable(a.Slice), Address: addressText(a.Considered), Verdict: a.Verdict.String(),
		Detail: printable(a.Detail), Changed: a.Changed, Target: printable(a.Target), Tier: a.Tier,
	}
	if a.Endpoint == nil {
		return e
	}
	at := a.Endpoint.At(port)
	e.Address, e.Target = addressText(federation.Considered{Addr: at.Addr}), printable(cluster.DescribeTarget(at.Twin))
	e.Zone, e.Node, e.Hostname = printable(at.Zone), printable(at.Node), printable(at.Hostname)
	if len(at.Hints) > 0 {
		e.Hints = printables(at.Hints)
	}
	if a.Verdict == federation.Served {
		id := at.Common.Get().Identity
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
