package main

import (
	"cmp"
	"fmt"
	"slices"

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
	Refused  []refusedEntry            `json:"refusedEndpoints"`
	Problems []local.Problem           `json:"problems"` // of Services' annotations and labels
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

// refusedEntry shows what linked clusters offer to ports that proxies watch, and what is
// not taken from them.
type refusedEntry struct {
	Cluster  string   `json:"cluster"`
	Outside  int      `json:"outsideRanges"`  // outside the ranges that the link Secret allows
	Owned    int      `json:"localAddresses"` // at addresses of the local cluster's Services and Pods
	Examples []string `json:"examples"`       // two at most
}

// newRefused sums up by cluster what is refused of watched ports.
func newRefused(watched []federation.WatchedPort) []refusedEntry {
	list := []refusedEntry{}
	for _, w := range watched {
		for _, m := range w.Members {
			if len(m.Refused.Examples) == 0 {
				continue
			}
			i, found := slices.BinarySearchFunc(list, m.Member.Cluster.String(), func(e refusedEntry, c string) int { return cmp.Compare(e.Cluster, c) })
			if !found {
				list = slices.Insert(list, i, refusedEntry{Cluster: m.Member.Cluster.String()})
			}
			e := &list[i]
			e.Outside, e.Owned = e.Outside+m.Refused.Outside, e.Owned+m.Refused.Owned
			for _, r := range m.Refused.Examples[:min(len(m.Refused.Examples), 2-len(e.Examples))] {
				e.Examples = append(e.Examples, fmt.Sprintf("%v of %v, offered to %v: %v", m.Member.Service, m.Member.Cluster, w.Service, r))
			}
		}
	}
	return list
}

func newClustersPage(here *local.Local, store *clusterstore.Store, table *federation.Table) clustersPage {
	listed, err := store.SecretsListed()
	links := secretsEntry{Listed: listed}
	if err != nil {
		links.Reason = err.Error()
	}
	page := clustersPage{Secrets: links, Local: here.Status(), Clusters: store.Status(), Unserved: []unservedEntry{}, Refused: newRefused(table.Watched()), Problems: here.Problems()}
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
