package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

const (
	listFor     = time.Second // minimum lifetime of a snapshot
	listRestFor = 50          // lifetime as a multiple of the time to compute a snapshot
)

// listHandler handles requests with view=list for /debug/clusters, /debug/services, /debug/streams
// and /debug/events. The responses are the lists that the web page shows. The handler searches,
// sorts and truncates the rows of a list. All clients share one snapshot.
type listHandler struct {
	snapshots *shared[*listSnapshot]
}

func newListHandler(content func() listContent) *listHandler {
	make := func() *listSnapshot { return newListSnapshot(content()) }
	return &listHandler{newShared(listFor, listRestFor, make)}
}

// pageOrList returns a handler that serves the given page, or the corresponding list if the query
// contains view=list. The last element of the URL path is the name of the list.
func (l *listHandler) pageOrList(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch view := r.URL.Query().Get("view"); view {
		case "":
			page.ServeHTTP(w, r)
		case "list":
			l.serve(w, r)
		default:
			http.Error(w, fmt.Sprintf("view is %.20q: use view=list, or omit view to get the whole page", view),
				http.StatusBadRequest)
		}
	})
}

func (l *listHandler) serve(w http.ResponseWriter, r *http.Request) {
	list := path.Base(r.URL.Path)
	q, err := parseListQuery(list, r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m := l.snapshots.get()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, m.number)) // the same for all lists, because queries differ in their URL
	if r.Header.Get("If-None-Match") == w.Header().Get("ETag") {
		w.WriteHeader(http.StatusNotModified) // before the response is computed
		return
	}
	answer, err := m.value.answer(list, q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(answer))
}

// maxShownText is the maximum length of a string in a list, in bytes. The pages /debug/clusters and
// /debug/services contain the full strings.
const maxShownText = 500

func shown(s string) string { return text.Clean(s, maxShownText) }

func shownAll(texts []string) []string {
	return text.CleanAll(text.First(texts, 5), maxShownText)
}

type listContent struct {
	replica   adminapi.Replica
	clusters  []adminapi.Cluster // includes unused link Secrets; the local cluster has a name and no Secret
	services  []adminapi.ServiceLine
	streams   []adminapi.View
	events    []adminapi.Event // newest first
	maxEvents int              // size of the event log
}

func newListContent(from *Sources) listContent {
	views := from.Streams.Views()
	clusters := clustersHandler{from}.list()
	return listContent{
		replica:   from.Replica(),
		clusters:  clusters,
		services:  servicesHandler{from}.list(views, clusters),
		streams:   streamsHandler{from}.list(views),
		events:    from.Events.Newest(),
		maxEvents: maxEvents,
	}
}

// listSnapshot answers queries about a listContent. Callers must not modify the listContent. A
// listSnapshot caches sort orders, but not the results of queries. A listSnapshot is safe for
// concurrent use.
type listSnapshot struct {
	lists map[string]func(listQuery) (any, error) // by name
}

// newListSnapshot returns a listSnapshot of c, and sets the severities of the services in c.
func newListSnapshot(c listContent) *listSnapshot {
	clusters, inClusters := newClusterLines(&c)
	inServices := newServiceList(c.services)
	inStreams := adminapi.StreamList{}
	for _, v := range c.streams {
		inStreams.Streams += v.Streams
	}
	inEvents := adminapi.EventList{Most: c.maxEvents}

	return &listSnapshot{map[string]func(listQuery) (any, error){
		"clusters": finder(&clusterLines, clusters, inClusters,
			func(a *adminapi.ClusterList) *adminapi.List[adminapi.ClusterLine] { return &a.List }),
		"services": finder(&serviceLines, c.services, inServices,
			func(a *adminapi.ServiceList) *adminapi.List[adminapi.ServiceLine] { return &a.List }),
		"streams": finder(&streamLines, c.streams, inStreams,
			func(a *adminapi.StreamList) *adminapi.List[adminapi.View] { return &a.List }),
		"events": finder(&eventLines, c.events, inEvents,
			func(a *adminapi.EventList) *adminapi.List[adminapi.Event] { return &a.List }),
	}}
}

// finder returns a search function for a list. The result of a search contains the totals and the
// rows that match the query.
func finder[T, A any](
	k *lineKind[T],
	lines []T,
	totals A,
	in func(*A) *adminapi.List[T],
) func(listQuery) (any, error) {
	all := newList(k, lines)
	return func(q listQuery) (any, error) {
		answer := totals
		var err error
		*in(&answer), err = all.find(q)
		return answer, err
	}
}

// answer returns, as JSON, the rows that match q in the given list: clusters, services, streams or
// events.
func (s *listSnapshot) answer(list string, q listQuery) ([]byte, error) {
	find := s.lists[list]
	if find == nil {
		return nil, fmt.Errorf("there is no list of %s", list)
	}
	found, err := find(q)
	if err != nil {
		return nil, err
	}
	answer, err := json.Marshal(found)
	if err != nil {
		return nil, fmt.Errorf("list of %s: %w", list, err)
	}
	return answer, nil
}

const (
	maxLines     = 500 // of a response
	defaultLines = 50
	maxSearch    = 400 // in bytes; enough for 100 characters of any script
)

type listQuery struct {
	search string // words in lower case that the text of a line must contain
	sort   string // name of an order; empty for the first order of the list
	show   string // name of a subset of the lines; empty for all lines
	page   int    // from 1; a page beyond the last page means the last page
	limit  int    // lines per page
}

// emptySnapshot is a snapshot without rows, and is used to validate queries. Whether a query is
// valid does not depend on the rows of the snapshot.
var emptySnapshot = newListSnapshot(listContent{})

// parseListQuery parses the query parameters q, sort, show, page and limit for the given list:
// clusters, services, streams or events.
func parseListQuery(list string, v url.Values) (listQuery, error) {
	q := listQuery{search: strings.ToLower(v.Get("q")), sort: v.Get("sort"), show: v.Get("show")}
	if len(q.search) > maxSearch {
		return q, fmt.Errorf("q has %d bytes: use at most %d", len(q.search), maxSearch)
	}
	var err error
	q.page, err = queryNumber(v, "page", 1, 1_000_000)
	if err != nil {
		return q, err
	}
	q.limit, err = queryNumber(v, "limit", defaultLines, maxLines)
	if err != nil {
		return q, err
	}
	_, err = emptySnapshot.answer(list, q)
	return q, err
}

// queryNumber parses a numeric query parameter, which must be between 1 and the given maximum. If
// the parameter is missing, queryNumber returns the fallback value.
func queryNumber(v url.Values, name string, fallback, maximum int) (int, error) {
	text := v.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maximum {
		return 0, fmt.Errorf("%s is %.20q: use a number from 1 to %d", name, text, maximum)
	}
	return n, nil
}

type choices[V any] []choice[V]

type choice[V any] struct {
	name  string
	value V
}

// get returns the value with the given name, or the first value if name is empty. Errors contain
// the name of the query parameter.
func (n choices[V]) get(parameter, name string) (V, error) {
	var names []string
	for _, one := range n {
		if name == "" || name == one.name {
			return one.value, nil
		}
		if one.name != "" {
			names = append(names, one.name)
		}
	}
	var none V
	return none, fmt.Errorf("%s is %.20q: use %s", parameter, name, strings.Join(names, ", "))
}

type list[T any] struct {
	lines  []T
	kind   *lineKind[T]
	orders choices[func() []int] // indices of lines; each order is computed on first use
	texts  func() []string       // texts of lines, in lower case; computed on the first search
}

type lineKind[T any] struct {
	text  func(*T) string
	parts choices[func(*T) bool]     // subsets that can be shown; nil for all lines only
	order choices[func(a, b *T) int] // nil for the existing order
}

func newList[T any](k *lineKind[T], lines []T) list[T] {
	l := list[T]{lines: lines, kind: k}
	l.texts = sync.OnceValue(func() []string {
		texts := make([]string, len(lines))
		for i := range lines {
			texts[i] = strings.ToLower(k.text(&lines[i]))
		}
		return texts
	})
	for _, by := range k.order {
		order := sync.OnceValue(func() []int { return sorted(lines, by.value) })
		l.orders = append(l.orders, choice[func() []int]{by.name, order})
	}
	return l
}

// sorted returns the indices of the given lines, ordered by the comparison function. Without a
// comparison function, the indices are in ascending order.
func sorted[T any](lines []T, order func(a, b *T) int) []int {
	all := make([]int, len(lines))
	for i := range all {
		all[i] = i
	}
	if order != nil {
		slices.SortFunc(all, func(a, b int) int { return order(&lines[a], &lines[b]) })
	}
	return all
}

func (l *list[T]) find(q listQuery) (adminapi.List[T], error) {
	var none adminapi.List[T]
	order, err := l.orders.get("sort", q.sort)
	if err != nil {
		return none, err
	}
	part, err := l.kind.parts.get("show", q.show)
	if err != nil {
		return none, err
	}
	words := strings.Fields(q.search)
	var texts []string
	if len(words) > 0 {
		texts = l.texts()
	}
	found := order()
	if part != nil || len(words) > 0 {
		all := found
		found = nil
		for _, i := range all {
			if (part == nil || part(&l.lines[i])) && (len(words) == 0 || hasAll(texts[i], words)) {
				found = append(found, i)
			}
		}
	}
	return l.cut(found, q), nil
}

func (l *list[T]) cut(found []int, q listQuery) adminapi.List[T] {
	answer := adminapi.List[T]{
		All:      len(l.lines),
		Matching: len(found),
		Pages:    max(1, (len(found)+q.limit-1)/q.limit),
		Lines:    []T{},
	}
	answer.Page = min(q.page, answer.Pages)
	first := (answer.Page - 1) * q.limit
	for _, i := range found[first:min(first+q.limit, len(found))] {
		answer.Lines = append(answer.Lines, l.lines[i])
	}
	return answer
}

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
