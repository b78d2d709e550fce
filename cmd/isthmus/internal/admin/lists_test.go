package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/cmd/isthmus/internal/cmdtest"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

// TestListPages checks that a list is sent once for each snapshot. The test also checks that lists
// show the same data as pages.
func TestListPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := adminapi.ServiceLine{Namespace: "shop", Name: "web", Kind: "federated", Serving: 1}
		made := 0
		h := newListHandler(func() listContent {
			made++
			return listContent{
				services: []adminapi.ServiceLine{service, {Namespace: "shop", Name: "cart", Kind: "plain"}},
			}
		}).pageOrList(sharedAnswer(func() any { return "everything" }))
		ask := func(path, etag string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("If-None-Match", etag)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		first := ask("/debug/services?view=list&q=web", "")
		var list adminapi.ServiceList
		if err := json.Unmarshal(first.Body.Bytes(), &list); err != nil || first.Code != http.StatusOK ||
			first.Header().Get("Content-Type") != "application/json" ||
			list.All != 2 ||
			list.Matching != 1 ||
			list.Lines[0].Name != "web" {
			t.Errorf("%v: %d %s", err, first.Code, first.Body)
		}
		etag := first.Header().Get("ETag")
		if again := ask("/debug/services?view=list&q=web", etag); again.Code != http.StatusNotModified ||
			again.Body.Len() > 0 ||
			again.Header().Get("ETag") != etag ||
			again.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("for the same snapshot: %d %v %s", again.Code, again.Header(), again.Body)
		}
		if other := ask("/debug/clusters?view=list", ""); other.Header().Get("ETag") != etag || made != 1 {
			t.Errorf("the lists show %d snapshots, with the tags %s and %s", made, etag, other.Header().Get("ETag"))
		}
		time.Sleep(2 * time.Second)
		service.Serving = 0
		later := ask("/debug/services?view=list&q=web", etag)
		if later.Code != http.StatusOK || later.Header().Get("ETag") == etag ||
			!strings.Contains(later.Body.String(), `"severity":3`) {
			t.Errorf("for the next snapshot: %d %s", later.Code, later.Body)
		}
		for path, want := range map[string]string{
			"/debug/services":                      `"everything"`,
			"/debug/services?view=all":             `view is "all": use view=list`,
			"/debug/services?view=list&sort=color": `sort is "color": use problems, name`,
			"/debug/services?view=list&show=Get":   `show is "Get": use problems, import`,
			"/debug/services?view=list&limit=0":    `limit is "0": use a number from 1`,
		} {
			code := http.StatusBadRequest
			if path == "/debug/services" {
				code = http.StatusOK
			}
			if w := ask(path, later.Header().Get("ETag")); w.Code != code ||
				!strings.HasPrefix(w.Body.String(), want) ||
				w.Header().Get("ETag") != "" {
				t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
			}
		}
		time.Sleep(time.Hour) // the last snapshot is dropped
	})
}

// TestListThatClientHas checks that no response is computed for a client that already has it. The
// content of this test cannot be encoded.
func TestListThatClientHas(t *testing.T) {
	h := newListHandler(func() listContent {
		return listContent{
			events: []adminapi.Event{{At: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		} // JSON cannot represent this year
	}).pageOrList(nil)
	r := httptest.NewRequest(http.MethodGet, "/debug/events?view=list", nil)
	for _, code := range []int{http.StatusInternalServerError, http.StatusNotModified} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != code {
			t.Errorf("%d %s, want %d", w.Code, w.Body, code)
		}
		r.Header.Set("If-None-Match", w.Header().Get("ETag"))
	}
}

// manyShops returns a shop with the given numbers of clusters and federated services. Each service
// has three members and is watched.
func manyShops(tb testing.TB, clusters, services int) *shop {
	o := newShop(federation.NewTable(federation.Options{}))
	o.own.ports = []uint16{80, 8080}
	for i := range clusters {
		name := federation.ClusterName(fmt.Sprintf("c%03d", i))
		o.linked = append(
			o.linked,
			adminapi.Cluster{
				Cluster:       string(name),
				Secret:        "s",
				ClusterStatus: cluster.Status{State: cluster.Ready, Standing: "in-service"},
			},
		)
		from := cmdtest.Numbered(name, i, 1)
		if all := from.Offers; i%2 == 1 {
			from.Offers = func(id federation.ServiceID) []netip.AddrPort {
				if strings.HasSuffix(id.Name, "7") {
					return nil
				}
				return all(id)
			}
		}
		o.Table.Link(name, federation.Ready, from)
	}
	for i := range services {
		id := federation.ServiceID{Namespace: fmt.Sprint("ns-", i%100), Name: fmt.Sprint("web-", i)}
		d := &federation.Definition{Federated: true}
		for m := range 3 {
			d.Members = append(
				d.Members,
				federation.Member{Cluster: federation.ClusterName(o.linked[(i+m)%clusters].Cluster), Service: id},
			)
		}
		o.Table.Define(id, d)
		tb.Cleanup(o.Table.Watch(federation.Key{Service: id, Port: 80}).Close)
		o.served.views = append(
			o.served.views,
			grpcapi.ViewStatus{Service: id, View: adminapi.View{Method: "Get", Destination: id.Name, Streams: 1 + i%3}},
		)
	}
	return o
}

func TestListContent(t *testing.T) {
	o := manyShops(t, 4, 8)
	plain, mirrored, typo := federation.ServiceID{
		Namespace: "a",
		Name:      "plain",
	}, federation.ServiceID{
		Namespace: "a",
		Name:      "cart-c001",
	}, federation.ServiceID{
		Namespace: "a",
		Name:      "typo",
	}
	for id, member := range map[federation.ServiceID]federation.Member{
		plain: {
			Service: plain,
		}, mirrored: {
			Cluster: "c001",
			Service: federation.ServiceID{Namespace: "a", Name: "cart"},
		}, typo: {Service: typo},
	} {
		o.Table.Define(id, &federation.Definition{Members: []federation.Member{member}})
	}
	unknown := federation.ServiceID{Namespace: "a", Name: "unknown"}
	defer o.Table.Watch(federation.Key{Service: unknown, Port: 81}).Close()
	o.own.problems = []adminapi.Problem{{Service: "a/typo", Problems: []string{"<b>\x1b[1m"}}}
	o.linked[2].Standing, o.linked[2].StandingReason = "withdrawn", "cordoned\n"
	w := newListContent(o.Sources)
	if len(w.clusters) != 5 || w.clusters[0].Cluster != "local" || w.clusters[3].StandingReason != "cordoned " ||
		len(w.streams) != 8 {
		t.Errorf("%+v", w.clusters)
	}
	got := map[string]string{}
	for _, s := range w.services {
		text := fmt.Sprintf(
			"%s :%d %v streams=%d serving=%d endpoints=%d %q",
			s.Kind,
			s.Port,
			s.Ports,
			s.Streams,
			s.Serving,
			s.Endpoints,
			s.Problems,
		)
		for _, m := range s.Members {
			text += fmt.Sprintf(" | %s %s %d %s %s", m.Cluster, m.Service, m.Endpoints, m.Reason, m.Standing)
		}
		got[s.Namespace+"/"+s.Name] = text
	}
	for name, want := range map[string]string{
		"ns-0/web-0": `federated :80 [80 8080] streams=1 serving=3 endpoints=3 [] | c000  1   | c001  1   | c002  ` +
			`1  withdrawn`,
		"ns-7/web-7": `federated :80 [80 8080] streams=2 serving=1 endpoints=1 [] | c003  0 no such Service in ` +
			`the cluster  | c000  1   | c001  0 no such Service in the cluster `,
		"a/cart-c001": `mirrored :80 [80 8080] streams=0 serving=1 endpoints=0 [] | c001 a/cart 0  `,
		"a/typo":      `plain :80 [80 8080] streams=0 serving=1 endpoints=0 ["<b>` + "\ufffd" + `[1m"] | local  0  `,
		"a/unknown":   `undefined :81 [80 81 8080] streams=0 serving=0 endpoints=0 []`,
		"a/plain":     "",
	} {
		if got[name] != want {
			t.Errorf("%s:\n%s, want\n%s", name, got[name], want)
		}
	}
}

// TestManyMembers checks that members that are not serving are listed for any number of other
// members.
func TestManyMembers(t *testing.T) {
	o := manyShops(t, 60, 1)
	id := federation.ServiceID{Namespace: "a", Name: "web-7"}
	d := &federation.Definition{Federated: true}
	for i := range 60 {
		d.Members = append(
			d.Members,
			federation.Member{Cluster: federation.ClusterName(fmt.Sprintf("c%03d", i)), Service: id},
		)
	}
	d.Members = append(d.Members[:40:40], d.Members[58:]...)
	o.Table.Define(id, d)
	for _, s := range newListContent(o.Sources).services {
		if s.Name == "web-7" &&
			(len(s.Members) != maxMembers || s.MoreMembers != 30 || s.Serving != 21 || s.Members[0].Reason == "") {
			t.Errorf("%+v", s)
		}
	}
}

// BenchmarkListContent measures the computation of the lists that the page at / requests.
func BenchmarkListContent(b *testing.B) {
	for _, n := range []struct{ clusters, services int }{{3, 100}, {250, 10_000}} {
		b.Run(fmt.Sprintf("clusters=%d/services=%d", n.clusters, n.services), func(b *testing.B) {
			o := manyShops(b, n.clusters, n.services)
			b.ReportAllocs()
			for b.Loop() {
				if w := newListContent(o.Sources); len(w.services) != n.services {
					b.Fatal(len(w.services))
				}
			}
		})
	}
}

// large returns a content with the given numbers of clusters and services.
func large(clusters, services int) listContent {
	c := listContent{replica: adminapi.Replica{Name: "gw", Ready: true, Domain: "cluster.local"}, maxEvents: 500}
	for i := range clusters {
		c.clusters = append(c.clusters, adminapi.Cluster{
			Cluster: fmt.Sprintf("c%03d", i), Secret: "s",
			ClusterStatus: adminapi.ClusterStatus{
				State:    adminapi.Ready,
				Standing: adminapi.InService,
				Since:    time.Unix(int64(i), 0),
			},
		})
	}
	for i := range services {
		s := adminapi.ServiceLine{
			Namespace: fmt.Sprint("ns-", i%100),
			Name:      fmt.Sprintf("web-%05d", i),
			Kind:      "federated",
			Port:      80,
			Watched:   true,
			Streams:   i % 7,
			Serving:   3,
			Endpoints: 6,
		}
		for m := range 3 {
			s.Members = append(
				s.Members,
				adminapi.MemberLine{Cluster: fmt.Sprintf("c%03d", (i+m)%max(1, clusters)), Endpoints: 2},
			)
		}
		c.services = append(c.services, s)
		c.streams = append(c.streams, adminapi.View{Method: "Get", Destination: s.Name, Streams: i % 7})
	}
	return c
}

// askList sends a query like an HTTP client.
func askList[A any](t testing.TB, s *listSnapshot, list, query string) (answer A, err error) {
	t.Helper()
	v, _ := url.ParseQuery(query)
	q, err := parseListQuery(list, v)
	if err != nil {
		return answer, err
	}
	text, err := s.answer(list, q)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer, nil
}

func namesOf(lines []adminapi.ServiceLine) string {
	var names []string
	for _, l := range lines {
		names = append(names, l.Name)
	}
	return strings.Join(names, " ")
}

func TestServices(t *testing.T) {
	c := large(3, 120)
	c.services[77].Problems = []string{"annotation BROKEN"}
	c.services[5].Serving = 0
	c.services[6].Kind = "mirrored"
	c.services[9].Tiers = []adminapi.ZoneTiers{{Count: 2}}
	s := newListSnapshot(c)
	var clients sync.WaitGroup
	for _, sort := range []string{
		"problems",
		"name",
		"streams",
		"endpoints",
	} { // all queries sort and search the same lines
		clients.Go(func() {
			for _, sort := range []string{sort, "name"} {
				if got, err := askList[adminapi.ServiceList](t, s, "services", "q=web&sort="+sort); err != nil ||
					got.Matching != 120 {
					t.Errorf("by %s: %v, %d match", sort, err, got.Matching)
				}
			}
		})
	}
	clients.Wait()
	for _, c := range []struct {
		query           string
		matching, pages int
		page, lines     int
		first           string // the names on the first lines
	}{
		{
			"",
			120,
			3,
			1,
			50,
			"web-00005 web-00077 web-00009 web-00000 web-00100",
		}, // the worst come first, then by namespace and name
		{"page=3", 120, 3, 3, 20, ""},
		{"page=99", 120, 3, 3, 20, ""},
		{"limit=7", 120, 18, 1, 7, "web-00005"},
		{"limit=500", 120, 1, 1, 120, "web-00005"},
		{"sort=name", 120, 3, 1, 50, "web-00000 web-00100 web-00001"},
		{"sort=streams", 120, 3, 1, 50, "web-00111 web-00013 "},
		{"q=broken", 1, 1, 1, 1, "web-00077"},
		{"q=ns-7%2f%20WEB-00007", 1, 1, 1, 1, "web-00007"},
		{"q=c002&sort=name&limit=1", 120, 120, 1, 1, "web-00000"},
		{"q=nothing-like-it", 0, 1, 1, 0, ""},
		{"show=problems", 3, 1, 1, 3, "web-00005 web-00077 web-00009"},
		{"show=mirrored&q=web", 1, 1, 1, 1, "web-00006"},
	} {
		got, err := askList[adminapi.ServiceList](t, s, "services", c.query)
		if err != nil || got.All != 120 || got.Matching != c.matching || got.Pages != c.pages || got.Page != c.page ||
			len(got.Lines) != c.lines ||
			!strings.HasPrefix(namesOf(got.Lines), c.first) {
			t.Errorf(
				"%q: %v, %d of %d match, page %d of %d: %s",
				c.query,
				err,
				got.Matching,
				got.All,
				got.Page,
				got.Pages,
				namesOf(got.Lines),
			)
		}
		if got.Troubled != 2 || got.Unserved != 1 {
			t.Errorf("%q: %d troubled, %d unserved", c.query, got.Troubled, got.Unserved)
		}
	}
}

// TestSortedOnce checks that lines are sorted once, when an order is first requested.
func TestSortedOnce(t *testing.T) {
	compared := 0
	up := func(a, b *int) int { compared++; return *a - *b }
	down := func(a, b *int) int { return up(b, a) }
	l := newList(
		&lineKind[int]{
			parts: choices[func(*int) bool]{{"", nil}},
			order: choices[func(a, b *int) int]{{"up", up}, {"down", down}},
		},
		[]int{3, 1, 2},
	)
	if compared > 0 {
		t.Errorf("%d comparisons before the first query", compared)
	}
	for _, c := range []struct {
		sort, want string
		compares   bool
	}{{"down", "[3 2 1]", true}, {"down", "[3 2 1]", false}, {"", "[1 2 3]", true}, {"up", "[1 2 3]", false}} {
		compared = 0
		got, err := l.find(listQuery{sort: c.sort, page: 1, limit: 3})
		if err != nil || fmt.Sprint(got.Lines) != c.want || (compared > 0) != c.compares {
			t.Errorf("%q: %v %v after %d comparisons", c.sort, err, got.Lines, compared)
		}
	}
}

func TestOtherLists(t *testing.T) {
	c := large(3, 10)
	c.clusters = append(
		c.clusters,
		adminapi.Cluster{Cluster: "local", ClusterStatus: adminapi.ClusterStatus{State: adminapi.Ready}},
	)
	c.clusters[0].State, c.clusters[1].Standing = adminapi.Stale, adminapi.Withdrawn
	c.streams[3].Method = "GetProfile"
	c.events = []adminapi.Event{
		{Kind: adminapi.EventTier, Object: "shop/web", Text: "more"},
		{Kind: adminapi.EventStall, Object: "shop/web"},
	}
	s := newListSnapshot(c)
	for query, want := range map[string]string{
		"":              "c000 c001 local c002",
		"sort=name":     "local c000 c001 c002",
		"sort=since":    "c002 c001 c000 local",
		"sort=state":    "local c001 c002 c000",
		"show=problems": "c000 c001",
		"q=withdrawn":   "c001",
	} {
		got, err := askList[adminapi.ClusterList](t, s, "clusters", query)
		var names []string
		for _, l := range got.Lines {
			names = append(names, l.Cluster.Cluster)
		}
		if strings.Join(names, " ") != want || err != nil || got.States[adminapi.Ready] != 3 ||
			got.States[adminapi.Stale] != 1 ||
			got.TakenOut != 1 ||
			got.All != 4 ||
			got.Replica != c.replica {
			t.Errorf("%q: %v %v %+v", query, names, err, got)
		}
	}
	streams, err := askList[adminapi.StreamList](t, s, "streams", "limit=1")
	if err != nil || streams.Streams != 24 || streams.All != 10 || streams.Lines[0].Streams != 6 {
		t.Errorf("%v %+v", err, streams)
	}
	if profiles, err := askList[adminapi.StreamList](t, s, "streams", "show=GetProfile&sort=destination"); err != nil ||
		profiles.Matching != 1 ||
		profiles.Streams != 24 {
		t.Errorf("%v %+v", err, profiles)
	}
	for query, want := range map[string]int{"": 2, "show=tier": 1, "q=SHOP": 2, "q=more": 1} {
		events, err := askList[adminapi.EventList](t, s, "events", query)
		if err != nil || events.Matching != want || maxEvents != 500 || events.Lines[0].Kind != adminapi.EventTier {
			t.Errorf("%q: %v %+v", query, err, events)
		}
	}
}

// TestNotAnswered checks that the error for an invalid query names the valid values.
func TestNotAnswered(t *testing.T) {
	s := newListSnapshot(large(1, 1))
	for query, want := range map[string]string{
		"services sort=nonsense":                    `sort is "nonsense": use problems, name, streams, endpoints`,
		"services show=x":                           `show is "x": use problems, import, federated, mirrored, plain`,
		"events sort=name":                          `sort is "name": use newest`,
		"events show=nonsense":                      `show is "nonsense": use cluster, standing,`,
		"services page=-1":                          `page is "-1": use a number from 1 to 1000000`,
		"services limit=501":                        `limit is "501": use a number from 1 to 500`,
		"services limit=99999999999999999999999999": `limit is "99999999999999999999": use`,
		"services q=" + strings.Repeat("x", 401):    "q has 401 bytes: use at most 400",
		"pods ":                                     "there is no list of pods",
	} {
		list, query, _ := strings.Cut(query, " ")
		if _, err := askList[any](t, s, list, query); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s %.20s: %v, want %s", list, query, err, want)
		}
	}
}

func TestSeverity(t *testing.T) {
	for _, c := range []struct {
		s    adminapi.ServiceLine
		want adminapi.Severity
	}{
		{adminapi.ServiceLine{Kind: "federated", Members: make([]adminapi.MemberLine, 2), Serving: 2}, adminapi.Fine},
		{
			adminapi.ServiceLine{Kind: "federated", Members: make([]adminapi.MemberLine, 2), Serving: 1},
			adminapi.Partial,
		},
		{
			adminapi.ServiceLine{
				Kind:        "federated",
				Members:     make([]adminapi.MemberLine, 2),
				MoreMembers: 3,
				Serving:     2,
			},
			adminapi.Partial,
		},
		{adminapi.ServiceLine{Kind: "federated", Members: make([]adminapi.MemberLine, 2)}, adminapi.Broken},
		{adminapi.ServiceLine{Kind: "federated"}, adminapi.Broken},
		{adminapi.ServiceLine{Kind: "plain", Members: make([]adminapi.MemberLine, 1)}, adminapi.Fine},
		{
			adminapi.ServiceLine{Kind: "plain", Members: make([]adminapi.MemberLine, 1), Watched: true, Streams: 1},
			adminapi.Broken,
		},
		{
			adminapi.ServiceLine{Kind: "plain", Members: make([]adminapi.MemberLine, 1), Problems: []string{"p"}},
			adminapi.Partial,
		},
		{adminapi.ServiceLine{Kind: "undefined", Watched: true, Streams: 2}, adminapi.Broken},
		{
			adminapi.ServiceLine{
				Kind:    "federated",
				Members: make([]adminapi.MemberLine, 1),
				Serving: 1,
				Tiers:   []adminapi.ZoneTiers{{Count: 2}},
			},
			adminapi.Notable,
		},
	} {
		if got := serviceSeverity(&c.s); got != c.want {
			t.Errorf("%+v: %d, want %d", c.s, got, c.want)
		}
	}
	for want, all := range [][]adminapi.ClusterStatus{
		{{State: adminapi.Ready}, {State: adminapi.Ready, Standing: adminapi.InService}},
		{{State: adminapi.Ready, Standing: adminapi.Withdrawn}, {State: adminapi.Ready, Warnings: []string{"w"}}},
		{{State: adminapi.Pending}},
		{{State: adminapi.Stale}, {State: adminapi.Unreachable}, {State: adminapi.Rejected}},
	} {
		for _, status := range all {
			if got := clusterSeverity(&adminapi.Cluster{ClusterStatus: status}); got != adminapi.Severity(want) {
				t.Errorf("%+v: %d, want %d", status, got, want)
			}
		}
	}
}

// BenchmarkAnswer measures a list with an order, and a snapshot whose services are queried once.
func BenchmarkAnswer(b *testing.B) {
	c := large(250, 5000)
	s := newListSnapshot(c)
	for _, query := range []string{
		"services",
		"services sort=name",
		"services sort=streams",
		"services q=web-01&sort=streams",
		"clusters",
		"streams",
	} {
		list, query, _ := strings.Cut(query, " ")
		v, _ := url.ParseQuery(query)
		q, err := parseListQuery(list, v)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(list+"/"+query, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.answer(list, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			if _, err := newListSnapshot(c).answer("services", listQuery{page: 1, limit: defaultLines}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add("q=web&page=2&sort=name&show=plain&limit=3")
	f.Add("q=%ff%zz&limit=-1&page=99999999999999999999")
	s := newListSnapshot(large(5, 130))
	f.Fuzz(func(t *testing.T, text string) {
		v, _ := url.ParseQuery(text)
		q, err := parseListQuery("services", v)
		if err != nil {
			return
		}
		answer, err := s.lists["services"](q)
		got, ok := answer.(adminapi.ServiceList)
		if err != nil || !ok || len(got.Lines) > maxLines || len(got.Lines) > q.limit || got.Page < 1 ||
			got.Page > got.Pages ||
			got.Matching > got.All {
			t.Errorf("%q: %d lines, page %d of %d", text, len(got.Lines), got.Page, got.Pages)
		}
	})
}
