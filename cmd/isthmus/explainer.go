package main

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/grpcapi"
)

const (
	maxExplains  = 1                // made at once: two would keep twice as much in memory
	explainLimit = 10 * time.Second // of one
	explainWait  = 10 * time.Second // for a turn, after pageWait for being one of maxExplainClients
	maxExplained = 500              // addresses that a page lists

	// maxExplainClients is how many requests there may be at once, with those whose answer is
	// made and not taken: each has up to maxKept.
	maxExplainClients = 8
)

// explainHandler returns what answers /debug/explain.
func (p *pages) explainHandler() http.Handler {
	making := newLimiter(maxExplains, explainWait, 0) // a client that takes its answer slowly keeps no other one waiting
	clients := newLimiter(maxExplainClients, pageWait, explainWait+explainLimit+pageTake)
	return clients.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serveExplain(w, r, making) }))
}

func (p *pages) serveExplain(w http.ResponseWriter, r *http.Request, making *limiter) {
	q, err := p.question(r.URL.Query())
	if err != nil {
		http.Error(w, printable(err.Error()), http.StatusBadRequest)
		return
	}
	end, ok := making.turn(w, r)
	if !ok {
		return
	}
	page, err := p.explanationInTurn(r.Context(), q, end)
	switch {
	case status.Code(err) == codes.InvalidArgument:
		http.Error(w, printable(status.Convert(err).Message()), http.StatusBadRequest)
	case status.Code(err) == codes.ResourceExhausted: // a limit, which time alone does not change
		http.Error(w, printable(status.Convert(err).Message()), http.StatusInsufficientStorage)
	case err != nil:
		http.Error(w, printable(status.Convert(err).Message()), http.StatusServiceUnavailable)
	case len(page.text) > maxKept:
		http.Error(w, "the answer has too long texts to be made: ask for one address, by address=10.0.0.1", http.StatusInsufficientStorage)
	default:
		page.serve(w)
	}
}

// explanationInTurn answers a question and then ends the turn, also if answering panics. The
// turn does not include sending the answer.
func (p *pages) explanationInTurn(ctx context.Context, q grpcapi.Question, end func()) (encodedPage, error) {
	defer end()
	return p.explanation(ctx, q)
}

// explanation answers a question.
func (p *pages) explanation(ctx context.Context, q grpcapi.Question) (encodedPage, error) {
	ctx, cancel := context.WithTimeout(ctx, explainLimit)
	defer cancel()
	answer, err := p.streams.Explain(ctx, q)
	if err != nil {
		return encodedPage{}, err
	}
	problems := slices.Clone(p.here.ProblemsOf(answer.Service))
	if problem := p.here.ProfileProblem(answer.Service, answer.Namespace); problem != "" {
		problems = append(problems, problem)
	}
	return encodePage(newExplainPage(answer, p.statusByCluster(), problems, p.failuresOf(answer.Service))), nil
}

// question reads what is asked.
func (p *pages) question(asked url.Values) (grpcapi.Question, error) {
	q := grpcapi.Question{Token: asked.Get("token"), Limit: maxExplained}
	if asked.Get("authority") == "" {
		return q, errors.New(`authority is missing: ask for /debug/explain?authority=web.shop.svc.cluster.local:80, with token={"ns":"shop","nodeName":"node-1"} for a client there, and address=10.0.0.1 for one address`)
	}
	var err error
	if q.Authority, err = p.authority(asked.Get("authority")); err != nil {
		return q, err
	}
	if text := asked.Get("address"); text != "" {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" {
			return q, errors.New("address is no IP address, such as 10.0.0.1")
		}
		q.Addr = ip.Unmap()
	}
	return q, nil
}
