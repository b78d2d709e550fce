package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

func TestImpactPage(t *testing.T) {
	table, web := federation.NewTable(federation.Options{}), federation.ServiceID{Namespace: "shop", Name: "web"}
	table.Define(web, &federation.Definition{Federated: true, Members: []federation.Member{{Cluster: federation.Local, Service: web}, {Cluster: "east", Service: web}}})
	w := table.Watch(federation.Key{Service: web, Port: 80, Client: federation.Client{Zone: "z1"}})
	defer w.Close()
	page := newShop(table)
	page.served.views = []grpcapi.ViewStatus{{Service: web, View: adminapi.View{Streams: 2}}, {Service: web, View: adminapi.View{Streams: 3}}, {View: adminapi.View{Streams: 9}}}
	ask := func(query string) (code int, got adminapi.Impact) {
		answer := httptest.NewRecorder()
		page.serveImpact(answer, httptest.NewRequest(http.MethodGet, "/debug/impact"+query, nil))
		if answer.Code == http.StatusOK {
			if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
				t.Error(err)
			}
		}
		return answer.Code, got
	}
	for _, query := range []string{"", "?cluster=east", "?standing=withdrawn", "?cluster=east&standing=gone"} {
		if code, _ := ask(query); code != http.StatusBadRequest {
			t.Errorf("%s: %d", query, code)
		}
	}
	code, got := ask("?cluster=east&standing=last-resort")
	if code != http.StatusOK || got.Cluster != "east" || got.Standing != "last-resort" || len(got.Services) != 1 {
		t.Fatalf("%d, %+v", code, got)
	}
	if s := got.Services[0]; s.Service != "shop/web" || !s.Watched || s.Port != 80 || s.Zone != "" || s.Streams != 5 || len(s.Now) != 2 || len(s.Then) != 2 || s.Then[1].Cluster != "east" {
		t.Errorf("%+v", s)
	}
	// The own cluster may be cordoned too, by --cordon-local.
	if code, got := ask("?cluster=local&standing=withdrawn"); code != http.StatusOK || got.Cluster != "local" || len(got.Services) != 1 || got.Services[0].Now[0].Cluster != "local" {
		t.Errorf("of the own cluster: %d, %+v", code, got)
	}
	if code, got := ask("?cluster=north&standing=withdrawn"); code != http.StatusOK || got.Services == nil || len(got.Services) != 0 {
		t.Errorf("of a cluster that is in no service: %d, %+v", code, got)
	}
}
