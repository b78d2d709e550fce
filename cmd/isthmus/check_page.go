package main

import (
	"context"
	"net/http"
	"time"

	"isthmus/clusterstore/check"
)

const (
	checkKept = 10 * time.Second            // for so long a result is good for further requests
	checkWait = check.Limit + 5*time.Second // for a turn, and for checks that another request has begun
)

// checkPage is /debug/check: what is right and wrong with what the gateway needs, as the
// gateway finds it from its own network.
type checkPage struct {
	Version string         `json:"version"` // of the gateway
	Replica string         `json:"replica"` // its name in the Lease
	Leading bool           `json:"leading"` // it writes EndpointSlices
	At      time.Time      `json:"at"`      // when API servers were asked
	Results []check.Result `json:"results"`
}

// checker answers /debug/check. One request has API servers asked; others that come meanwhile,
// and for checkKept after that, get what it finds. What the gateway knows by itself is new in
// each answer.
type checker struct {
	ask  func(context.Context) []check.Result // fixed
	page func([]check.Result) checkPage       // fixed
	slot chan struct{}                        // has an element while the rest is used

	last []check.Result
	at   time.Time // of last
}

func newChecker(g *checked) *checker {
	return &checker{ask: g.ask, page: g.page, slot: make(chan struct{}, 1)}
}

func (c *checker) handler() http.Handler {
	return newTurns(maxPages, checkWait, pageTake).limit(http.HandlerFunc(c.serve))
}

func (c *checker) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), checkWait)
	defer cancel()
	answers, at, ok := c.answers(ctx)
	if !ok {
		http.Error(w, "other checks are under way, and take their time: try again", http.StatusServiceUnavailable)
		return
	}
	page := c.page(answers)
	page.At = at
	w.Header().Set("X-Content-Type-Options", "nosniff")
	servePage(w, page)
}

// answers returns what API servers have answered, and when, or false if the context ends first.
func (c *checker) answers(ctx context.Context) ([]check.Result, time.Time, bool) {
	select {
	case c.slot <- struct{}{}:
	case <-ctx.Done():
		return nil, time.Time{}, false
	}
	defer func() { <-c.slot }()
	if !c.at.IsZero() && time.Since(c.at) < checkKept {
		return c.last, c.at, true
	}
	found := c.ask(ctx)
	if ctx.Err() != nil { // it was cut short
		return nil, time.Time{}, false
	}
	c.last, c.at = found, time.Now()
	return c.last, c.at, true
}

// ask asks the API servers.
func (g *checked) ask(ctx context.Context) []check.Result {
	config := g.config
	config.Links = g.store.Accesses()
	config.Network = g.store.Network()
	listed, err := g.store.SecretsListed()
	if config.LinksErr = err; !listed && err == nil {
		config.LinksErr = errNotListed
	}
	return check.Run(ctx, config)
}

// page adds what the gateway knows to what API servers have answered.
func (g *checked) page(answers []check.Result) checkPage {
	page := checkPage{Version: ownBuild().Version}
	report := new(check.Report)
	g.checkLinks(report)
	g.checkServices(report)
	if g.writer.Writer != nil {
		status := g.writer.Status()
		page.Replica, page.Leading = status.Identity, status.Leading
		checkWriter(report, status)
	}
	page.Results = check.Sorted(answers, report.Results())
	return page
}
