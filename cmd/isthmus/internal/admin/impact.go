package admin

import (
	"fmt"
	"net/http"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// standings maps each value of the query parameter "standing" to a federation.Standing.
var standings = map[string]federation.Standing{
	adminapi.InService:  federation.InService,
	adminapi.LastResort: federation.LastResort,
	adminapi.Withdrawn:  federation.Withdrawn,
}

// impactHandler serves /debug/impact, which shows how clients would be affected if a cluster had a
// different standing. The query parameters of /debug/impact are cluster and standing.
type impactHandler struct{ *Sources }

// ServeHTTP implements http.Handler.
func (h impactHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := adminapi.Impact{Cluster: r.FormValue("cluster"), Standing: r.FormValue("standing")}
	standing, known := standings[page.Standing]
	if !known || page.Cluster == "" {
		http.Error(w, fmt.Sprintf("use ?cluster=NAME&standing=STANDING, which is %s, %s or %s",
			adminapi.Withdrawn, adminapi.LastResort, adminapi.InService), http.StatusBadRequest)
		return
	}
	cluster := federation.ClusterName(page.Cluster)
	if page.Cluster == federation.Local.String() {
		cluster = federation.Local
	}
	services, err := h.Table.Impact(r.Context(), cluster, standing)
	if err != nil {
		return // the client has disconnected
	}
	streams := make(map[string]int)
	for _, v := range h.Streams.Views() {
		streams[v.Service.String()] += v.Streams
	}
	page.Services = make([]adminapi.ServiceImpact, 0, len(services))
	for i := range services {
		one := newServiceImpact(&services[i])
		one.Streams = streams[one.Service]
		page.Services = append(page.Services, one)
	}
	encode(page).serve(w)
}

func newServiceImpact(i *federation.ServiceImpact) adminapi.ServiceImpact {
	return adminapi.ServiceImpact{
		Service: i.Service.String(),
		Watched: i.Watched,
		Port:    i.Port,
		Zone:    i.Zone,
		Node:    i.Node,
		Now:     newImpactCounts(i.Now),
		Then:    newImpactCounts(i.Then),
	}
}

func newImpactCounts(counts []federation.ClusterCount) (list []adminapi.ImpactCount) {
	for _, c := range counts {
		list = append(list, adminapi.ImpactCount{Cluster: c.Cluster.String(), Count: c.Count})
	}
	return list
}
