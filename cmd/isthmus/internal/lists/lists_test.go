package lists

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"isthmus/internal/adminapi"
)

// large is a content with so many clusters and services.
func large(clusters, services int) Content {
	c := Content{Replica: adminapi.Replica{Name: "gw", Ready: true, Domain: "cluster.local"}, MostEvents: 500}
	for i := range clusters {
		c.Clusters = append(c.Clusters, adminapi.Cluster{
			Cluster: fmt.Sprintf("c%03d", i), Secret: "s",
			ClusterStatus: adminapi.ClusterStatus{State: adminapi.Ready, Standing: adminapi.InService, Since: time.Unix(int64(i), 0)},
		})
	}
	for i := range services {
		s := adminapi.ServiceLine{Namespace: fmt.Sprint("ns-", i%100), Name: fmt.Sprintf("web-%05d", i), Kind: "federated", Port: 80, Watched: true, Streams: i % 7, Serving: 3, Endpoints: 6}
		for m := range 3 {
			s.Members = append(s.Members, adminapi.MemberLine{Cluster: fmt.Sprintf("c%03d", (i+m)%max(1, clusters)), Endpoints: 2})
		}
		c.Services = append(c.Services, s)
		c.Streams = append(c.Streams, adminapi.View{Method: "Get", Destination: s.Name, Streams: i % 7})
	}
	return c
}

// ask asks as an HTTP client does.
func ask[A any](t testing.TB, s *Snapshot, list, query string) (answer A, err error) {
	t.Helper()
	v, _ := url.ParseQuery(query)
	q, err := ParseQuery(list, v)
	if err != nil {
		return answer, err
	}
	text, err := s.Answer(list, q)
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
	c.Services[77].Problems = []string{"annotation BROKEN"}
	c.Services[5].Serving = 0
	c.Services[6].Kind = "mirrored"
	c.Services[9].Tiers = []adminapi.ZoneTiers{{Count: 2}}
	s := NewSnapshot(c)
	var clients sync.WaitGroup
	for _, sort := range []string{"problems", "name", "streams", "endpoints"} { // all of them sort and search the same lines
		clients.Go(func() {
			for _, sort := range []string{sort, "name"} {
				if got, err := ask[adminapi.ServiceList](t, s, "services", "q=web&sort="+sort); err != nil || got.Matching != 120 {
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
		first           string // the names of the first lines
	}{
		{"", 120, 3, 1, 50, "web-00005 web-00077 web-00009 web-00000 web-00100"}, // the worst first, then by namespace and name
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
		got, err := ask[adminapi.ServiceList](t, s, "services", c.query)
		if err != nil || got.All != 120 || got.Matching != c.matching || got.Pages != c.pages || got.Page != c.page || len(got.Lines) != c.lines || !strings.HasPrefix(namesOf(got.Lines), c.first) {
			t.Errorf("%q: %v, %d of %d match, page %d of %d: %s", c.query, err, got.Matching, got.All, got.Page, got.Pages, namesOf(got.Lines))
		}
		if got.Troubled != 2 || got.Unserved != 1 {
			t.Errorf("%q: %d troubled, %d unserved", c.query, got.Troubled, got.Unserved)
		}
	}
}

// TestSortedOnce: lines are sorted when an order is first asked for, and not again.
func TestSortedOnce(t *testing.T) {
	compared := 0
	up := func(a, b *int) int { compared++; return *a - *b }
	down := func(a, b *int) int { return up(b, a) }
	l := newList(&kind[int]{parts: named[func(*int) bool]{{"", nil}}, order: named[func(a, b *int) int]{{"up", up}, {"down", down}}}, []int{3, 1, 2})
	if compared > 0 {
		t.Errorf("%d comparisons before anybody asks", compared)
	}
	for _, c := range []struct {
		sort, want string
		compares   bool
	}{{"down", "[3 2 1]", true}, {"down", "[3 2 1]", false}, {"", "[1 2 3]", true}, {"up", "[1 2 3]", false}} {
		compared = 0
		got, err := l.find(Query{Sort: c.sort, Page: 1, Limit: 3})
		if err != nil || fmt.Sprint(got.Lines) != c.want || (compared > 0) != c.compares {
			t.Errorf("%q: %v %v after %d comparisons", c.sort, err, got.Lines, compared)
		}
	}
}

func TestOtherLists(t *testing.T) {
	c := large(3, 10)
	c.Clusters = append(c.Clusters, adminapi.Cluster{Cluster: "local", ClusterStatus: adminapi.ClusterStatus{State: adminapi.Ready}})
	c.Clusters[0].State, c.Clusters[1].Standing = adminapi.Stale, adminapi.Withdrawn
	c.Streams[3].Method = "GetProfile"
	c.Events = []adminapi.Event{{Kind: adminapi.EventTier, Object: "shop/web", Text: "more"}, {Kind: adminapi.EventStall, Object: "shop/web"}}
	s := NewSnapshot(c)
	for query, want := range map[string]string{"": "c000 c001 local c002", "sort=name": "local c000 c001 c002", "sort=since": "c002 c001 c000 local", "sort=state": "local c001 c002 c000", "show=problems": "c000 c001", "q=withdrawn": "c001"} {
		got, err := ask[adminapi.ClusterList](t, s, "clusters", query)
		var names []string
		for _, l := range got.Lines {
			names = append(names, l.Cluster.Cluster)
		}
		if strings.Join(names, " ") != want || err != nil || got.States[adminapi.Ready] != 3 || got.States[adminapi.Stale] != 1 || got.TakenOut != 1 || got.All != 4 || got.Replica != c.Replica {
			t.Errorf("%q: %v %v %+v", query, names, err, got)
		}
	}
	streams, err := ask[adminapi.StreamList](t, s, "streams", "limit=1")
	if err != nil || streams.Streams != 24 || streams.All != 10 || streams.Lines[0].Streams != 6 {
		t.Errorf("%v %+v", err, streams)
	}
	if profiles, err := ask[adminapi.StreamList](t, s, "streams", "show=GetProfile&sort=destination"); err != nil || profiles.Matching != 1 || profiles.Streams != 24 {
		t.Errorf("%v %+v", err, profiles)
	}
	for query, want := range map[string]int{"": 2, "show=tier": 1, "q=SHOP": 2, "q=more": 1} {
		events, err := ask[adminapi.EventList](t, s, "events", query)
		if err != nil || events.Matching != want || events.Most != 500 || events.Lines[0].Kind != adminapi.EventTier {
			t.Errorf("%q: %v %+v", query, err, events)
		}
	}
}

// TestNotAnswered: what can't be answered says what can.
func TestNotAnswered(t *testing.T) {
	s := NewSnapshot(large(1, 1))
	for query, want := range map[string]string{
		"services sort=nonsense":                    `sort is "nonsense": give problems, name, streams, endpoints`,
		"services show=x":                           `show is "x": give problems, import, federated, mirrored, plain`,
		"events sort=name":                          `sort is "name": give newest`,
		"events show=nonsense":                      `show is "nonsense": give cluster, standing,`,
		"services page=-1":                          `page is "-1": give a number from 1 to 1000000`,
		"services limit=501":                        `limit is "501": give a number from 1 to 500`,
		"services limit=99999999999999999999999999": `limit is "99999999999999999999": give`,
		"services q=" + strings.Repeat("x", 401):    "q has 401 bytes: give at most 400",
		"pods ":                                     "there is no list of pods",
	} {
		list, query, _ := strings.Cut(query, " ")
		if _, err := ask[any](t, s, list, query); err == nil || !strings.HasPrefix(err.Error(), want) {
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
		{adminapi.ServiceLine{Kind: "federated", Members: make([]adminapi.MemberLine, 2), Serving: 1}, adminapi.Partial},
		{adminapi.ServiceLine{Kind: "federated", Members: make([]adminapi.MemberLine, 2), MoreMembers: 3, Serving: 2}, adminapi.Partial},
		{adminapi.ServiceLine{Kind: "federated", Members: make([]adminapi.MemberLine, 2)}, adminapi.Broken},
		{adminapi.ServiceLine{Kind: "federated"}, adminapi.Broken},
		{adminapi.ServiceLine{Kind: "plain", Members: make([]adminapi.MemberLine, 1)}, adminapi.Fine},
		{adminapi.ServiceLine{Kind: "plain", Members: make([]adminapi.MemberLine, 1), Watched: true, Streams: 1}, adminapi.Broken},
		{adminapi.ServiceLine{Kind: "plain", Members: make([]adminapi.MemberLine, 1), Problems: []string{"p"}}, adminapi.Partial},
		{adminapi.ServiceLine{Kind: "undefined", Watched: true, Streams: 2}, adminapi.Broken},
		{adminapi.ServiceLine{Kind: "federated", Members: make([]adminapi.MemberLine, 1), Serving: 1, Tiers: []adminapi.ZoneTiers{{Count: 2}}}, adminapi.Notable},
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

// BenchmarkAnswer is a list in an order, and a snapshot of which the services are asked for once.
func BenchmarkAnswer(b *testing.B) {
	c := large(250, 5000)
	s := NewSnapshot(c)
	for _, query := range []string{"services", "services sort=name", "services sort=streams", "services q=web-01&sort=streams", "clusters", "streams"} {
		list, query, _ := strings.Cut(query, " ")
		v, _ := url.ParseQuery(query)
		q, err := ParseQuery(list, v)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(list+"/"+query, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Answer(list, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			if _, err := NewSnapshot(c).Answer("services", Query{Page: 1, Limit: defaultLimit}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add("q=web&page=2&sort=name&show=plain&limit=3")
	f.Add("q=%ff%zz&limit=-1&page=99999999999999999999")
	s := NewSnapshot(large(5, 130))
	f.Fuzz(func(t *testing.T, text string) {
		v, _ := url.ParseQuery(text)
		q, err := ParseQuery("services", v)
		if err != nil {
			return
		}
		answer, err := s.lists["services"](q)
		got, ok := answer.(adminapi.ServiceList)
		if err != nil || !ok || len(got.Lines) > MaxLimit || len(got.Lines) > q.Limit || got.Page < 1 || got.Page > got.Pages || got.Matching > got.All {
			t.Errorf("%q: %d lines, page %d of %d", text, len(got.Lines), got.Page, got.Pages)
		}
	})
}
