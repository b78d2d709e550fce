package overview

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"isthmus/internal/adminapi"
)

// large is a World with so many clusters and services.
func large(clusters, services int) *World {
	w := &World{Gateway: Gateway{Name: "gw", Ready: true, Domain: "cluster.local"}}
	for i := range clusters {
		w.Clusters = append(w.Clusters, Cluster{Name: fmt.Sprintf("c%03d", i), State: "ready", Standing: "in-service", Since: time.Unix(int64(i), 0)})
	}
	for i := range services {
		s := Service{Namespace: fmt.Sprint("ns-", i%100), Name: fmt.Sprintf("web-%05d", i), Kind: "federated", Port: 80, Watched: true, Streams: i % 7, Serving: 3, Endpoints: 6}
		for m := range 3 {
			s.Members = append(s.Members, Member{Cluster: fmt.Sprintf("c%03d", (i+m)%max(1, clusters)), Endpoints: 2})
		}
		w.Services = append(w.Services, s)
		w.Streams = append(w.Streams, Stream{Method: "Get", Destination: s.Name, Streams: i % 7})
	}
	return w
}

func ask(text string) query {
	v, err := url.ParseQuery(text)
	if err != nil {
		panic(err)
	}
	return parseQuery(v)
}

func namesOf(t table[Service]) string {
	var names []string
	for _, r := range t.Rows {
		names = append(names, r.Row.Name)
	}
	return strings.Join(names, " ")
}

func TestQueries(t *testing.T) {
	w := large(3, 120)
	w.Services[77].Problems = []string{"annotation BROKEN"}
	w.Services[5].Serving = 0
	w.Services[6].Kind = "mirrored"
	w.Services[9].Tiers = []Tiers{{Count: 2}}
	for _, c := range []struct {
		query           string
		matching, pages int
		page            int
		first           string // the names of the first rows
	}{
		{"", 120, 3, 1, "web-00005 web-00077 web-00009 web-00000 web-00100"}, // the worst first, then by namespace and name
		{"services.page=3", 120, 3, 3, ""},
		{"services.page=99", 120, 3, 3, ""},
		{"services.page=-1", 120, 3, 1, ""},
		{"services.page=99999999999999999999", 120, 3, 1, ""},
		{"services.sort=name", 120, 3, 1, "web-00000 web-00100 web-00001"},
		{"services.sort=streams", 120, 3, 1, "web-00111 web-00013 "},
		{"services.sort=nonsense", 120, 3, 1, "web-00005"},
		{"services.q=broken", 1, 1, 1, "web-00077"},
		{"services.q=ns-7%2f%20WEB-00007", 1, 1, 1, "web-00007"},
		{"services.q=nothing-like-it", 0, 1, 1, ""},
		{"services.show=problems", 3, 1, 1, "web-00005 web-00077 web-00009"},
		{"services.show=mirrored", 1, 1, 1, "web-00006"},
		{"services.q=" + strings.Repeat("x", 1000), 0, 1, 1, ""},
		{"clusters.q=c001&streams.page=2", 120, 3, 1, "web-00005"}, // of other tables
	} {
		got := w.sections(ask(c.query))["services"].(table[Service])
		if got.All != 120 || got.Matching != c.matching || got.Pages != c.pages || got.Page != c.page || !strings.HasPrefix(namesOf(got), c.first) || len(got.Rows) > Rows {
			t.Errorf("%.60q: %d of %d match, page %d of %d: %s", c.query, got.Matching, got.All, got.Page, got.Pages, namesOf(got))
		}
	}
}

func TestSeverity(t *testing.T) {
	for _, c := range []struct {
		s    Service
		want int
	}{
		{Service{Kind: "federated", Members: make([]Member, 2), Serving: 2}, 0},
		{Service{Kind: "federated", Members: make([]Member, 2), Serving: 1}, 2},
		{Service{Kind: "federated", Members: make([]Member, 2), MoreMembers: 3, Serving: 2}, 2},
		{Service{Kind: "federated", Members: make([]Member, 2)}, 3},
		{Service{Kind: "federated"}, 3},
		{Service{Kind: "plain", Members: make([]Member, 1)}, 0},
		{Service{Kind: "plain", Members: make([]Member, 1), Watched: true, Streams: 1}, 3},
		{Service{Kind: "plain", Members: make([]Member, 1), Problems: []string{"p"}}, 2},
		{Service{Kind: "undefined", Watched: true, Streams: 2}, 3},
		{Service{Kind: "federated", Members: make([]Member, 1), Serving: 1, Tiers: []Tiers{{Count: 2}}}, 1},
	} {
		if got := c.s.severity(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.s, got, c.want)
		}
	}
	for want, list := range [][]Cluster{
		{{State: "ready"}, {State: "ready", Standing: "in-service"}},
		{{State: "ready", Standing: "withdrawn"}, {State: "ready", Warnings: []string{"w"}}},
		{{State: "pending"}},
		{{State: "stale"}, {State: "unreachable"}, {State: "rejected"}},
	} {
		for _, c := range list {
			if got := c.severity(); got != want {
				t.Errorf("%+v: %d, want %d", c, got, want)
			}
		}
	}
}

func TestSummary(t *testing.T) {
	w := large(3, 10)
	w.Clusters[0].State, w.Clusters[1].Standing = "stale", "withdrawn"
	w.Services[1].Serving, w.Services[2].Problems = 0, []string{"p"}
	w.Events = []adminapi.Event{{Kind: "tier"}}
	s := w.sections(ask(""))["summary"].(summary)
	if s.Clusters["ready"] != 2 || s.Clusters["stale"] != 1 || s.TakenOut != 1 || s.Services != 10 || s.Troubled != 2 || s.Unserved != 1 || s.Streams != 24 || s.Views != 10 {
		t.Errorf("%+v", s)
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("services.q=web&services.page=2&services.sort=name&events.show=tier")
	w := large(5, 130)
	f.Fuzz(func(t *testing.T, text string) {
		v, _ := url.ParseQuery(text)
		got := w.sections(parseQuery(v))["services"].(table[Service])
		if len(got.Rows) > Rows || got.Page < 1 || got.Page > got.Pages || got.Matching > got.All {
			t.Errorf("%q: %d rows, page %d of %d", text, len(got.Rows), got.Page, got.Pages)
		}
	})
}
