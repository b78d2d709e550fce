package main

import (
	"fmt"
	"net/http"

	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

// impactPage answers /debug/impact.
type impactPage struct {
	table *federation.Table
	views func() []grpcapi.ViewStatus
}

var standings = map[string]federation.Standing{
	adminapi.InService: federation.InService, adminapi.LastResort: federation.LastResort, adminapi.Withdrawn: federation.Withdrawn,
}

func (p *impactPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := adminapi.Impact{Cluster: r.FormValue("cluster"), Standing: r.FormValue("standing"), Services: []adminapi.ServiceImpact{}}
	standing, known := standings[page.Standing]
	if !known || page.Cluster == "" {
		http.Error(w, fmt.Sprintf("give ?cluster=NAME&standing=STANDING, which is %s, %s or %s", adminapi.Withdrawn, adminapi.LastResort, adminapi.InService), http.StatusBadRequest)
		return
	}
	list, err := p.table.Impact(r.Context(), federation.ClusterName(page.Cluster), standing)
	if err != nil {
		return // the client has gone
	}
	streams := make(map[federation.ServiceID]int)
	for _, v := range p.views() {
		streams[v.Service] += v.Streams
	}
	for _, i := range list {
		page.Services = append(page.Services, adminapi.ServiceImpact{
			Service: i.Service.String(), Watched: i.Watched, Port: i.Port, Zone: i.Client.Zone, Node: i.Client.Node, Streams: streams[i.Service],
			Now: impactCounts(i.Now), Then: impactCounts(i.Then),
		})
	}
	encodePage(page).serve(w)
}

func impactCounts(list []federation.ClusterCount) []adminapi.ImpactCount {
	counts := make([]adminapi.ImpactCount, 0, len(list))
	for _, c := range list {
		counts = append(counts, adminapi.ImpactCount{Cluster: c.Cluster.String(), Count: c.Count})
	}
	return counts
}
