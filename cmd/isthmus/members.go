package main

import (
	"sync"

	"go.uber.org/zap"

	"isthmus/clusterstore"
	"isthmus/federation"
	"isthmus/local"
	"isthmus/local/externalworkload"
)

// clustersPage is /debug/clusters: everything that keeps endpoints from being
// served, and where they come from.
type clustersPage struct {
	Local    local.Status              `json:"local"`
	Secrets  secrets                   `json:"linkSecrets"`
	Clusters []clusterstore.LinkStatus `json:"clusters"`        // every link Secret, used or not
	Unserved []unserved                `json:"unservedMembers"` // of federated and mirrored services
	Problems []local.Problem           `json:"problems"`        // of Services' annotations and labels
	Writer   *externalworkload.Status  `json:"endpointSliceWriter,omitempty"`
}

// secrets tells whether the links are known at all.
type secrets struct {
	Listed bool   `json:"listed"`
	Reason string `json:"reason,omitempty"` // why they can't be read at the moment
}

type unserved struct {
	Service string                 `json:"service"`
	Cluster federation.ClusterName `json:"cluster"`
	Member  string                 `json:"member"` // the Service's name in that cluster
	Reason  string                 `json:"reason"`
}

func newClustersPage(here *local.Local, store *clusterstore.Store, table *federation.Table) clustersPage {
	var links secrets
	listed, err := store.SecretsListed()
	if links.Listed = listed; err != nil {
		links.Reason = err.Error()
	}
	page := clustersPage{Secrets: links, Local: here.Status(), Clusters: store.Status(), Unserved: []unserved{}, Problems: here.Problems()}
	for _, u := range table.Unserved() {
		page.Unserved = append(page.Unserved, unserved{
			Service: u.Service.String(),
			Cluster: federation.ClusterName(u.Member.Cluster.String()),
			Member:  u.Member.Service.String(),
			Reason:  u.Status.String(),
		})
	}
	return page
}

// reportMember returns a federation.Options.Report that logs. Each linked cluster
// has an allowance of its own; those that only annotations name share one.
func reportMember(log *zap.Logger) func(federation.ServiceID, federation.Member, federation.MemberStatus) {
	linked, unlinked := &byCluster{log: log, of: make(map[federation.ClusterName]*zap.Logger)}, apart(log)
	return func(id federation.ServiceID, m federation.Member, s federation.MemberStatus) {
		log := unlinked
		if s.Link != federation.Unlinked {
			log = linked.logger(m.Cluster)
		}
		fields := []zap.Field{zap.Stringer("service", id), zap.Stringer("cluster", m.Cluster), zap.Stringer("member", m.Service)}
		if s.Serving() {
			log.Info("member of a service serves again", fields...)
			return
		}
		log.Info("member of a service does not serve", append(fields, zap.Stringer("reason", s))...)
	}
}

// byCluster are loggers with an allowance for each cluster.
type byCluster struct {
	log *zap.Logger

	mu sync.Mutex
	of map[federation.ClusterName]*zap.Logger // under mu
}

func (b *byCluster) logger(name federation.ClusterName) *zap.Logger {
	b.mu.Lock()
	defer b.mu.Unlock()
	log := b.of[name]
	if log == nil {
		if len(b.of) == limitKinds {
			clear(b.of) // clusters come and go
		}
		log = apart(b.log)
		b.of[name] = log
	}
	return log
}
