package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// lookLimit is how long a look at the clusters delays the page.
const lookLimit = 2 * time.Second

// freshOr returns a handler of the page of clusters. Concurrent requests with adminapi.FreshParameter share one look at
// the clusters. Its result is shared for a second.
func (p *pages) freshOr(page http.Handler) http.Handler {
	fresh := newShared(time.Second, 0, func() encodedPage {
		return encodePage(p.freshClustersPage())
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue(adminapi.FreshParameter) == "true" {
			fresh.get().value.serve(w)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// freshClustersPage returns the page after a look at the clusters. Each cluster reads in a context of its own.
// The next page shows facts that arrive after lookLimit.
func (p *pages) freshClustersPage() adminapi.Clusters {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	var left []adminapi.LeftoverMirrors
	var looks sync.WaitGroup
	looks.Go(func() { p.here.Look(ctx) })
	looks.Go(func() { p.links.Look(ctx) })
	if listed, err := p.links.SecretsListed(); listed && err == nil {
		linked := make(map[string]bool)
		for _, c := range p.links.Status() {
			linked[c.Cluster] = true
		}
		looks.Go(func() { left = p.leftovers.find(ctx, p.here.LinkerdMirrors(), linked) })
	}
	looks.Wait()
	page := p.clustersPage()
	page.Leftovers = left
	return page
}

func (p *pages) clustersPage() adminapi.Clusters {
	listed, err := p.links.SecretsListed()
	page := adminapi.Clusters{
		Replica: p.self(), Secrets: adminapi.LinkSecrets{Namespace: p.links.Namespace(), Listed: listed}, Local: p.here.Status(), Clusters: p.links.Status(),
		Unserved: []adminapi.Unserved{}, Refused: newRefused(p.table.Watched()), Problems: p.here.Problems(), Exports: p.exporter.summary(),
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		page.MemoryLimit = limit
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
