package admin

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
	"isthmus/local"
)

// Sources contains the parts of a replica that provide data for the debug API.
type Sources struct {
	Replica     func() adminapi.Replica // describes this replica
	Build       adminapi.Build          // build of this program
	Domain      string                  // of the local cluster
	Table       *federation.Table
	Local       LocalCluster
	Links       LinkedClusters
	Streams     Streams
	Events      *EventLog
	SliceWriter SliceWriter    // nil if this replica does not write EndpointSlices
	Copies      Copies         // may be nil in tests
	Exports     *ExportsReport // nil if --exports is off
	Leftovers   *Leftovers
	Failures    func() []panics.Failure
}

// LocalCluster contains the methods of *local.Cluster that the debug API uses.
type LocalCluster interface {
	Status() adminapi.Cluster
	Look(context.Context)
	LinkerdMirrors() map[string][]federation.ServiceID
	Service(federation.ServiceID) *cluster.Service
	Ports(federation.ServiceID) []uint16
	AddressOwner(netip.Addr) local.AddressOwner
	ServiceOfImport(federation.ServiceID) (federation.ServiceID, bool)
	AddressConflicts() (list []adminapi.AddressConflict, more int)
	Problems() []adminapi.Problem
	ProblemsOf(federation.ServiceID) []string
	ProfileProblem(id federation.ServiceID, client string) string
}

// LinkedClusters contains the methods of *clusterstore.Store that the debug API uses.
type LinkedClusters interface {
	Status() []adminapi.Cluster
	Look(context.Context)
	LinkedCluster(federation.ClusterName) (*cluster.Cluster, cluster.State)
	Namespace() string
	SecretsListed() (listed bool, err error)
	LocalRefused() []adminapi.RefusedRequest
}

// Streams contains the methods of *grpcapi.Server that the debug API uses.
type Streams interface {
	Views() []grpcapi.ViewStatus
	Explain(context.Context, grpcapi.Question) (*grpcapi.Explanation, error)
}

// SliceWriter contains the methods of the EndpointSlice writer that the debug API uses.
type SliceWriter interface {
	Status() adminapi.SliceWriter
	Refused() []adminapi.RefusedRequest
}

// Copies contains the methods of *copies.Copies that the debug API uses.
type Copies interface {
	Status() adminapi.CacheCopies
	Refused() []adminapi.RefusedRequest
}

// newDebugAPI returns the handler for each path of the debug API.
func newDebugAPI(from *Sources) map[string]http.Handler {
	lists := newListHandler(func() listContent { return newListContent(from) })
	all := map[string]http.Handler{
		"/debug/version":  sharedAnswer(func() any { return from.Build }),
		"/debug/clusters": lists.pageOrList(clustersHandler{from}.handler()),
		"/debug/services": lists.pageOrList(sharedAnswer(func() any { return servicesHandler{from}.all() })),
		"/debug/streams":  lists.pageOrList(sharedAnswer(func() any { return streamsHandler{from}.all() })),
		"/debug/events":   lists.pageOrList(sharedAnswer(func() any { return eventsHandler{from}.all() })),
		"/debug/impact":   impactHandler{from},
	}
	if from.Exports != nil {
		all["/debug/exports"] = exportsHandler{from}
	}

	turns := newLimiter(maxPages, pageWait, pageTimeout)
	for path, handler := range all {
		all[path] = turns.limit(handler)
	}
	all["/debug/explain"] = newExplainHandler(from) // has its own limits

	for path, handler := range all {
		all[path] = withVersion(handler, from.Build)
	}
	return all
}

// withVersion returns a handler that adds headers with the page format and the version of Isthmus
// to each response.
func withVersion(handler http.Handler, build adminapi.Build) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(adminapi.FormatHeader, strconv.Itoa(adminapi.Format))
		w.Header().Set(adminapi.VersionHeader, build.Version)
		w.Header().Set(adminapi.CommitHeader, build.Commit)
		handler.ServeHTTP(w, r)
	})
}
