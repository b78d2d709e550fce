package wire

import (
	"bytes"
	"cmp"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/linkerd/linkerd2-proxy-api/go/http_types"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"isthmus/federation"
)

// Field numbers of DestinationProfile and of the messages in it.
const (
	profileRoutes    protowire.Number = 1
	profileBudget    protowire.Number = 2
	profileOverrides protowire.Number = 3
	profileOpaque    protowire.Number = 4
	profileName      protowire.Number = 5
	profileEndpoint  protowire.Number = 6
	profileParent    protowire.Number = 7
	profileProfile   protowire.Number = 8

	routeCondition protowire.Number = 1
	routeClasses   protowire.Number = 2
	routeLabels    protowire.Number = 3
	routeRetryable protowire.Number = 4
	routeTimeout   protowire.Number = 5

	classCondition protowire.Number = 1
	classFailure   protowire.Number = 2

	// Of RequestMatch and ResponseMatch.
	matchAll    protowire.Number = 1
	matchAny    protowire.Number = 2
	matchNot    protowire.Number = 3
	matchPath   protowire.Number = 4 // of requests only
	matchMethod protowire.Number = 5 // of requests only
	matchStatus protowire.Number = 4 // of responses only

	methodRegistered   protowire.Number = 1
	methodUnregistered protowire.Number = 2
	statusMin          protowire.Number = 1
	statusMax          protowire.Number = 2

	budgetRatio protowire.Number = 1
	budgetMin   protowire.Number = 2
	budgetTTL   protowire.Number = 3

	overrideAuthority protowire.Number = 1
	overrideWeight    protowire.Number = 2

	metadataResource  protowire.Number = 2
	resourceGroup     protowire.Number = 1
	resourceKind      protowire.Number = 2
	resourceName      protowire.Number = 3
	resourceNamespace protowire.Number = 4
	resourcePort      protowire.Number = 6
)

// defaultBudget is Linkerd's default retry budget.
func defaultBudget() *federation.RetryBudget {
	return &federation.RetryBudget{Ratio: 0.2, MinPerSecond: 10, TTL: 10 * time.Second}
}

// Profile encodes a profile as one message, with the routing if it is a service's.
// For a destination without a profile the message is empty.
func (e *Encoder) Profile(p *federation.Profile, r *Routing) *Frame {
	var parts mem.BufferSlice
	var own []byte
	switch {
	case p.Endpoint != nil:
		own = e.appendEndpointProfile(nil, p.Endpoint)
	case p.Reason == federation.Resolved:
		parts = mem.BufferSlice{r.data()}
		own = appendServiceProfile(nil, p)
	}
	return &Frame{append(parts, mem.SliceBuffer(bytes.Clone(own)))}
}

// appendEndpointProfile appends the fields of an endpoint's profile. As in Linkerd's
// controller the label zone is always empty: the zone is not sent here.
func (e *Encoder) appendEndpointProfile(b []byte, ep *federation.Endpoint) []byte {
	b = appendBudget(b, defaultBudget())
	b = appendTrue(b, profileOpaque, ep.Opaque)
	return nested(b, profileEndpoint, func(b []byte) []byte {
		b = nested(b, addrAddr, func(b []byte) []byte { return appendTCP(b, ep.Addr) })
		b = appendNumber(b, addrWeight, weight)
		var room [labelRoom]federation.Label
		for _, l := range appendOwn(room[:0], ep) {
			b = appendLabel(b, addrLabels, l.Name, l.Value)
		}
		if ep.Kind != federation.Address {
			b = appendLabel(b, addrLabels, "zone", "")
		}
		return e.appendPeer(b, ep)
	})
}

// appendServiceProfile appends the fields of a service's profile that are not part
// of the routing. profile_ref is, and is left out if there is no ServiceProfile.
func appendServiceProfile(b []byte, p *federation.Profile) []byte {
	b = appendTrue(b, profileOpaque, p.Opaque)
	b = appendText(b, profileName, p.Name)
	return appendResource(b, profileParent, func(b []byte) []byte {
		b = appendText(appendText(b, resourceGroup, "core"), resourceKind, "Service")
		b = appendText(appendText(b, resourceName, p.Service.Name), resourceNamespace, p.Service.Namespace)
		return appendNumber(b, resourcePort, uint64(p.Port))
	})
}

// appendRouting appends the fields that come from a ServiceProfile.
func appendRouting(b []byte, sp *federation.ServiceProfile, port uint16) []byte {
	for i := range sp.Routes {
		b = nested(b, profileRoutes, func(b []byte) []byte { return appendRoute(b, &sp.Routes[i]) })
	}
	b = appendBudget(b, cmp.Or(sp.Budget, defaultBudget()))
	for _, o := range sp.Overrides {
		b = nested(b, profileOverrides, func(b []byte) []byte {
			b = appendText(b, overrideAuthority, withPort(o.Authority, port))
			return appendNumber(b, overrideWeight, uint64(o.Weight))
		})
	}
	if sp.Name == "" {
		return b
	}
	return appendResource(b, profileProfile, func(b []byte) []byte {
		b = appendText(appendText(b, resourceGroup, "linkerd.io"), resourceKind, "ServiceProfile")
		return appendText(appendText(b, resourceName, sp.Name), resourceNamespace, sp.Namespace)
	})
}

// appendResource appends a field that is a Metadata; body appends the fields of its
// Resource.
func appendResource(b []byte, field protowire.Number, body func([]byte) []byte) []byte {
	return nested(b, field, func(b []byte) []byte { return nested(b, metadataResource, body) })
}

// withPort adds the port to an authority without one.
func withPort(authority string, port uint16) string {
	if _, _, err := net.SplitHostPort(authority); err == nil {
		return authority
	}
	return net.JoinHostPort(authority, strconv.Itoa(int(port)))
}

func appendRoute(b []byte, r *federation.Route) []byte {
	b = nested(b, routeCondition, func(b []byte) []byte { return appendMatch(b, &r.Condition) })
	for i := range r.Classes {
		b = nested(b, routeClasses, func(b []byte) []byte {
			b = nested(b, classCondition, func(b []byte) []byte { return appendMatch(b, &r.Classes[i].Condition) })
			return appendTrue(b, classFailure, r.Classes[i].Failure)
		})
	}
	b = appendLabel(b, routeLabels, "route", r.Name)
	b = appendTrue(b, routeRetryable, r.Retryable)
	if r.Timeout != 0 {
		b = appendDuration(b, routeTimeout, r.Timeout)
	}
	return b
}

// appendMatch appends the fields of a RequestMatch or a ResponseMatch: but for their
// leaves the two have the same field numbers.
func appendMatch(b []byte, m *federation.Match) []byte {
	switch m.Kind {
	case federation.MatchAny:
		return nested(b, matchAny, func(b []byte) []byte { return appendMatches(b, m.Sub) })
	case federation.MatchNot:
		return nested(b, matchNot, func(b []byte) []byte {
			if len(m.Sub) == 0 {
				return b
			}
			return appendMatch(b, &m.Sub[0])
		})
	case federation.MatchMethod:
		return nested(b, matchMethod, func(b []byte) []byte { return appendMethod(b, strings.ToUpper(m.Text)) })
	case federation.MatchPath:
		return wrapped(b, matchPath, m.Text)
	case federation.MatchStatus:
		return nested(b, matchStatus, func(b []byte) []byte {
			return appendNumber(appendNumber(b, statusMin, uint64(m.Min)), statusMax, uint64(m.Max))
		})
	}
	return nested(b, matchAll, func(b []byte) []byte { return appendMatches(b, m.Sub) })
}

// appendMatches appends the fields of a Seq.
func appendMatches(b []byte, list []federation.Match) []byte {
	for i := range list {
		b = nested(b, onlyField, func(b []byte) []byte { return appendMatch(b, &list[i]) })
	}
	return b
}

func appendMethod(b []byte, name string) []byte {
	if n, ok := http_types.HttpMethod_Registered_value[name]; ok {
		return appendNumber(b, methodRegistered, uint64(n))
	}
	return appendText(b, methodUnregistered, name)
}

func appendBudget(b []byte, budget *federation.RetryBudget) []byte {
	return nested(b, profileBudget, func(b []byte) []byte {
		b = protowire.AppendTag(b, budgetRatio, protowire.Fixed32Type)
		b = protowire.AppendFixed32(b, math.Float32bits(budget.Ratio))
		b = appendNumber(b, budgetMin, uint64(budget.MinPerSecond))
		return appendDuration(b, budgetTTL, budget.TTL)
	})
}
