package main

import (
	"fmt"
	"strings"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/http_types"
	"google.golang.org/protobuf/types/known/durationpb"
)

// profile is what a proxy holds after the messages of one GetProfile stream: the
// last, in the form that "isthmus profile -o json" prints. Its zero value is a
// proxy that has heard nothing.
type profile struct {
	known bool

	Name      string     `json:"name,omitempty"`
	Opaque    bool       `json:"opaque"`
	Routes    []route    `json:"routes,omitempty"`
	Budget    *budget    `json:"retryBudget,omitempty"`
	Overrides []override `json:"overrides,omitempty"`
	Service   *reference `json:"service,omitempty"`
	Profile   *reference `json:"profile,omitempty"`
	Endpoint  *endpoint  `json:"endpoint,omitempty"`
}

type route struct {
	Name      string     `json:"name"`
	Condition string     `json:"condition"`
	Responses []response `json:"responses,omitempty"`
	Retryable bool       `json:"retryable"`
	Timeout   string     `json:"timeout,omitempty"`
}

type response struct {
	Condition string `json:"condition"`
	Failure   bool   `json:"failure"`
}

type budget struct {
	Ratio        float32 `json:"ratio"`
	MinPerSecond uint32  `json:"minPerSecond"`
	TTL          string  `json:"ttl"`
}

type override struct {
	Authority string `json:"authority"`
	Weight    uint32 `json:"weight"`
}

// reference names an object of Kubernetes.
type reference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Port      uint32 `json:"port,omitempty"`
}

func (p *profile) heard() bool { return p.known }

// apply takes a message, which replaces the one before.
func (p *profile) apply(m *pb.DestinationProfile) error {
	*p = profile{known: true, Name: m.GetFullyQualifiedName(), Opaque: m.GetOpaqueProtocol()}
	for _, r := range m.GetRoutes() {
		p.Routes = append(p.Routes, describeRoute(r))
	}
	if b := m.GetRetryBudget(); b != nil {
		p.Budget = &budget{b.GetRetryRatio(), b.GetMinRetriesPerSecond(), lasts(b.GetTtl())}
	}
	for _, o := range m.GetDstOverrides() {
		p.Overrides = append(p.Overrides, override{o.GetAuthority(), o.GetWeight()})
	}
	if r := m.GetParentRef().GetResource(); r.GetName() != "" {
		p.Service = &reference{r.GetName(), r.GetNamespace(), r.GetPort()}
	}
	if r := m.GetProfileRef().GetResource(); r.GetName() != "" {
		p.Profile = &reference{r.GetName(), r.GetNamespace(), 0}
	}
	if m.GetEndpoint() == nil {
		return nil
	}
	e, err := describe(m.GetEndpoint(), nil)
	if err == nil {
		p.Endpoint = &e
	}
	return err
}

func describeRoute(r *pb.Route) route {
	d := route{Name: r.GetMetricsLabels()["route"], Condition: requests(r.GetCondition()), Retryable: r.GetIsRetryable(), Timeout: lasts(r.GetTimeout())}
	for _, c := range r.GetResponseClasses() {
		d.Responses = append(d.Responses, response{responses(c.GetCondition()), c.GetIsFailure()})
	}
	return d
}

// lasts is a duration in words, empty without one.
func lasts(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return d.AsDuration().String()
}

// requests says which requests a match is about, in one line.
func requests(m *pb.RequestMatch) string {
	switch x := m.GetMatch().(type) {
	case *pb.RequestMatch_All:
		return several(x.All.GetMatches(), " and ", "every request", requests)
	case *pb.RequestMatch_Any:
		return several(x.Any.GetMatches(), " or ", "no request", requests)
	case *pb.RequestMatch_Not:
		return "not " + requests(x.Not)
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

// responses says which responses a match is about, in one line.
func responses(m *pb.ResponseMatch) string {
	switch x := m.GetMatch().(type) {
	case *pb.ResponseMatch_All:
		return several(x.All.GetMatches(), " and ", "every response", responses)
	case *pb.ResponseMatch_Any:
		return several(x.Any.GetMatches(), " or ", "no response", responses)
	case *pb.ResponseMatch_Not:
		return "not " + responses(x.Not)
	case *pb.ResponseMatch_Status:
		return "status " + span(x.Status.GetMin(), x.Status.GetMax())
	}
	return "?"
}

// several puts conditions into one, in parentheses if there is more than one.
func several[M any](list []M, word, nothing string, text func(M) string) string {
	var parts []string
	for _, m := range list {
		parts = append(parts, text(m))
	}
	switch len(parts) {
	case 0:
		return nothing
	case 1:
		return parts[0]
	}
	return "(" + strings.Join(parts, word) + ")"
}

// span is a range of numbers, of which zero is no bound.
func span(low, high uint32) string {
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

// profileSnapshot is one line of "isthmus profile -o json".
type profileSnapshot struct {
	Time      time.Time `json:"time"`
	Authority string    `json:"authority"`
	profile
}

func (p *profile) snapshot(at time.Time, authority string) any {
	return profileSnapshot{at, authority, *p}
}
