package main

import (
	"fmt"

	"isthmus/clusterstore/cluster"
	"isthmus/cmd/isthmus/internal/events"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// eventLog has the events of /debug/events and of the page at /. Its methods are called where
// these are logged.
type eventLog struct{ *events.Log }

// clusterChanged is for local.Options.Report and clusterstore.Options.Report.
func (l eventLog) clusterChanged(c cluster.Change) {
	kind := map[cluster.ChangeKind]adminapi.EventKind{
		cluster.StateChanged: adminapi.EventCluster, cluster.StandingChanged: adminapi.EventStanding, cluster.CredentialsChanged: adminapi.EventRotation,
		cluster.GatewayChanged: adminapi.EventGateway, cluster.ObjectDrifted: adminapi.EventDrift,
	}[c.Kind]
	l.Add(adminapi.Event{Kind: kind, Object: c.Cluster.String(), Text: c.Text, Problem: c.Problem})
}

// alsoTiers returns a federation.Options.ReportTiers that calls report too.
func (l eventLog) alsoTiers(report func(federation.TierChange)) func(federation.TierChange) {
	return func(c federation.TierChange) {
		report(c)
		l.tiersChanged(c)
	}
}

func (l eventLog) tiersChanged(c federation.TierChange) {
	more := "more"
	if c.To < c.From {
		more = "fewer"
	}
	where := ""
	if c.Zone != "" {
		where = " in zone " + c.Zone
	}
	l.Add(adminapi.Event{Kind: adminapi.EventTier, Object: c.Service.String(), Problem: c.To > c.From,
		Text: fmt.Sprintf("clients%s use %s tiers: %s (%s)", where, more, c.Tiers(), c.Why)})
}

// stalled is for grpcapi.Options.Stalled.
func (l eventLog) stalled(destination string) {
	l.Add(adminapi.Event{Kind: adminapi.EventStall, Object: destination, Text: "a stream ended: its proxy takes no updates", Problem: true})
}

func newEventsPage(l eventLog) adminapi.Events {
	return adminapi.Events{Most: events.Most, Events: l.Newest()}
}
