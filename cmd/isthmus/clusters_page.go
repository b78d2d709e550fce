package main

import (
	"isthmus/clusterstore"
	"isthmus/federation"
	"isthmus/local"
	"isthmus/local/externalworkload"
)

// clustersPage is /debug/clusters: where endpoints come from, and everything that
// keeps some from being served.
type clustersPage struct {
	Local    local.Status              `json:"local"`
	Secrets  secretsEntry              `json:"linkSecrets"`
	Clusters []clusterstore.LinkStatus `json:"clusters"`        // every link Secret, used or not
	Unserved []unservedEntry           `json:"unservedMembers"` // of federated and mirrored services
	Problems []local.Problem           `json:"problems"`        // of Services' annotations and labels
	Writer   *externalworkload.Status  `json:"endpointSliceWriter,omitempty"`
}

// secretsEntry shows whether the gateway can read the link Secrets at all.
type secretsEntry struct {
	Listed bool   `json:"listed"`
	Reason string `json:"reason,omitempty"` // why they can't be read now
}

type unservedEntry struct {
	Service string                 `json:"service"`
	Cluster federation.ClusterName `json:"cluster"`
	Member  string                 `json:"member"` // the Service's name in that cluster
	Reason  string                 `json:"reason"`
}

func newClustersPage(here *local.Local, store *clusterstore.Store, table *federation.Table) clustersPage {
	listed, err := store.SecretsListed()
	links := secretsEntry{Listed: listed}
	if err != nil {
		links.Reason = err.Error()
	}
	page := clustersPage{Secrets: links, Local: here.Status(), Clusters: store.Status(), Unserved: []unservedEntry{}, Problems: here.Problems()}
	for _, u := range table.Unserved() {
		page.Unserved = append(page.Unserved, unservedEntry{
			Service: u.Service.String(),
			Cluster: federation.ClusterName(u.Member.Cluster.String()),
			Member:  u.Member.Service.String(),
			Reason:  u.Status.String(),
		})
	}
	return page
}
