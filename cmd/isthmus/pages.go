package main

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"isthmus/clusterstore/cluster"
	"isthmus/cmd/isthmus/internal/events"
	"isthmus/cmd/isthmus/internal/overview"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
	"isthmus/local"
)

// pages makes the debug pages and the lists from what the gateway's parts know.
type pages struct {
	self      func() adminapi.Replica // that answers
	domain    string                  // of the own cluster
	table     *federation.Table
	here      ownCluster
	links     linkedClusters
	streams   streams
	events    *events.Log
	writer    sliceWriter
	exporter  *exporter
	leftovers *leftovers
	failures  func() []panics.Failure
}

// ownCluster is what is shown of the gateway's own cluster. It is a *local.Cluster.
type ownCluster interface {
	Status() adminapi.Cluster
	Look(context.Context)
	LinkerdMirrors() map[string][]federation.ServiceID
	Service(federation.ServiceID) *cluster.Service
	Ports(federation.ServiceID) []uint16
	OwnerOf(netip.Addr) local.AddressOwner
	ServiceOfImport(federation.ServiceID) (federation.ServiceID, bool)
	AddressConflicts() (list []adminapi.AddressConflict, more int)
	Problems() []adminapi.Problem
	ProblemsOf(federation.ServiceID) []string
	ProfileProblem(id federation.ServiceID, client string) string
}

// linkedClusters is what is shown of linked clusters. It is a *clusterstore.Store.
type linkedClusters interface {
	Status() []adminapi.Cluster
	Look(context.Context)
	Followed(federation.ClusterName) (*cluster.Cluster, cluster.State)
	Namespace() string
	SecretsListed() (listed bool, err error)
	OwnRefused() []adminapi.RefusedRequest
}

// streams is what is shown of what proxies get. It is a *grpcapi.Server.
type streams interface {
	Views() []grpcapi.ViewStatus
	Explain(context.Context, grpcapi.Question) (*grpcapi.Explanation, error)
}

// handlers returns what answers each path.
func (p *pages) handlers() map[string]http.Handler {
	limited := newLimiter(maxPages, pageWait, pageTake)
	lists := newListPages(p.lists)
	page := overview.Handler()
	all := map[string]http.Handler{
		"/{$}":            page,
		"/page/":          page,
		"/debug/version":  limited.limit(sharedPage(func() any { return ownBuild() })),
		"/debug/clusters": limited.limit(lists.or(p.freshOr(sharedPage(func() any { return p.clustersPage() })))),
		"/debug/services": limited.limit(lists.or(sharedPage(func() any { return p.servicesPage() }))),
		"/debug/streams":  limited.limit(lists.or(sharedPage(func() any { return p.streamsPage() }))),
		"/debug/events":   limited.limit(lists.or(sharedPage(func() any { return p.eventsPage() }))),
		"/debug/impact":   limited.limit(http.HandlerFunc(p.serveImpact)),
		"/debug/explain":  p.explainHandler(),
	}
	if p.exporter != nil {
		all["/debug/exports"] = limited.limit(http.HandlerFunc(p.serveExports))
	}
	for path, page := range all {
		if strings.HasPrefix(path, "/debug/") {
			all[path] = named(page, ownBuild())
		}
	}
	return all
}

// named returns a handler whose answers have the headers by which clients know the format and the version.
func named(page http.Handler, own adminapi.Build) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(adminapi.FormatHeader, strconv.Itoa(adminapi.Format))
		w.Header().Set(adminapi.VersionHeader, own.Version)
		w.Header().Set(adminapi.CommitHeader, own.Commit)
		page.ServeHTTP(w, r)
	})
}

func (p *pages) streamsPage() (page adminapi.Streams) {
	for _, v := range p.streams.Views() {
		page.Streams += v.Streams
		page.Views = append(page.Views, v.View)
	}
	return page
}

func (p *pages) eventsPage() adminapi.Events {
	return adminapi.Events{Most: events.Most, Events: p.events.Newest()}
}

// failuresOf returns why a service can't be updated.
func (p *pages) failuresOf(id federation.ServiceID) (list []adminapi.Failure) {
	for _, f := range p.failures() {
		if f.Service == id {
			list = append(list, f.Failure)
		}
	}
	return list
}

// statusByCluster has the status of each cluster. Of several link Secrets for one, at most one
// is in use; the others are rejected.
func (p *pages) statusByCluster() map[federation.ClusterName]cluster.Status {
	all := make(map[federation.ClusterName]cluster.Status)
	for _, l := range p.links.Status() {
		name := federation.ClusterName(l.Cluster)
		if old, known := all[name]; !known || old.State == cluster.Rejected {
			all[name] = l.ClusterStatus
		}
	}
	all[federation.Local] = p.here.Status().ClusterStatus // also in place of Secrets without a cluster's name
	return all
}
