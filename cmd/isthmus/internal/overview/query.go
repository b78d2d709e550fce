package overview

import (
	"net/url"
	"strconv"
	"strings"

	"isthmus/cmd/isthmus/internal/events"
	"isthmus/internal/adminapi"
)

const (
	// Rows is how many rows of a table are shown at a time.
	Rows = 50

	maxSearch = 100 // bytes
	maxPage   = 1_000_000
)

// tables are the names of the page's tables, which precede their parameters.
var tables = [...]string{"clusters", "services", "streams", "events"}

// query is what a viewer wants to see, by table.
type query map[string]tableQuery

// tableQuery is what of a table.
type tableQuery struct {
	search string // in lower case; words that must all be there
	sort   string
	show   string
	page   int // from 1
}

// parseQuery reads parameters such as services.q, services.sort, services.show and
// services.page. What can't be used counts as absent.
func parseQuery(v url.Values) query {
	q := make(query)
	for _, t := range tables {
		page, err := strconv.Atoi(v.Get(t + ".page"))
		if err != nil || page < 1 || page > maxPage {
			page = 1
		}
		search := v.Get(t + ".q")
		if len(search) > maxSearch {
			search = search[:maxSearch]
		}
		q[t] = tableQuery{strings.ToLower(search), v.Get(t + ".sort"), v.Get(t + ".show"), page}
	}
	return q
}

// table is one page of a table.
type table[T any] struct {
	Rows     []shown[T] `json:"rows"`
	All      int        `json:"all"`      // rows that there are
	Matching int        `json:"matching"` // of these, that are searched for
	Page     int        `json:"page"`
	Pages    int        `json:"pages"`
}

// shown is a row as the page gets it.
type shown[T any] struct {
	Row      *T  `json:"row"`
	Severity int `json:"severity"` // 0: fine; 3: bad
}

// find returns the rows that a viewer wants to see.
// text is what a row is found by.
func find[T any](rows []row[T], q tableQuery, text func(*T) string, show func(row[T], string) bool) table[T] {
	words := strings.Fields(q.search)
	var found []row[T]
	for _, r := range rows {
		if (q.show == "" || show(r, q.show)) && (len(words) == 0 || hasAll(strings.ToLower(text(r.of)), words)) {
			found = append(found, r)
		}
	}
	t := table[T]{Rows: []shown[T]{}, All: len(rows), Matching: len(found), Pages: max(1, (len(found)+Rows-1)/Rows)}
	t.Page = min(q.page, t.Pages)
	first := (t.Page - 1) * Rows
	for _, r := range found[first:min(first+Rows, len(found))] {
		t.Rows = append(t.Rows, shown[T]{r.of, r.severity})
	}
	return t
}

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// sections returns what a viewer wants to see of the world, by section of the page.
func (w *World) sections(q query) map[string]any {
	clusters := rowsOf(w, "clusters", w.Clusters, (*Cluster).severity, clusterOrders, q["clusters"].sort)
	services := rowsOf(w, "services", w.Services, (*Service).severity, serviceOrders, q["services"].sort)
	streams := rowsOf(w, "streams", w.Streams, func(*Stream) int { return 0 }, streamOrders, q["streams"].sort)
	happened := rowsOf(w, "events", w.Events, func(*adminapi.Event) int { return 0 }, eventOrders, "")
	return map[string]any{
		"summary":  w.summary(clusters, services),
		"clusters": find(clusters, q["clusters"], (*Cluster).text, showProblems),
		"services": find(services, q["services"], (*Service).text, showService),
		"streams":  find(streams, q["streams"], (*Stream).text, func(r row[Stream], show string) bool { return r.of.Method == show }),
		"events":   find(happened, q["events"], eventText, func(r row[adminapi.Event], show string) bool { return string(r.of.Kind) == show }),
	}
}

func eventText(e *adminapi.Event) string { return e.Object + "\n" + e.Text + "\n" + string(e.Kind) }

func showProblems[T any](r row[T], show string) bool { return show != "problems" || r.severity > 0 }

func showService(r row[Service], show string) bool {
	if show == "problems" {
		return r.severity > 0
	}
	return r.of.Kind == show
}

// summary is the page's first lines.
type summary struct {
	Gateway    Gateway        `json:"gateway"`
	Clusters   map[string]int `json:"clusters"` // by state
	TakenOut   int            `json:"takenOut"` // clusters that are not in service
	Services   int            `json:"services"`
	Troubled   int            `json:"troubled"` // services with problems
	Unserved   int            `json:"unserved"` // of these, that get nothing
	Streams    int            `json:"streams"`
	Views      int            `json:"views"`
	MostEvents int            `json:"mostEvents"`
}

func (w *World) summary(clusters []row[Cluster], services []row[Service]) summary {
	s := summary{Gateway: w.Gateway, Clusters: make(map[string]int), Services: len(services), Views: len(w.Streams), MostEvents: events.Most}
	for _, c := range clusters {
		s.Clusters[c.of.State]++
		if c.of.Standing != "" && c.of.Standing != "in-service" {
			s.TakenOut++
		}
	}
	for _, r := range services {
		if r.severity >= 2 {
			s.Troubled++
		}
		if r.severity >= 3 {
			s.Unserved++
		}
	}
	for _, one := range w.Streams {
		s.Streams += one.Streams
	}
	return s
}
