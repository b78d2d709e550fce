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

const (
	maxExplains  = 1                // made at once: two would keep twice as much in memory
	explainLimit = 10 * time.Second // of one
	explainWait  = 10 * time.Second // for a turn, after pageWait for being one of maxExplainClients
	maxExplained = 500              // addresses that a page lists

	// maxExplainClients is how many requests there may be at once, with those whose answer is
	// made and not taken: each has up to maxKept.
	maxExplainClients = 8
)

// explainer answers /debug/explain.
type explainer struct {
	authorities authorities
	explain     func(context.Context, grpcapi.Question) (*grpcapi.Explanation, error)
	clusters    func() map[federation.ClusterName]cluster.Status
	problems    func(federation.ServiceID) []string

	making *limiter // of answers; a client that takes its own slowly keeps no other one waiting
}

// handler returns the page's handler.
func (x *explainer) handler() http.Handler {
	x.making = newLimiter(maxExplains, explainWait, 0)
	clients := newLimiter(maxExplainClients, pageWait, explainWait+explainLimit+pageTake)
	return clients.limit(http.HandlerFunc(x.serve))
}

func (x *explainer) serve(w http.ResponseWriter, r *http.Request) {
	q, err := x.question(r.URL.Query())
	if err != nil {
		http.Error(w, printable(err.Error()), http.StatusBadRequest)
		return
	}
	end, ok := x.making.turn(w, r)
	if !ok {
		return
	}
	page, err := x.page(r.Context(), q)
	end()
	switch {
	case status.Code(err) == codes.InvalidArgument:
		http.Error(w, printable(status.Convert(err).Message()), http.StatusBadRequest)
	case err != nil:
		http.Error(w, printable(status.Convert(err).Message()), http.StatusServiceUnavailable)
	case !page.small():
		http.Error(w, "the answer has too long texts to be made: ask for one address, by address=10.0.0.1", http.StatusInsufficientStorage)
	default:
		page.serve(w)
	}
}

// page answers a question.
func (x *explainer) page(ctx context.Context, q grpcapi.Question) (encodedPage, error) {
	ctx, cancel := context.WithTimeout(ctx, explainLimit)
	defer cancel()
	answer, err := x.explain(ctx, q)
	if err != nil {
		return encodedPage{}, err
	}
	return encodePage(newExplainPage(answer, x.clusters(), x.problems(answer.Service))), nil
}

// question reads what is asked.
func (x *explainer) question(asked url.Values) (grpcapi.Question, error) {
	q := grpcapi.Question{Token: asked.Get("token"), Limit: maxExplained}
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
