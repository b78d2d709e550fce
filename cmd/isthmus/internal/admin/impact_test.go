package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"isthmus/cmd/isthmus/internal/cmdtest"

	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

// TestImpactPage checks the errors for invalid queries, the streams of a service with several
// views, and the name of the local cluster.
func TestImpactPage(t *testing.T) {
	table, web := federation.NewTable(federation.Options{}), cmdtest.ShopID("web")
	table.Define(
		web,
		&federation.Definition{
			Federated: true,
			Members:   []federation.Member{{Cluster: federation.Local, Service: web}, {Cluster: "east", Service: web}},
		},
	)
	page := newShop(table)
	page.served.views = []grpcapi.ViewStatus{
		{Service: web, View: adminapi.View{Streams: 2}},
		{Service: web, View: adminapi.View{Streams: 3}},
		{View: adminapi.View{Streams: 9}},
	}
	const services = `"services":[{"service":"shop/web","watched":false,"port":0,"streams":5,`
	for query, want := range map[string]string{
		"": "use ?cluster=", "cluster=east": "use ?cluster=", "standing=withdrawn": "use ?cluster=",
		"cluster=east&standing=gone":        "use ?cluster=",
		"cluster=east&standing=last-resort": `{"cluster":"east","standing":"last-resort",` + services,
		"cluster=local&standing=withdrawn":  `{"cluster":"local","standing":"withdrawn",` + services,
		"cluster=north&standing=withdrawn":  `{"cluster":"north","standing":"withdrawn","services":[]}`,
	} {
		answer, text := httptest.NewRecorder(), new(bytes.Buffer)
		impactHandler{page.Sources}.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/impact?"+query, nil))
		if code := answer.Code; code == http.StatusBadRequest {
			text = answer.Body
		} else if err := json.Compact(text, answer.Body.Bytes()); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text.String(), want) {
			t.Errorf("%s: %d %s, want %s", query, answer.Code, text, want)
		}
	}
}
