package main

import (
	"fmt"
	"net/http"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

var standings = map[string]federation.Standing{
	adminapi.InService: federation.InService, adminapi.LastResort: federation.LastResort, adminapi.Withdrawn: federation.Withdrawn,
}

// serveImpact answers /debug/impact.
func (p *pages) serveImpact(w http.ResponseWriter, r *http.Request) {
	page := adminapi.Impact{Cluster: r.FormValue("cluster"), Standing: r.FormValue("standing")}
	standing, known := standings[page.Standing]
	if !known || page.Cluster == "" {
		http.Error(w, fmt.Sprintf("give ?cluster=NAME&standing=STANDING, which is %s, %s or %s", adminapi.Withdrawn, adminapi.LastResort, adminapi.InService), http.StatusBadRequest)
		return
	}
	cluster := federation.ClusterName(page.Cluster)
	if page.Cluster == federation.Local.String() {
		cluster = federation.Local
	}
	var err error
	if page.Services, err = p.table.Impact(r.Context(), cluster, standing); err != nil {
		return // the client has gone
	}
	streams := make(map[string]int)
	for _, v := range p.streams.Views() {
		streams[v.Service.String()] += v.Streams
	}
	for i := range page.Services {
		page.Services[i].Streams = streams[page.Services[i].Service]
	}
	encodePage(page).serve(w)
}
