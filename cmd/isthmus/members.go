package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"isthmus/clusterstore"
	"isthmus/federation"
	"isthmus/local"
	"isthmus/local/externalworkload"
)

// clustersPage is /debug/clusters: everything that keeps endpoints from being
// served, and where they come from.
type clustersPage struct {
	Local    clusterstore.LinkStatus   `json:"local"`
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
	listed, err := store.Secrets()
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

// reportMember returns a federation.Options.Report that logs.
func reportMember(log *zap.Logger) func(federation.ServiceID, federation.Member, federation.MemberStatus) {
	return func(id federation.ServiceID, m federation.Member, s federation.MemberStatus) {
		fields := []zap.Field{zap.Stringer("service", id), zap.Stringer("cluster", m.Cluster), zap.Stringer("member", m.Service)}
		if s.Serving() {
			log.Info("member of a service serves again", fields...)
			return
		}
		log.Info("member of a service does not serve", append(fields, zap.Stringer("reason", s))...)
	}
}

// unservedMembers counts members that do not serve, when scraped. A cluster that
// is not linked goes without its name: annotations may name as many as they like.
type unservedMembers struct {
	table *federation.Table
	desc  *prometheus.Desc
}

func newUnservedMembers(t *federation.Table) unservedMembers {
	return unservedMembers{t, prometheus.NewDesc("isthmus_unserved_members",
		"Members of federated and mirrored services that contribute nothing, by reason and, unless it is not linked, by cluster.",
		[]string{"cluster", "reason"}, nil)}
}

func (u unservedMembers) Describe(ch chan<- *prometheus.Desc) { ch <- u.desc }

func (u unservedMembers) Collect(ch chan<- prometheus.Metric) {
	type kind struct{ cluster, reason string }
	count := make(map[kind]int)
	for _, m := range u.table.Unserved() {
		k := kind{m.Member.Cluster.String(), m.Status.String()}
		if m.Status.Link == federation.Unlinked {
			k.cluster = ""
		}
		count[k]++
	}
	for k, n := range count {
		ch <- prometheus.MustNewConstMetric(u.desc, prometheus.GaugeValue, float64(n), k.cluster, k.reason)
	}
}
