package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/http_types"
	"github.com/linkerd/linkerd2-proxy-api/go/meta"
	"google.golang.org/grpc/codes"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

func profileCommand() cli.Command {
	return streamCommand(cli.Command{
		Use:     "profile AUTHORITY",
		Example: "web.shop.svc.cluster.local:80",
		Summary: "show a live view of the protocol, routes and retries that a proxy receives for a destination",
		Intro:   profileIntro,
		Ending:  profileEnding,
	}, session[pb.DestinationProfile]{
		state: &profileState{}, open: pb.DestinationClient.GetProfile, meanings: codeMeanings{
			codes.InvalidArgument: "The authority is invalid: " +
				"it is neither an IP address nor a service name in the local cluster domain, " +
				"or it names a Service of type ExternalName. A proxy does not retry.",
			codes.FailedPrecondition: "Several objects claim this address. " +
				"Only older versions of Isthmus end the stream with this status. A proxy does not retry.",
			codes.Unavailable: "several objects claim this address " +
				"(if the conflict persists, run isthmus check to list the objects)",
			codes.NotFound: "The local cluster has no such Service, " +
				"or none of the Service's endpoints has that hostname. A proxy retries with backoff.",
		}})
}

// profileState is the state of a proxy that watches one GetProfile stream. The last message
// replaces all earlier ones. The zero value is the state before the first message.
type profileState struct {
	*pb.DestinationProfile
	address netip.AddrPort  // address of its endpoint; invalid if it has no endpoint
	sent    json.RawMessage // the JSON form of the message
}

func (p *profileState) started() bool { return p.DestinationProfile != nil }

// apply replaces the current profile with the one in a message. If the message is invalid, the
// result is an error.
func (p *profileState) apply(m *pb.DestinationProfile) error {
	sent, err := messageJSON(m)
	if err != nil {
		return errors.New("a profile that is ignored, because it cannot be encoded as JSON: " +
			"a duration may be out of range")
	}
	*p = profileState{DestinationProfile: m, sent: sent}
	if m.GetEndpoint() != nil {
		p.address, err = decodeAddress(m.GetEndpoint().GetAddr())
	}
	return err
}

func (p *profileState) output(at time.Time, authority string) any {
	return adminapi.ProfileOutput{Time: at, Authority: authority, Address: p.address, Sent: p.sent}
}

// table returns a heading and a table with one row for each field that is set, followed by one row
// for each route.
func (p *profileState) table() (string, []byte) {
	headline := "no profile"
	switch {
	case p.address.IsValid():
		headline = "endpoint " + p.address.String()
	case p.GetFullyQualifiedName() != "":
		headline = "service " + p.GetFullyQualifiedName()
	case p.GetRetryBudget() != nil:
		headline = "profile"
	default:
		return headline, nil
	}
	var t cells
	t.row("opaque", yesOrNo(p.GetOpaqueProtocol()))
	t.row("retries", retriesText(p.GetRetryBudget()))
	if e := p.GetEndpoint(); p.address.IsValid() {
		t.row("endpoint", fmt.Sprintf("%s weight %d", p.address, e.GetWeight()))
		t.row("labels", labelsText(e.GetMetricLabels()))
		t.row("identity", peerOf(e))
		t.row("hints", hintsOf(e))
	} else {
		t.row("service", referenceText(p.GetParentRef()))
		t.row("profile", referenceText(p.GetProfileRef()))
	}
	for _, o := range p.GetDstOverrides() {
		t.row("overrides", fmt.Sprintf("%s weight %d", o.GetAuthority(), o.GetWeight()))
	}
	var b bytes.Buffer
	t.write(&b, "  ")
	writeRoutes(&b, p.GetRoutes())
	return headline, b.Bytes()
}

func writeRoutes(b *bytes.Buffer, routes []*pb.Route) {
	var t cells
	t.row("ROUTE", "RETRY", "TIMEOUT", "CONDITION", "RESPONSES")
	for _, r := range routes {
		var classes []string
		for _, c := range r.GetResponseClasses() {
			outcome := " succeeds"
			if c.GetIsFailure() {
				outcome = " fails"
			}
			classes = append(classes, responseCondition(c.GetCondition(), 0)+outcome)
		}
		timeout := ""
		if d := r.GetTimeout(); d != nil {
			timeout = d.AsDuration().String()
		}
		t.row(r.GetMetricsLabels()["route"], yesOrNo(r.GetIsRetryable()), timeout,
			requestCondition(r.GetCondition(), 0), strings.Join(classes, ", "))
	}
	t.writeUnder(b, "")
}

func labelsText(labels map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, name+"="+labels[name])
	}
	return strings.Join(list, " ")
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func retriesText(b *pb.RetryBudget) string {
	if b == nil {
		return "-"
	}
	return fmt.Sprintf("%v%% of the requests in the last %s, plus %d per second", 100*b.GetRetryRatio(),
		b.GetTtl().AsDuration(), b.GetMinRetriesPerSecond())
}

func referenceText(m *meta.Metadata) string {
	r := m.GetResource()
	switch {
	case r.GetName() == "":
		return "none"
	case r.GetPort() != 0:
		return fmt.Sprintf("%s/%s port %d", r.GetNamespace(), r.GetName(), r.GetPort())
	}
	return r.GetNamespace() + "/" + r.GetName()
}

// maxNesting limits how deeply nested a described condition may be. Describing a deeply nested
// condition from a hostile server would take quadratic time.
const maxNesting = 16

// requestCondition describes, in one line, which requests a route matches. Conditions that are
// nested more deeply than maxNesting are shown as "…".
func requestCondition(m *pb.RequestMatch, nesting int) string {
	if nesting > maxNesting {
		return "…"
	}
	within := func(m *pb.RequestMatch) string { return requestCondition(m, nesting+1) }
	switch x := m.GetMatch().(type) {
	case *pb.RequestMatch_All:
		return joinConditions(x.All.GetMatches(), " and ", "every request", within)
	case *pb.RequestMatch_Any:
		return joinConditions(x.Any.GetMatches(), " or ", "no request", within)
	case *pb.RequestMatch_Not:
		return "not " + within(x.Not)
	case *pb.RequestMatch_Path:
		return fmt.Sprintf("path %q", x.Path.GetRegex())
	case *pb.RequestMatch_Method:
		if name, ok := x.Method.GetType().(*http_types.HttpMethod_Unregistered); ok {
			return fmt.Sprintf("method %q", name.Unregistered)
		}
		return "method " + x.Method.GetRegistered().String()
	}
	return "?"
}

// responseCondition describes, in one line, which responses a response class matches.
func responseCondition(m *pb.ResponseMatch, nesting int) string {
	if nesting > maxNesting {
		return "…"
	}
	within := func(m *pb.ResponseMatch) string { return responseCondition(m, nesting+1) }
	switch x := m.GetMatch().(type) {
	case *pb.ResponseMatch_All:
		return joinConditions(x.All.GetMatches(), " and ", "every response", within)
	case *pb.ResponseMatch_Any:
		return joinConditions(x.Any.GetMatches(), " or ", "no response", within)
	case *pb.ResponseMatch_Not:
		return "not " + within(x.Not)
	case *pb.ResponseMatch_Status:
		return "status " + statusRange(x.Status.GetMin(), x.Status.GetMax())
	}
	return "?"
}

// joinConditions describes each condition, joins the descriptions with a word such as " and ", and
// adds parentheses if there are several. If the list is empty, joinConditions returns ifEmpty.
func joinConditions[M any](list []M, word, ifEmpty string, text func(M) string) string {
	var parts []string
	for _, m := range list {
		parts = append(parts, text(m))
	}
	switch len(parts) {
	case 0:
		return ifEmpty
	case 1:
		return parts[0]
	}
	return "(" + strings.Join(parts, word) + ")"
}

// statusRange describes a range of status codes. If a bound is zero, the range is unbounded on that
// side.
func statusRange(low, high uint32) string {
	switch {
	case low == high && low != 0:
		return fmt.Sprint(low)
	case low == 0 && high == 0:
		return "any"
	case high == 0:
		return fmt.Sprintf("from %d", low)
	case low == 0:
		return fmt.Sprintf("up to %d", high)
	}
	return fmt.Sprintf("%d-%d", low, high)
}

const profileIntro = `isthmus profile shows the protocol, routes and retries of a destination as a proxy
receives them, live. It opens a GetProfile stream and prints the profile after each
change. Press Ctrl-C to stop.

Usage: isthmus profile AUTHORITY [FLAGS]

AUTHORITY is the address that an application dials: IP:PORT, [IPv6]:PORT,
SERVICE.NAMESPACE.svc.DOMAIN:PORT, or INSTANCE.SERVICE.NAMESPACE.svc.DOMAIN:PORT. The
default port is 80. A Service or cluster IP has the routes and retries of its
ServiceProfile. Any other address is a single endpoint.`

const profileEnding = `The output:
  opaque     whether proxies treat connections as plain TCP without detecting a protocol
  retries    the retry budget, which limits how many requests may be retries
  service    the Service and the requested port
  profile    the ServiceProfile, or "none" if defaults apply
  overrides  destinations that receive requests instead, with weights
  ROUTE      a request belongs to the first route whose CONDITION matches, and its
             response to the first of the RESPONSES that matches
  endpoint, labels, identity, hints
             properties of an address without a Service, as in isthmus get
"no profile" is the response for a port that the Service does not declare, and for a
deleted Service.

-o json prints one object per line for each profile. go doc
isthmus/internal/adminapi.ProfileOutput explains its fields. The field "sent" is the
DestinationProfile of linkerd2-proxy-api in protobuf's JSON form.

The exit code is 1 if the stream ends. The error explains the status.

Examples:
  isthmus profile web.shop.svc.cluster.local:80
  isthmus profile 10.0.0.1:8080 --once -o json
  isthmus profile web.shop.svc.cluster.local:80 --addr 127.0.0.1:8086 \
    --token '{"ns":"client-ns"}'    # with the ServiceProfiles of client-ns`
