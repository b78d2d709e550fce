package local

import (
	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// currentRegion returns where the cluster is now; empty: that is not known.
func (l *Local) currentRegion() string {
	if l.region != "" {
		return l.region
	}
	return l.cluster.Region()
}

// setLink gives the table the cluster's link, with the region that the cluster has now,
// and logs that if it has changed.
func (l *Local) setLink(link *federation.Link) {
	if now := l.currentRegion(); now != link.Region {
		l.log.Info("region of the local cluster changed", zap.String("region", now), zap.String("before", link.Region))
		link.Region = now
	}
	l.table.SetLink(federation.Local, *link)
}

// cordonReason describes why the cluster is not in service; empty: it is.
func (l *Local) cordonReason() string {
	switch l.cordon {
	case federation.LastResort:
		return "cordoned as last resort by --cordon-local"
	case federation.Withdrawn:
		return "cordoned by --cordon-local"
	}
	return ""
}

func (l *Local) logCordon() {
	if why := l.cordonReason(); why != "" {
		l.log.Info("the local cluster is not in service", zap.Stringer("standing", l.cordon), zap.String("reason", why))
		l.reported(cluster.Change{Cluster: federation.Local, Kind: cluster.StandingChanged, Text: l.cordon.String() + ": " + why, Problem: true})
	}
}
