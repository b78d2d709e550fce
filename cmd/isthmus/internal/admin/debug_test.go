package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
	"isthmus/local"
)

// shop holds the sources of a replica's pages.
type shop struct {
	*Sources
	own    ownShop
	linked linkedShops
	served servedShop

	failures []panics.Failure
}

func (s *shop) handlers() map[string]http.Handler { return newDebugAPI(s.Sources) }
func (s *shop) clusters() clustersHandler         { return clustersHandler{s.Sources} }
func (s *shop) services() servicesHandler         { return servicesHandler{s.Sources} }
func (s *shop) streams() streamsHandler           { return streamsHandler{s.Sources} }
func (s *shop) explain() http.Handler             { return newExplainHandler(s.Sources) }
func (s *shop) explainHandler() explainHandler    { return explainHandler{Sources: s.Sources} }

// newShop returns a shop with a table and no services.
func newShop(table *federation.Table) *shop {
	s := &shop{}
	s.own.status = adminapi.Cluster{ClusterStatus: cluster.Status{State: cluster.Ready, Standing: "in-service"}}
	s.Sources = &Sources{
		Failures: func() []panics.Failure { return s.failures },
		Replica: func() adminapi.Replica {
			return adminapi.Replica{Name: "me", Ready: true, Domain: "cluster.local"}
		},
		Build:   adminapi.Build{Version: "v1"},
		Domain:  "cluster.local",
		Table:   table,
		Local:   &s.own,
		Links:   &s.linked,
		Streams: &s.served,
		Events:  NewEventLog(),
	}
	return s
}

// ownShop is a local cluster. The field ports applies to each Service without its own ports.
type ownShop struct {
	status   adminapi.Cluster
	services map[federation.ServiceID]*cluster.Service
	ports    []uint16
	problems []adminapi.Problem

	conflicts []adminapi.AddressConflict
	looks     int
}

func (o *ownShop) Status() adminapi.Cluster { return o.status }

func (o *ownShop) Look(context.Context) { o.looks++ }

func (o *ownShop) LinkerdMirrors() map[string][]federation.ServiceID { return nil }

func (o *ownShop) Service(id federation.ServiceID) *cluster.Service { return o.services[id] }

func (o *ownShop) Problems() []adminapi.Problem { return o.problems }

func (o *ownShop) ProblemsOf(id federation.ServiceID) []string {
	return []string{"about " + id.String()}
}

// ProfileProblem returns a problem for the ServiceProfiles of the Service api.
func (o *ownShop) ProfileProblem(id federation.ServiceID, client string) string {
	if id.Name != "api" {
		return ""
	}
	return "ServiceProfile of " + client
}

func (o *ownShop) Ports(id federation.ServiceID) []uint16 {
	if own := map[string][]uint16{
		"shop/web": {80}, "shop/api": {8080}, "shop/api-clusterset": {8080},
		"shop/multi": {81, 82}, "shop/both": {81, 80},
	}[id.String()]; own != nil {
		return own
	}
	return o.ports
}

// AddressOwner returns Service api for 10.1.0.1, Pod web-1 for 10.0.0.1, and two claimants for
// 10.1.0.9.
func (o *ownShop) AddressOwner(ip netip.Addr) local.AddressOwner {
	switch ip.String() {
	case "10.1.0.1":
		id := federation.ServiceID{Namespace: "shop", Name: "api"}
		return local.AddressOwner{Name: "Service shop/api", Service: &id}
	case "10.1.0.9":
		return local.AddressOwner{Name: "Service shop/api", Claimed: "2 Services with cluster IP 10.1.0.9"}
	case "10.0.0.1":
		return local.AddressOwner{Name: "Pod shop/web-1"}
	}
	return local.AddressOwner{}
}

// ServiceOfImport returns the derived Service of the ServiceImport shop/api.
func (o *ownShop) ServiceOfImport(id federation.ServiceID) (federation.ServiceID, bool) {
	if id.String() != "shop/api" {
		return federation.ServiceID{}, false
	}
	return federation.ServiceID{Namespace: "shop", Name: "api-clusterset"}, true
}

func (o *ownShop) AddressConflicts() ([]adminapi.AddressConflict, int) { return o.conflicts, 7 }

// linkedShops are linked clusters that are not synced yet.
type linkedShops []adminapi.Cluster

func (l *linkedShops) Status() []adminapi.Cluster { return *l }

func (l *linkedShops) Look(context.Context) {}

func (l *linkedShops) Namespace() string { return "linkerd" }

func (l *linkedShops) SecretsListed() (bool, error) {
	return true, nil
}

func (l *linkedShops) LocalRefused() []adminapi.RefusedRequest { return nil }

func (l *linkedShops) LinkedCluster(name federation.ClusterName) (*cluster.Cluster, cluster.State) {
	if slices.ContainsFunc(*l, func(c adminapi.Cluster) bool { return c.Cluster == string(name) }) {
		return nil, cluster.Pending
	}
	return nil, ""
}

// servedShop is a gRPC server with the given views and explanations.
type servedShop struct {
	views   []grpcapi.ViewStatus
	explain func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error)
}

func (s *servedShop) Views() []grpcapi.ViewStatus { return s.views }

func (s *servedShop) Explain(ctx context.Context, q grpcapi.Question) (*grpcapi.Explanation, error) {
	return s.explain(ctx, q)
}

// TestPages checks that each page without --exports responds with JSON, and rejects a POST. A page
// that cannot be encoded is an error.
func TestPages(t *testing.T) {
	mux := http.NewServeMux()
	for path, page := range newShop(federation.NewTable(federation.Options{})).handlers() {
		mux.Handle("GET "+path, page)
	}
	for path, want := range map[string]string{
		"/debug/version": `"version": `, "/debug/clusters": `"name": "me"`, "/debug/services": "[]\n",
		"/debug/streams": `"streams": 0`, "/debug/events": `"most": `, "/debug/exports": "404",
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		known := w.Header().Get(adminapi.FormatHeader) == strconv.Itoa(adminapi.Format) &&
			w.Header().Get(adminapi.VersionHeader) != ""
		if known != (want != "404") {
			t.Errorf("%s: wrong format or version in the headers %v", path, w.Header())
		}
		if !strings.Contains(w.Body.String(), want) ||
			w.Code == http.StatusOK &&
				(w.Header().Get("Content-Type") != "application/json" ||
					w.Header().Get("X-Content-Type-Options") != "nosniff") {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
	}
	w := httptest.NewRecorder()
	encode(func() {}).serve(w)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "cannot encode the page") {
		t.Errorf("a page that cannot be encoded: %d %s", w.Code, w.Body)
	}
}

// TestFreshPage checks that only the query of isthmus check makes clusters read facts again.
// Concurrent requests share one read.
func TestFreshPage(t *testing.T) {
	page := newShop(federation.NewTable(federation.Options{}))
	h := page.handlers()["/debug/clusters"]
	for _, x := range []struct {
		query string
		looks int
	}{{"", 0}, {"?view=list", 0}, {"?fresh=false", 0}, {"?fresh=true", 1}, {"?fresh=true", 1}, {"", 1}} {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/clusters"+x.query, nil))
		if answer.Code != http.StatusOK || page.own.looks != x.looks {
			t.Errorf("%q: status %d, %d reads, want %d", x.query, answer.Code, page.own.looks, x.looks)
		}
	}
}
