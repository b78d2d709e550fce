package clusterstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/internal/adminapi"
)

// linkStatus is the part of a link that the publish method copies for other goroutines.
type linkStatus struct {
	accepted *credentials // credentials of the next cluster; if there is none, those of the serving cluster
	serving  *runningCluster
	next     *runningCluster
	copy     linkCopy
	gateways linkGateways
	state    cluster.State // empty before the first state
	since    time.Time
	standing linkStanding
}

// A link's status describes its serving cluster. If no cluster is serving, the status describes the
// cluster that is still syncing. If the link has no cluster, the shown method returns nil.
func (v *linkStatus) shown() *runningCluster { return cmp.Or(v.serving, v.next) }

// The served method returns the cluster from which the table reads, or nil if there is none.
func (v *linkStatus) served() *runningCluster {
	if v.serving == nil && v.copy.served {
		return v.copy.cluster
	}
	return v.serving
}

// health returns the health that web pages and metrics show for the cluster. If the link serves a
// copy, the object counts come from the copy, and the errors come from failed requests to the API
// server.
func (v *linkStatus) health() cluster.Health {
	h := v.shown().cluster.Health()
	if !v.copy.served {
		return h
	}
	from := v.copy.cluster.cluster.Health()
	h.StaleSince = from.StaleSince
	h.Memory.Used += from.Memory.Used
	h.MalformedProxies = from.MalformedProxies
	for i := range h.Resources {
		r := &h.Resources[i]
		cached := resourceOf(from, r.Resource)
		r.Synced = cached.Synced
		r.Objects = cached.Objects
	}
	return h
}

// linkStatus.replacing reports whether a failed Cluster is about to be replaced by a new Cluster
// that uses the same credentials.
func (l *linkStatus) replacing() bool {
	return l.serving != nil && l.next != nil && l.serving.creds.hash == l.next.creds.hash
}

func (v *linkStatus) describe(st *adminapi.Cluster) {
	at := v.shown()
	h := v.health()
	h.Err = at.creds.explain(h.Err)
	h.API.Expiry = at.creds.expiry
	st.API = &h.API
	st.State = v.state
	st.Since = v.since
	st.Server = v.accepted.server
	st.LastEvent = h.LastEvent
	st.Resources = h.Resources
	st.Memory = h.Memory
	st.Standing = v.standing.effective().String()
	st.StandingReason = v.standing.reason()
	st.Region = v.standing.region
	st.ObjectWarnings = h.Warnings()
	st.Warnings = slices.Concat(v.accepted.warnings, v.standing.settings.warnings, st.ObjectWarnings)
	for _, r := range st.NeverRead() {
		if r.Failure != adminapi.Forbidden { // the check of permissions reports missing permissions
			st.Warnings = append(st.Warnings, r.Unread())
		}
	}
	v.describeGateways(&st.ClusterStatus)
	switch {
	case v.state == cluster.Ready:
	case h.Err != nil:
		st.Reason = h.Err.Error()
	case v.serving == nil && at.waits:
		st.Reason = fmt.Sprintf("waiting for its turn: Isthmus connects to at most %d clusters at a time", maxStarts)
	case v.copy.served:
		st.Reason = "the API server has not responded since this replica started"
	case v.state == cluster.Unreachable && at.creds.rest != nil:
		st.Reason = fmt.Sprintf("not synced within %v", syncGrace)
	}
	switch {
	case v.copy.served:
		st.CopyOf = v.copy.of.Lost
		st.Reason = "from a copy of " + st.CopyOf.UTC().Format(time.RFC3339) + ": " + st.Reason
	case v.copy.problem != nil:
		st.Reason += "; the saved cache of the cluster cannot be used: " + v.copy.problem.Error()
		st.Reason = strings.TrimPrefix(st.Reason, "; ")
	}
	switch {
	case v.serving == nil || v.next == nil || v.replacing():
	case v.next.waits && v.next.failed == nil:
		st.Warnings = append(st.Warnings, fmt.Sprintf(
			"new credentials have not been tried yet: Isthmus connects to at most %d clusters at a time; "+
				"the old credentials stay in use",
			maxStarts,
		))
	case v.next.failed == nil:
		st.Warnings = append(st.Warnings, "new credentials are being tried; the old credentials stay in use")
	default:
		st.NewCredentials = because("new credentials do not work; the old credentials stay in use", v.next.failed)
		for _, a := range v.next.awaits {
			st.Awaited = append(st.Awaited, a.kind.name)
		}
		st.Warnings = append(st.Warnings, st.NewCredentials)
	}
}

func (v *linkStatus) describeGateways(st *cluster.Status) {
	if v.gateways.tracker == nil {
		return
	}
	st.Network = cmp.Or(v.standing.settings.network, namelessNetwork)
	outside, ipv6 := 0, 0
	var unknown, refused []string // addresses that are not probed
	for _, a := range v.gateways.tracker.Addresses() {
		x := adminapi.ClusterGateway{
			Address:  a.Addr.String(),
			Name:     a.Name,
			Identity: a.Identity,
			State:    adminapi.GatewayAlive,
			Since:    a.Since,
			Reason:   a.Failure,
		}
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
			x.State = adminapi.GatewayNotProbed
			x.Reason = a.Refused
			refused = append(refused, fmt.Sprintf(
				"Linkerd gateway %s is not probed, so Isthmus uses it even if it does not respond: %s",
				x.Address,
				a.Refused,
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
		problems = append(problems, fmt.Sprintf(
			"Linkerd gateways that are not used because they are outside the link's address ranges "+
				"(annotation %s): %d",
			RangesAnnotation,
			outside,
		))
	}
	if n := len(st.Gateways); n > 0 && ipv6 == n { // otherwise, clients get the IPv4 addresses
		problems = append(problems, fmt.Sprintf(
			"Linkerd gateways that are not used because IPv6 addresses are disabled (--enable-ipv6=false): %d", n,
		))
	}
	if len(unknown) > 0 {
		problems = append(problems, "Linkerd gateways that are not probed, and are used even if they are dead, "+
			"because no probe is specified for them "+
			"(on the gateway's Service, set the annotation mirror.linkerd.io/probe-path "+
			"and add a port named mc-probe; "+
			"an address in "+gatewayAddressesAnnotation+
			" must use the mc-gateway port or the node port of that Service): "+
			strings.Join(unknown, ", "))
	}
	st.Warnings = slices.Concat(st.Warnings, problems)
	st.GatewayProblems = problems
}

// The probed method returns the address of each probed gateway, and whether the gateway is alive.
func (v *linkStatus) probed() map[string]bool {
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

// The look method requests that the cluster's trust anchors and Pod networks be read again. The
// returned channel is closed when reading has succeeded or failed, or immediately if the trust
// anchors and Pod networks were read recently. If the cluster is not ready, the channel is nil.
func (v *linkStatus) look() <-chan struct{} {
	if at := v.shown(); at != nil && v.state == cluster.Ready {
		return at.cluster.Look()
	}
	return nil
}

// If the exports are unknown, the result is nil. The receiver may be nil.
func (v *linkStatus) exports() *cluster.CachedExports {
	if v == nil || v.shown() == nil {
		return nil
	}
	return v.shown().cluster.Exports()
}
