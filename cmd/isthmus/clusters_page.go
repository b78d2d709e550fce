package main

import (
	"cmp"
	"fmt"
	"slices"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

func (p *pages) clustersPage() adminapi.Clusters {
	listed, err := p.links.SecretsListed()
	page := adminapi.Clusters{
		Replica: p.self(), Secrets: adminapi.LinkSecrets{Namespace: p.links.Namespace(), Listed: listed}, Local: p.here.Status(), Clusters: p.links.Status(),
		Unserved: []adminapi.Unserved{}, Refused: newRefused(p.table.Watched()), Problems: p.here.Problems(), Exports: p.exporter.summary(),
	}
	if err != nil {
		page.Secrets.Reason = err.Error()
	}
	conflicts, more := p.here.AddressConflicts()
	page.Conflicts, page.MoreConflicts = append([]adminapi.AddressConflict{}, conflicts...), more
	for _, u := range p.table.Unserved() {
		page.Unserved = append(page.Unserved, adminapi.Unserved{
			Service: u.Service.String(),
			Cluster: u.Member.Cluster.String(),
			Member:  u.Member.Service.String(),
			Reason:  u.Status.String(),
		})
	}
	// What the own cluster's API server has refused of requests other than those that follow the cluster.
	refused := slices.Clone(p.links.OwnRefused())
	if p.writer.Writer != nil {
		page.Writer = new(p.writer.Status())
		refused = append(refused, p.writer.api.Server().Refused...)
	}
	if api := page.Local.API; api != nil {
		api.Refused = append(api.Refused, refused...)
		kube.SortRefused(api.Refused)
	}
	return page
}

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
