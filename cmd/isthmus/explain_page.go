package main

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
)

// Explaining a large service takes as much as a first stream of it, so one is explained at
// a time, not for long, and at its pace.
const (
	maxExplains  = 1                // made at once: two would keep twice as much in memory; more wait, then get 429 Too Many Requests
	explainLimit = 10 * time.Second // of one
	explainWait  = 15 * time.Second // for a turn: longer than one takes
	maxExplained = 10_000           // addresses that a page lists

	// maxExplainClients is how many requests there may be at once, with those whose answer is
	// made and not taken: each has up to maxWhole.
	maxExplainClients = 8
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

// explainer answers /debug/explain.
type explainer struct {
	authorities authorities
	explain     func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error)
	clusters    func() map[federation.ClusterName]cluster.Status
	problems    func(federation.ServiceID) []string
}

// handler returns the page's handler. Answers are made in turns, each as a whole before the
// client gets the first of it: one that takes it slowly keeps nobody else waiting.
func (x *explainer) handler() http.Handler {
	making, clients := newTurns(maxExplains, explainWait, 0), newTurns(maxExplainClients, 0, pageTake)
	for _, t := range []*turns{making, clients} {
		t.busyCode, t.busy = http.StatusTooManyRequests, "another service is being explained, and that takes its time: try again"
	}
	made := making.limit(http.HandlerFunc(x.serve))
	return clients.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &wholeAnswer{header: w.Header()}
		made.ServeHTTP(answer, r)
		answer.send(w, "the answer has too long texts to be made: ask for one address, by address=10.0.0.1")
	}))
}

func (x *explainer) serve(w http.ResponseWriter, r *http.Request) {
	q, err := x.question(r.URL.Query())
	if err != nil {
		http.Error(w, printable(err.Error()), http.StatusBadRequest)
		return
	}
	p := newPace(r.Context())
	q.Rest = p.rest
	ctx, cancel := context.WithTimeout(r.Context(), explainLimit)
	defer cancel()
	answer, err := x.explain(ctx, q)
	if err != nil {
		code := http.StatusServiceUnavailable
		if status.Code(err) == codes.InvalidArgument {
			code = http.StatusBadRequest
		}
		http.Error(w, printable(status.Convert(err).Message()), code)
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	servePaced(w, newExplainPage(answer, x.clusters(), x.problems(answer.Service)), p.rest)
}

// question reads what is asked.
func (x *explainer) question(asked url.Values) (grpcapi.Question, error) {
	q := grpcapi.Question{Token: asked.Get("token"), Most: maxExplained}
	if asked.Get("authority") == "" {
		return q, errors.New(`authority is missing: ask for /debug/explain?authority=web.shop.svc.cluster.local:80, with token={"ns":"shop","nodeName":"node-1"} for a client there, and address=10.0.0.1 for one address`)
	}
	var err error
	if q.Authority, err = x.authorities.complete(asked.Get("authority")); err != nil {
		return q, err
	}
	if text := asked.Get("address"); text != "" {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" {
			return q, errors.New("address is no IP address, such as 10.0.0.1")
		}
		q.Addr = ip.Unmap()
	}
	return q, nil
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
		e.Identity = printable(at.Identity.Value().DNS + at.Identity.Value().URI) // one of them, or none
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

// printable replaces what a terminal may take for a command, and cuts what is long: texts of
// clusters and clients may have anything.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, beginning(text))
}

// printables returns texts of which each is printable.
func printables(texts []string) []string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = printable(text)
	}
	return list
}
