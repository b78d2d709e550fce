package client

import (
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/types/known/durationpb"
)

// profile is what a proxy holds after the messages of one GetProfile stream, which
// is the last message, in the form that "isthmus profile -o json" prints. Its zero
// value is that of a proxy before the first message.
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

func (p *profile) started() bool { return p.known }

// apply replaces the profile by that of a message. The error names what a server
// must not send.
func (p *profile) apply(m *pb.DestinationProfile) error {
	*p = profile{known: true, Name: m.GetFullyQualifiedName(), Opaque: m.GetOpaqueProtocol()}
	for _, r := range m.GetRoutes() {
		p.Routes = append(p.Routes, decodeRoute(r))
	}
	if b := m.GetRetryBudget(); b != nil {
		p.Budget = &budget{b.GetRetryRatio(), b.GetMinRetriesPerSecond(), durationText(b.GetTtl())}
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
	e, err := decodeEndpoint(m.GetEndpoint(), nil)
	if err == nil {
		p.Endpoint = &e
	}
	return err
}

func decodeRoute(r *pb.Route) route {
	d := route{
		Name:      r.GetMetricsLabels()["route"],
		Condition: requestCondition(r.GetCondition()),
		Retryable: r.GetIsRetryable(),
		Timeout:   durationText(r.GetTimeout()),
	}
	for _, c := range r.GetResponseClasses() {
		d.Responses = append(d.Responses, response{responseCondition(c.GetCondition()), c.GetIsFailure()})
	}
	return d
}

// durationText returns a duration as Go writes it; empty for none.
func durationText(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return d.AsDuration().String()
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
