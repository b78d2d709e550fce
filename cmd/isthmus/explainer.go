package main

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
)

// Explaining a large service takes as much as a first stream of it, so one is explained at
// a time, not for long, and at its pace.
const (
	maxExplains  = 1                // made at once: two would keep twice as much in memory; more wait, then get 429 Too Many Requests
	explainLimit = 10 * time.Second // of one
	explainWait  = 15 * time.Second // for a turn: longer than one takes
	maxExplained = 10_000           // addresses that a page lists

	// maxExplainClients is how many requests there may be at once, with those whose answer is
	// made and not taken: each has up to maxWhole.
	maxExplainClients = 8
)

// explainer answers /debug/explain.
type explainer struct {
	authorities authorities
	explain     func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error)
	clusters    func() map[federation.ClusterName]cluster.Status
	problems    func(federation.ServiceID) []string
}

// handler returns the page's handler. Answers are made in turns, each as a whole before the
// client gets the first of it: one that takes it slowly keeps nobody else waiting.
func (x *explainer) handler() http.Handler {
	making, clients := newTurns(maxExplains, explainWait, 0), newTurns(maxExplainClients, 0, pageTake)
	for _, t := range []*turns{making, clients} {
		t.busyCode, t.busy = http.StatusTooManyRequests, "another service is being explained, and that takes its time: try again"
	}
	made := making.limit(http.HandlerFunc(x.serve))
	return clients.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &wholeAnswer{header: w.Header()}
		made.ServeHTTP(answer, r)
		answer.send(w, "the answer has too long texts to be made: ask for one address, by address=10.0.0.1")
	}))
}

func (x *explainer) serve(w http.ResponseWriter, r *http.Request) {
	q, err := x.question(r.URL.Query())
	if err != nil {
		http.Error(w, printable(err.Error()), http.StatusBadRequest)
		return
	}
	p := newPace(r.Context())
	q.Rest = p.rest
	ctx, cancel := context.WithTimeout(r.Context(), explainLimit)
	defer cancel()
	answer, err := x.explain(ctx, q)
	if err != nil {
		code := http.StatusServiceUnavailable
		if status.Code(err) == codes.InvalidArgument {
			code = http.StatusBadRequest
		}
		http.Error(w, printable(status.Convert(err).Message()), code)
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	servePaced(w, newExplainPage(answer, x.clusters(), x.problems(answer.Service)), p.rest)
}

// question reads what is asked.
func (x *explainer) question(asked url.Values) (grpcapi.Question, error) {
	q := grpcapi.Question{Token: asked.Get("token"), Most: maxExplained}
	if asked.Get("authority") == "" {
		return q, errors.New(`authority is missing: ask for /debug/explain?authority=web.shop.svc.cluster.local:80, with token={"ns":"shop","nodeName":"node-1"} for a client there, and address=10.0.0.1 for one address`)
	}
	var err error
	if q.Authority, err = x.authorities.complete(asked.Get("authority")); err != nil {
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
