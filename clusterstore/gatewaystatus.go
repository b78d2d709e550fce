package clusterstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
	"isthmus/internal/adminapi"
)

// logGateways logs which gateways have died, or answer again.
func (l *link) logGateways() {
	g := &l.gateways
	if g.tracker == nil {
		return
	}
	before := g.dead
	g.dead = make(map[string]bool)
	for _, a := range g.tracker.Addresses() {
		address := a.Addr.String()
		switch {
		case a.Dead:
			if g.dead[address] = true; before[address] {
				continue
			}
			l.log.Warn("Linkerd gateway does not answer probes", zap.String("gateway", address), zap.String("error", a.Failure))
			l.report(cluster.GatewayChanged, "Linkerd gateway "+address+" does not answer probes: "+a.Failure, true)
		case before[address]:
			l.log.Info("Linkerd gateway answers probes again", zap.String("gateway", address))
			l.report(cluster.GatewayChanged, "Linkerd gateway "+address+" answers probes again", false)
		}
	}
}

// describeGateways fills in how a cluster on another network is reached.
func (v *linkState) describeGateways(st *cluster.Status) {
	if v.gateways.tracker == nil {
		return
	}
	st.Network = cmp.Or(v.standing.settings.network, namelessNetwork)
	outside, ipv6 := 0, 0
	var unknown, refused []string // that are not probed
	for _, a := range v.gateways.tracker.Addresses() {
		x := adminapi.ClusterGateway{Address: a.Addr.String(), Name: a.Name, Identity: a.Identity, State: adminapi.GatewayAlive, Since: a.Since, Reason: a.Failure}
		switch {
		case a.Outside:
			x.State = adminapi.GatewayOutside
			outside++
		case a.IPv6Off:
			x.State = adminapi.GatewayIPv6Off
			ipv6++
		case a.Probe == (cluster.Probe{}):
			x.State = adminapi.GatewayNotProbed
			unknown = append(unknown, x.Address)
		case a.Refused != "":
			x.State, x.Reason = adminapi.GatewayNotProbed, a.Refused
			refused = append(refused, fmt.Sprintf(
				"Linkerd gateway %s is not probed, and is used also when it is dead: %s", x.Address, a.Refused,
			))
		case a.Dead:
			x.State = adminapi.GatewayDead
		case a.Since.IsZero():
			x.State = adminapi.GatewayUnknown
		}
		st.Gateways = append(st.Gateways, x)
	}
	problems := slices.Concat(v.gateways.problem, v.gateways.tracker.Problems(), refused)
	if outside > 0 {
		problems = append(problems, fmt.Sprintf("Linkerd gateways outside the address ranges of the link (annotation %s), which are not used: %d", RangesAnnotation, outside))
	}
	if n := len(st.Gateways); n > 0 && ipv6 == n { // otherwise clients have the others
		problems = append(problems, fmt.Sprintf("Linkerd gateways at IPv6 addresses, which clients do not get (--enable-ipv6=false): %d", n))
	}
	if len(unknown) > 0 {
		problems = append(problems, "Linkerd gateways that are not probed, since it is not known how "+
			"(annotation mirror.linkerd.io/probe-path and port mc-probe of the gateway's Service; "+
			"an address of "+gatewayAddressesAnnotation+" needs the port of mc-gateway there, or its node port), "+
			"and are used also when they are dead: "+strings.Join(unknown, ", "))
	}
	st.Warnings = slices.Concat(st.Warnings, problems)
	st.GatewayProblems = problems
}

// probed returns which of the cluster's gateways are alive, of those that have been probed.
func (v *linkState) probed() map[string]bool {
	if v.gateways.tracker == nil {
		return nil
	}
	list := make(map[string]bool)
	for _, a := range v.gateways.tracker.Addresses() {
		if a.Probe != (cluster.Probe{}) && a.Refused == "" && !a.Since.IsZero() {
			list[a.Addr.String()] = !a.Dead
		}
	}
	return list
}

// newProbes returns the metric of what probes take.
func newProbes() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "isthmus_gateway_probe_seconds",
		Help:    "How long probes of a linked cluster's gateways take, whatever comes of them.",
		Buckets: []float64{.05, .5, 2}, // few: there is one histogram for each cluster
	}, []string{"cluster"})
}
