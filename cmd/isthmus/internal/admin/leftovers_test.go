package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus/cmd/isthmus/internal/cmdtest"

	"k8s.io/client-go/rest"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// TestLeftovers checks that mirrors are left over if nothing names their cluster and no service
// mirror holds its Lease. Read errors are reported.
func TestLeftovers(t *testing.T) {
	mirrors := make(map[string][]federation.ServiceID)
	for _, cluster := range []string{"gone", "linked", "link", "target", "running", "stopped", "released"} {
		mirrors[cluster] = []federation.ServiceID{cmdtest.ShopID("web-" + cluster)}
	}
	for i := range 2 * maxLeftServices {
		mirrors["gone"] = append(mirrors["gone"], cmdtest.ShopID(fmt.Sprintf("x%02d-gone", i)))
	}
	lease := func(holder string, renewed time.Time) string {
		return fmt.Sprintf(`{"spec":{"holderIdentity":%q,"renewTime":%q}}`, holder,
			renewed.UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	const links, leases = "/apis/multicluster.linkerd.io/v1alpha3/namespaces/mc/links",
		"/apis/coordination.k8s.io/v1/namespaces/mc/leases/service-mirror-write-"
	answers := map[string]string{
		links: `{"apiVersion":"multicluster.linkerd.io/v1alpha3","kind":"LinkList","metadata":{},"items":[
			{"metadata":{"name":"link"},"spec":{}},
			{"metadata":{"name":"other"},"spec":{"targetClusterName":"target"}}]}`,
		leases + "running":  lease("pod", time.Now()),
		leases + "stopped":  lease("pod", time.Now().Add(-time.Hour)),
		leases + "released": lease("", time.Now()),
	}
	for name, x := range map[string]struct {
		refused string // prefix of forbidden paths
		absent  string
		want    []string
	}{
		"all can be read": {want: []string{"gone 21", "released 1", "stopped 1"}},
		"no kind of Links": {absent: links, want: []string{
			"gone 21", "link 1", "released 1", "stopped 1", "target 1"}},
		"no right to Links": {refused: links, want: []string{
			"gone 21: Links", "link 1: Links", "released 1: Links", "running 1: Links", "stopped 1: Links",
			"target 1: Links"}},
		"no right to Leases": {refused: leases, want: []string{
			"gone 21: Leases", "released 1: Leases", "running 1: Leases", "stopped 1: Leases"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				text, found := answers[r.URL.Path]
				switch {
				case x.refused != "" && strings.HasPrefix(r.URL.Path, x.refused):
					w.WriteHeader(http.StatusForbidden)
					io.WriteString(
						w,
						`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,`+
							`"message":"no"}`,
					)
				case !found || r.URL.Path == x.absent:
					w.WriteHeader(http.StatusNotFound)
					io.WriteString(w,
						`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
				default:
					io.WriteString(w, text)
				}
			}))
			defer server.Close()
			client, err := kube.New(federation.Local, &rest.Config{Host: server.URL}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			l, now := NewLeftovers(client, "mc"), time.Now()
			l.now = func() time.Time { return now }
			linked := map[string]bool{"linked": true}
			l.find(t.Context(), mirrors, linked)
			now = now.Add(minLease)
			answers[leases+"running"] = lease("pod", now)
			var got []string
			for _, one := range l.find(t.Context(), mirrors, linked) {
				got = append(got, leftoverText(one))
			}
			if !slices.Equal(got, x.want) {
				t.Errorf("got %q\nwant %q", got, x.want)
			}
		})
	}
	nobody := &Leftovers{} // sends no requests
	if got := nobody.find(
		context.Background(), map[string][]federation.ServiceID{"linked": nil}, map[string]bool{"linked": true},
	); got != nil {
		t.Errorf("%v", got)
	}
}

// leftoverText formats the number of leftover mirrors and the reasons why others are unknown.
func leftoverText(l adminapi.LeftoverMirrors) string {
	text := fmt.Sprint(l.Cluster, " ", l.Number)
	if len(l.Services) != min(l.Number, maxLeftServices) {
		text += fmt.Sprint(" ", l.Services)
	}
	for _, what := range []string{"Links", "Leases"} {
		if strings.Contains(l.Unknown, "cannot read "+what) {
			text += ": " + what
		}
	}
	return text
}
