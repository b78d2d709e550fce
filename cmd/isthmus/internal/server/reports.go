package server

import (
	"fmt"

	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
	"isthmus/cmd/isthmus/internal/admin"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// reports provides callbacks that are called when the state of a service, cluster or stream
// changes. Each callback writes to the log, to the event log, or to both. Each linked cluster and
// each namespace has a separate log rate limit, so that a burst of changes in one of them does not
// suppress log messages about the others. All clusters that are not linked share one log rate
// limit, so that annotations that name many unlinked clusters cannot flood the log.
type reports struct {
	events     *admin.EventLog
	clusters   *perName
	unlinked   *zap.Logger
	namespaces *perName
}

func newReports(log *zap.Logger) *reports {
	return &reports{
		events:     admin.NewEventLog(),
		clusters:   newPerName(log),
		unlinked:   withOwnLimit(log),
		namespaces: newPerName(log),
	}
}

// The member callback writes a log line when a member of a service starts or stops serving.
func (r *reports) member(id federation.ServiceID, m federation.Member, s federation.MemberStatus) {
	log := r.unlinked
	if s.Link != federation.Unlinked {
		log = r.clusters.logger(m.Cluster.String())
	}
	fields := []zap.Field{
		zap.Stringer("service", id), zap.Stringer("cluster", m.Cluster), zap.Stringer("member", m.Service),
	}
	if s.Serving() {
		log.Info("member of a service serves again", fields...)
		return
	}
	log.Info("member of a service does not serve", append(fields, zap.Stringer("reason", s))...)
}

// The refused callback writes a log line when Isthmus rejects addresses of a member.
func (r *reports) refused(id federation.ServiceID, port uint16, m federation.Member, first federation.Refusal, n int) {
	r.clusters.logger(m.Cluster.String()).Warn("addresses of a cluster are rejected",
		zap.Stringer("service", id), zap.Uint16("port", port), zap.Stringer("cluster", m.Cluster),
		zap.Stringer("member", m.Service), zap.Int("refused", n), zap.Stringer("first", first))
}

// The tiers callback reports that clients have started to use more or fewer tiers of a service.
func (r *reports) tiers(c federation.TierChange) {
	more := "more"
	if c.To < c.From {
		more = "fewer"
	}
	where := ""
	if c.Zone != "" {
		where = " in zone " + c.Zone
	}
	r.namespaces.logger(c.Service.Namespace).Info("clients use "+more+" tiers of a service",
		zap.Stringer("service", c.Service), zap.String("zone", c.Zone), zap.Int("from", c.From), zap.Int("to", c.To),
		zap.String("tiers", c.Tiers()), zap.String("why", c.Why))
	r.events.Add(adminapi.Event{
		Kind:    adminapi.EventTier,
		Object:  c.Service.String(),
		Problem: c.To > c.From,
		Text:    fmt.Sprintf("clients%s use %s tiers: %s (%s)", where, more, c.Tiers(), c.Why),
	})
}

// The cluster callback adds a change in a cluster's state to the event log. The caller must log the
// change.
func (r *reports) cluster(c cluster.Change) {
	kinds := map[cluster.ChangeKind]adminapi.EventKind{
		cluster.StateChanged:       adminapi.EventCluster,
		cluster.StandingChanged:    adminapi.EventStanding,
		cluster.CredentialsChanged: adminapi.EventRotation,
		cluster.GatewayChanged:     adminapi.EventGateway,
	}
	r.events.Add(adminapi.Event{Kind: kinds[c.Kind], Object: c.Cluster.String(), Text: c.Text, Problem: c.Problem})
}

// stalled adds a stalled stream to the event log. The caller must log the stall.
func (r *reports) stalled(destination string) {
	r.events.Add(adminapi.Event{
		Kind:    adminapi.EventStall,
		Object:  destination,
		Text:    "a stream ended because its proxy did not read updates",
		Problem: true,
	})
}
