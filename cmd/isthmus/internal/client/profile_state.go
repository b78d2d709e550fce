package client

import (
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/types/known/durationpb"

	"isthmus/internal/adminapi"
)

// profile is what a proxy holds after the messages of one GetProfile stream, which
// is the last message. Its zero value is that of a proxy before the first message.
type profile struct {
	known bool
	adminapi.Profile
}

func (p *profile) started() bool { return p.known }

// apply replaces the profile by that of a message. The error names what a server
// must not send.
func (p *profile) apply(m *pb.DestinationProfile) error {
	*p = profile{true, adminapi.Profile{Name: m.GetFullyQualifiedName(), Opaque: m.GetOpaqueProtocol()}}
	for _, r := range m.GetRoutes() {
		p.Routes = append(p.Routes, decodeRoute(r))
	}
	if b := m.GetRetryBudget(); b != nil {
		p.Budget = &adminapi.RetryBudget{Ratio: b.GetRetryRatio(), MinPerSecond: b.GetMinRetriesPerSecond(), TTL: durationText(b.GetTtl())}
	}
	for _, o := range m.GetDstOverrides() {
		p.Overrides = append(p.Overrides, adminapi.Override{Authority: o.GetAuthority(), Weight: o.GetWeight()})
	}
	if r := m.GetParentRef().GetResource(); r.GetName() != "" {
		p.Service = &adminapi.ObjectReference{Name: r.GetName(), Namespace: r.GetNamespace(), Port: r.GetPort()}
	}
	if r := m.GetProfileRef().GetResource(); r.GetName() != "" {
		p.Profile.Profile = &adminapi.ObjectReference{Name: r.GetName(), Namespace: r.GetNamespace()}
	}
	if m.GetEndpoint() == nil {
		return nil
	}
	e, err := decodeEndpoint(m.GetEndpoint(), nil)
	if err == nil {
		p.Endpoint = &e.Endpoint
	}
	return err
}

func decodeRoute(r *pb.Route) adminapi.Route {
	d := adminapi.Route{
		Name:      r.GetMetricsLabels()["route"],
		Condition: requestCondition(r.GetCondition()),
		Retryable: r.GetIsRetryable(),
		Timeout:   durationText(r.GetTimeout()),
	}
	for _, c := range r.GetResponseClasses() {
		d.Responses = append(d.Responses, adminapi.ResponseClass{Condition: responseCondition(c.GetCondition()), Failure: c.GetIsFailure()})
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

func (p *profile) snapshot(at time.Time, authority string) any {
	return adminapi.ProfileOutput{Time: at, Authority: authority, Profile: p.Profile}
}
