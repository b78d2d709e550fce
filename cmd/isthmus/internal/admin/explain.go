package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

const (
	maxExplains  = 1                // concurrent computations; two would use twice as much memory
	explainLimit = 10 * time.Second // time limit of one explanation
	explainWait  = 10 * time.Second // maximum wait for a computation, after pageWait for maxExplainClients
	maxExplained = 500              // maximum number of addresses on a page

	// maxExplainClients is the maximum number of concurrent explain requests. A request counts
	// toward this maximum until the client has read the response, which may use up to
	// maxExplanation bytes of memory.
	maxExplainClients = 8

	// maxExplanation is the maximum size of a response, in bytes. Even if all strings in an
	// explanation of 500 addresses are long, the response takes up only about a quarter of
	// maxExplanation.
	maxExplanation = 16 << 20
)

// explainHandler serves /debug/explain, which has the query parameters authority, token and
// address.
type explainHandler struct {
	*Sources
	turns *limiter // limits concurrent computations; a slow client does not delay others
}

// newExplainHandler returns a handler for /debug/explain that limits the number of concurrent
// requests.
func newExplainHandler(from *Sources) http.Handler {
	h := explainHandler{from, newLimiter(maxExplains, explainWait, 0)}
	clients := newLimiter(maxExplainClients, pageWait, explainWait+explainLimit+pageTimeout)
	return clients.limit(h)
}

// ServeHTTP implements http.Handler.
func (h explainHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := h.question(r.URL.Query())
	if err != nil {
		http.Error(w, printable(err.Error()), http.StatusBadRequest)
		return
	}
	end, ok := h.turns.turn(w, r)
	if !ok {
		return
	}
	explained, err := h.explanationInTurn(r.Context(), q, end)
	switch {
	case status.Code(err) == codes.InvalidArgument:
		http.Error(w, printable(status.Convert(err).Message()), http.StatusBadRequest)
	case status.Code(err) == codes.ResourceExhausted: // a limit that a retry does not change
		http.Error(w, printable(status.Convert(err).Message()), http.StatusInsufficientStorage)
	case err != nil:
		http.Error(w, printable(status.Convert(err).Message()), http.StatusServiceUnavailable)
	case len(explained.text) > maxExplanation:
		http.Error(w, "the explanation is too large: limit it with a parameter such as address=10.0.0.1",
			http.StatusInsufficientStorage)
	default:
		explained.serve(w)
	}
}

// explanationInTurn computes the explanation, and calls the end function even if the computation
// panics.
func (h explainHandler) explanationInTurn(ctx context.Context, q grpcapi.Question, end func()) (answer, error) {
	defer end()
	return h.explanation(ctx, q)
}

func (h explainHandler) explanation(ctx context.Context, q grpcapi.Question) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, explainLimit)
	defer cancel()
	x, err := h.Streams.Explain(ctx, q)
	if err != nil {
		return answer{}, err
	}
	problems := slices.Clone(h.Local.ProblemsOf(x.Service))
	if problem := h.Local.ProfileProblem(x.Service, x.Namespace); problem != "" {
		problems = append(problems, problem)
	}
	return encode(newExplanation(x, h.statusByCluster(), problems, h.failuresOf(x.Service))), nil
}

func (h explainHandler) question(asked url.Values) (grpcapi.Question, error) {
	q := grpcapi.Question{Token: asked.Get("token"), Limit: maxExplained}
	if asked.Get("authority") == "" {
		return q, errors.New(`authority is missing: request /debug/explain?authority=web.shop.svc.cluster.local:80, ` +
			`with token={"ns":"shop","nodeName":"node-1"} for a client on that node, ` +
			`and address=10.0.0.1 for one address`)
	}
	var err error
	q.Authority, err = h.authority(asked.Get("authority"))
	if err != nil {
		return q, err
	}
	if text := asked.Get("address"); text != "" {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" {
			return q, errors.New("the address parameter is not an IP address: use an address such as 10.0.0.1")
		}
		q.Addr = ip.Unmap()
	}
	return q, nil
}

// authorityForms is the part of error messages that lists the accepted forms of an authority.
const authorityForms = "use NAMESPACE/NAME, NAME.NAMESPACE, or the name and port that the application dials, " +
	"such as web.shop.svc.cluster.local:80"

const importSuffix = ".svc.clusterset.local"

// The authority method expands the given authority to the form that proxies send. The returned
// errors are meant for users. The following rules apply:
//
//   - The forms NAMESPACE/NAME, NAME.NAMESPACE and NAME.NAMESPACE.svc are accepted, with or without
//     :PORT.
//   - If :PORT is missing and the Service has a single port, the result contains that port. If the
//     Service has several ports including 80, the result contains port 80.
//   - A cluster IP is replaced with the name of its Service.
//   - The DNS name of a ServiceImport is replaced with the name of the Service that clients of the
//     ServiceImport reach.
//   - A name that ends with the cluster domain stays unchanged.
func (h explainHandler) authority(given string) (string, error) {
	host, port, err := net.SplitHostPort(given)
	if err != nil {
		host = given
		port = ""
	}
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && ip.Zone() == "" {
		return h.ofAddress(ip.Unmap(), port)
	}
	id, instance, short := shortName(host)
	if short {
		return h.withPort(id, instance, port)
	}
	if strings.HasSuffix(host, ".svc."+h.Domain) {
		return given, nil
	}
	if id, ok := importName(host); ok {
		return h.ofImport(id, port)
	}
	return "", fmt.Errorf("%q is not a service name in the cluster domain %s: %s",
		text.Truncate(given, maxRepeated), h.Domain, authorityForms)
}

// withPort returns the authority of a service, and chooses a port if none is given.
func (h explainHandler) withPort(id federation.ServiceID, instance, port string) (string, error) {
	if port == "" {
		ports := h.Local.Ports(id)
		switch {
		case len(ports) == 1:
			port = strconv.Itoa(int(ports[0]))
		case len(ports) == 0 || slices.Contains(ports, 80):
			port = "80"
		default:
			return "", fmt.Errorf("%v has several ports: add one of %s, such as %v:%d",
				id, portList(ports), id, ports[0])
		}
	}
	host := id.Name + "." + id.Namespace + ".svc." + h.Domain
	if instance != "" {
		host = instance + "." + host
	}
	return net.JoinHostPort(host, port), nil
}

// ofImport returns the authority of the Service behind a ServiceImport, because DNS resolves the
// name of the ServiceImport to the cluster IPs of that Service.
func (h explainHandler) ofImport(serviceImport federation.ServiceID, port string) (string, error) {
	id, ok := h.Local.ServiceOfImport(serviceImport)
	if !ok {
		name := text.Truncate(serviceImport.String(), maxRepeated)
		return "", fmt.Errorf("no Service is written for ServiceImport %s, so its clients receive no endpoints. "+
			"A headless ServiceImport never has a Service. Run isthmus exports %s to see what is written, and why",
			name, name)
	}
	return h.withPort(id, "", port)
}

// ofAddress returns the authority of the Service with the cluster IP ip. If the address is not the
// cluster IP of exactly one Service, ofAddress returns an error that says how proxies treat
// connections to the address.
func (h explainHandler) ofAddress(ip netip.Addr, port string) (string, error) {
	owner := h.Local.AddressOwner(ip)
	switch {
	case owner.Service != nil:
		return h.withPort(*owner.Service, "", port)
	case owner.Claimed != "":
		return "", fmt.Errorf("several objects in the local cluster claim %v: %s: "+
			"clients that dial the address wait until only one object claims it. "+
			"If the conflict persists, run isthmus check to list the conflicting objects", ip, printable(owner.Claimed))
	case owner.Name != "":
		return "", fmt.Errorf("%v belongs to %s in the local cluster, not to a Service: "+
			"clients that dial the address do not connect through a Service. "+
			"Ask about the service that clients dial, and set the address parameter (--address) to this IP address",
			ip, printable(owner.Name))
	}
	return "", fmt.Errorf("%v is neither a Service's cluster IP nor a Pod's IP in the local cluster: "+
		"clients that dial the address do not connect through a Service. "+
		"If the address belongs to a linked cluster, ask about the service that clients dial, "+
		"and set the address parameter (--address) to this IP address", ip)
}

func (h explainHandler) failuresOf(id federation.ServiceID) (list []adminapi.Failure) {
	for _, f := range h.Failures() {
		if f.Service == id {
			list = append(list, f.Failure)
		}
	}
	return list
}

// statusByCluster returns the status of each cluster. If several link Secrets name the same
// cluster, a valid Secret takes precedence over a rejected one.
func (h explainHandler) statusByCluster() map[federation.ClusterName]cluster.Status {
	all := make(map[federation.ClusterName]cluster.Status)
	for _, l := range h.Links.Status() {
		name := federation.ClusterName(l.Cluster)
		if old, known := all[name]; !known || old.State == cluster.Rejected {
			all[name] = l.ClusterStatus
		}
	}
	// The key of the local cluster is the empty name, so the status of the local cluster overwrites
	// the status of any link Secret without a cluster name.
	all[federation.Local] = h.Local.Status().ClusterStatus
	return all
}

func shortName(host string) (id federation.ServiceID, instance string, ok bool) {
	if namespace, name, slash := strings.Cut(host, "/"); slash {
		id = federation.ServiceID{Namespace: namespace, Name: name}
		return id, "", nameable(namespace) && nameable(name)
	}
	labels := strings.Split(strings.TrimSuffix(host, ".svc"), ".")
	if len(labels) == 3 && strings.HasSuffix(host, ".svc") {
		instance = labels[0]
		labels = labels[1:]
	}
	if len(labels) != 2 || labels[1] == "svc" || !nameable(labels[0]) || !nameable(labels[1]) {
		return id, "", false
	}
	return federation.ServiceID{Namespace: labels[1], Name: labels[0]}, instance, true
}

// importName parses the DNS name of a ServiceImport, with or without a trailing dot.
func importName(host string) (id federation.ServiceID, ok bool) {
	rest, ok := strings.CutSuffix(strings.TrimSuffix(host, "."), importSuffix)
	if !ok {
		return id, false
	}
	name, namespace, _ := strings.Cut(rest, ".")
	id = federation.ServiceID{Namespace: namespace, Name: name}
	return id, nameable(namespace) && nameable(name)
}

// nameable reports whether a string can be a label of a host name.
func nameable(label string) bool { return label != "" && !strings.ContainsAny(label, "./:") }

func portList(ports []uint16) string {
	list := make([]string, len(ports))
	for i, p := range ports {
		list[i] = fmt.Sprint(":", p)
	}
	return text.Some(list, 10)
}

// newExplanation converts a [grpcapi.Explanation] to a response of the debug API. The problems and
// failures arguments describe the same service as the [grpcapi.Explanation].
func newExplanation(
	x *grpcapi.Explanation,
	clusters map[federation.ClusterName]cluster.Status,
	problems []string,
	failures []adminapi.Failure,
) adminapi.Explanation {
	d := x.Definition
	page := adminapi.Explanation{
		Authority: printable(x.Authority),
		Client: adminapi.Client{
			Namespace: printable(x.Namespace),
			Node:      printable(x.Client.Node),
			Zone:      printable(x.Client.Zone),
			Instance:  printable(x.Client.Instance),
		},
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
		Members:  []adminapi.ExplainedMember{},
		Verdicts: make(map[string]int),
		More:     x.More,
		Held:     append([]adminapi.HeldView{}, x.Held...),
		MoreHeld: x.MoreHeld,
	}
	for i := range page.Held {
		h := &page.Held[i]
		h.Destination = printable(h.Destination)
		h.Node = printable(h.Node)
		h.Zone = printable(h.Zone)
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
		t.Zone = printable(t.Zone)
		t.Instance = printable(t.Instance)
		t.Node = printable(t.Node)
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
		a := &x.Addresses[i]
		page.Addresses[i] = newExplainedAddress(a, &page.Members[a.Member])
	}
	return page
}

func newExplainedMember(
	m federation.WatchedMember,
	clusters map[federation.ClusterName]cluster.Status,
) adminapi.ExplainedMember {
	e := adminapi.ExplainedMember{
		Cluster:   m.Member.Cluster.String(),
		Service:   m.Member.Service.String(),
		State:     m.Status.Link.String(),
		Standing:  m.Standing.String(),
		NodeLocal: m.NodeLocal,
		Ports:     append([]uint16{}, m.Ports...),
		Changed:   m.Changed,
		Updates:   m.Updates,
	}
	st, known := clusters[m.Member.Cluster]
	if known {
		e.State = string(st.State)
		e.Since = st.Since
		e.CopyOf = st.CopyOf
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

func newExplainedAddress(a *federation.ExplainedAddress, m *adminapi.ExplainedMember) adminapi.ExplainedAddress {
	e := adminapi.ExplainedAddress{
		Cluster: m.Cluster,
		Service: m.Service,
		Slice:   printable(a.Slice),
		Address: addressText(a.Considered),
		Verdict: a.Verdict.String(),
		Detail:  printable(a.Detail),
		Changed: a.Changed,
		Target:  printable(a.Target),
		Tier:    a.Tier,
	}
	if a.Endpoint == nil {
		return e
	}
	endpoint := a.Endpoint
	e.Address = addressText(federation.Considered{Addr: endpoint.Addr})
	e.Target = printable(cluster.DescribeTarget(endpoint.Twin))
	e.Zone = printable(endpoint.Zone)
	e.Node = printable(endpoint.Node)
	e.Hostname = printable(endpoint.Hostname)
	if zones := endpoint.Hints.Zones(); len(zones) > 0 {
		e.Hints = printables(zones)
	}
	if nodes := endpoint.Hints.Nodes(); len(nodes) > 0 {
		e.NodeHints = printables(nodes)
	}
	if a.Verdict == federation.Served {
		id := endpoint.Common.Get().Identity
		e.Identity = printable(id.DNS + id.URI) // at most one of them is set
	}
	return e
}

func addressText(a federation.Considered) string {
	switch {
	case !a.Addr.IsValid():
		return printable(a.Text)
	case a.Addr.Port() == 0:
		return a.Addr.Addr().String()
	}
	return a.Addr.String()
}
