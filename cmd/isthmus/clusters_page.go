package main

import (
	"cmp"
	"fmt"
	"slices"

	"isthmus/clusterstore"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/local"
)

// newRefused sums up by cluster what is refused of watched ports.
func newRefused(watched []federation.WatchedPort) []adminapi.Refused {
	list := []adminapi.Refused{}
	for _, w := range watched {
		for _, m := range w.Members {
			if len(m.Refused.Examples) == 0 {
				continue
			}
			i, found := slices.BinarySearchFunc(list, m.Member.Cluster.String(), func(e adminapi.Refused, c string) int { return cmp.Compare(e.Cluster, c) })
			if !found {
				list = slices.Insert(list, i, adminapi.Refused{Cluster: m.Member.Cluster.String()})
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

func newClustersPage(self adminapi.Replica, here *local.Local, store *clusterstore.Store, table *federation.Table) adminapi.Clusters {
	listed, err := store.SecretsListed()
	links := adminapi.LinkSecrets{Namespace: store.Namespace(), Listed: listed}
	if err != nil {
		links.Reason = err.Error()
	}
	page := adminapi.Clusters{Replica: self, Secrets: links, Local: here.Status(), Clusters: store.Status(), Unserved: []adminapi.Unserved{}, Refused: newRefused(table.Watched()), Problems: here.Problems()}
	addRefused(&page, store.OwnRefused())
	for _, u := range table.Unserved() {
		page.Unserved = append(page.Unserved, adminapi.Unserved{
			Service: u.Service.String(),
			Cluster: u.Member.Cluster.String(),
			Member:  u.Member.Service.String(),
			Reason:  u.Status.String(),
		})
	}
	return page
}

// addRefused adds what the own cluster's API server has refused of requests other than those that follow the cluster.
func addRefused(page *adminapi.Clusters, list []adminapi.RefusedRequest) {
	if api := page.Local.API; api != nil {
		api.Refused = append(api.Refused, list...)
		kube.SortRefused(api.Refused)
	}
}
