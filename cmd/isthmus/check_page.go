package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"isthmus/clusterstore/check"
	"isthmus/internal/adminapi"
)

const (
	checkKept = 10 * time.Second            // from when API servers are asked: what is found is good for further requests
	checkWait = check.Limit + 5*time.Second // for a turn, and then for what is found
)

// checker answers /debug/check. One request has API servers asked; others that come meanwhile,
// and until checkKept after that began, get what it finds, also if the first client leaves. What
// the gateway knows by itself is new in each answer.
type checker struct {
	ask  func(context.Context) []check.Result // fixed, as are the next three
	page func([]check.Result) adminapi.Check
	life context.Context // of all asking, which no request ends
	end  context.CancelFunc

	mu     sync.Mutex
	newest *asking // nil: none yet
}

// asking is one round of questions to all API servers.
type asking struct {
	began time.Time
	done  chan struct{}  // closed when it has ended
	found []check.Result // once it has ended
}

func newChecker(ask func(context.Context) []check.Result, page func([]check.Result) adminapi.Check) *checker {
	c := &checker{ask: ask, page: page}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

func (c *checker) handler() http.Handler {
	return newLimiter(maxPages, checkWait, checkWait+pageTake).limit(http.HandlerFunc(c.serve))
}

func (c *checker) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), checkWait)
	defer cancel()
	a := c.current()
	select {
	case <-a.done:
	case <-ctx.Done():
		http.Error(w, "the API servers take their time: try again", http.StatusServiceUnavailable)
		return
	}
	page := c.page(a.found)
	page.At = a.began
	encodePage(page).serve(w)
}

// current returns the newest asking, or begins another if that is old.
func (c *checker) current() *asking {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.newest; a != nil {
		select {
		case <-a.done:
			if time.Since(a.began) < checkKept {
				return a
			}
		default:
			return a
		}
	}
	a := &asking{began: time.Now(), done: make(chan struct{})}
	c.newest = a
	go func() {
		defer close(a.done)
		ctx, cancel := context.WithTimeout(c.life, check.Limit)
		defer cancel()
		a.found = c.ask(ctx)
	}()
	return a
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
func (g *checked) page(answers []check.Result) adminapi.Check {
	page := adminapi.Check{Version: ownBuild().Version}
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
