package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"isthmus/clusterstore/budget"
	"isthmus/clusterstore/check"
	"isthmus/clusterstore/cluster"
	"isthmus/federation"
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

// checkLinks reports the state and the standing of each cluster.
func (g *checked) checkLinks(report *check.Report) {
	report.Add(linkResult(federation.Local.String(), g.here.Status().Status))
	for _, l := range g.store.Status() {
		if l.State != cluster.Rejected { // those are reported with their Secrets
			report.Add(linkResult(l.Cluster.String(), l.Status))
		}
		if l.Network != "" && (l.State == cluster.Ready || l.State == cluster.Stale) {
			report.Add(gatewaysResult(l.Cluster.String(), l.Status))
		}
	}
}

// moreMemory is what to do for a cluster that needs more memory.
const moreMemory = "raise --cluster-memory, and the gateway's memory limit with it"

func linkResult(name string, s cluster.Status) check.Result {
	x := check.Result{Section: check.SectionLinks, Check: check.LinkState, Object: name, Level: check.OK, Text: "it is " + string(s.State)}
	if s.Reason != "" {
		x.Text += ": " + s.Reason
	}
	over := strings.Contains(s.Reason, budget.ErrOver.Error())
	switch {
	case s.State == cluster.Ready && s.Memory.Near():
		x.Level = check.Warning
		x.Text += fmt.Sprintf(", and takes %d %% of the memory that a linked cluster may take", 100*s.Memory.Used/s.Memory.Limit)
		x.Hint = moreMemory + ": beyond its budget a cluster is stale"
	case s.State == cluster.Ready:
	case over:
		x.Level, x.Hint = check.Failure, "see what it has so much of: isthmus clusters; if it is to be so large, "+moreMemory
	case s.State == cluster.Pending:
		x.Level, x.Hint = check.Warning, "it has just been linked: wait, for half a minute at most"
	default:
		x.Level, x.Hint = check.Failure, "see the checks of its API server and of rights; isthmus clusters shows what can't be read, and since when"
	}
	if s.Standing != federation.InService.String() && x.Level == check.OK && s.StandingReason != cluster.NoGatewayAnswers {
		x.Level, x.Text = check.Warning, fmt.Sprintf("it is ready and %s: %s", s.Standing, s.StandingReason)
		x.Hint = "if that is not wanted any more: isthmus uncordon " + name
	}
	return x
}

// gatewaysResult reports whether a cluster on another network can be reached.
func gatewaysResult(name string, s cluster.Status) check.Result {
	x := check.Result{Section: check.SectionLinks, Check: check.Gateways, Object: name, Level: check.OK, Text: fmt.Sprintf("it is on network %s, and has %d gateway addresses", s.Network, len(s.Gateways))}
	usable := slices.DeleteFunc(slices.Clone(s.Gateways), func(g cluster.GatewayStatus) bool { return g.State == cluster.GatewayOutside })
	var dead []string
	for _, g := range usable {
		if g.State == cluster.GatewayDead {
			dead = append(dead, fmt.Sprintf("%s (%s)", g.Address, g.Reason))
		}
	}
	problems := slices.Clone(s.GatewayProblems)
	switch {
	case len(usable) == 0:
		x.Level, x.Text = check.Failure, "no gateway of it can be used"
		x.Hint = "give the gateway's Service there what Linkerd's multicluster chart does (an address of a load balancer, a port mc-gateway, the annotation mirror.linkerd.io/gateway-identity), " +
			"or name gateways on the link Secret by isthmus.io/gateway-addresses and isthmus.io/gateway-identity, within its isthmus.io/address-ranges if it has these"
	case len(dead) > 0:
		problems = append([]string{"gateways that do not answer probes: " + strings.Join(dead, ", ")}, problems...)
		x.Hint = "see that the gateway's Pods run, and that its ports mc-gateway and mc-probe can be reached from here"
		x.Level, x.Text = check.Warning, fmt.Sprintf("%d of %d gateway addresses are dead", len(dead), len(usable))
		if len(dead) == len(usable) {
			x.Level, x.Text = check.Failure, "none of its gateways answers: it is served only where a service has no other endpoint"
		}
	case len(problems) > 0:
		x.Level, x.Hint = check.Warning, "correct that at the gateway's Service in that cluster, or on the link Secret: isthmus clusters shows each address"
	}
	if len(problems) > 0 {
		x.Text += "; " + strings.Join(problems, "; ")
	}
	return x
}

// memberPorts returns the ports of a member's Service; nil: it is not known.
func (g *checked) memberPorts(m federation.Member) *cluster.Service {
	if m.Cluster == federation.Local {
		return g.here.Service(m.Service)
	}
	if c, state := g.store.Followed(m.Cluster); c != nil && (state == cluster.Ready || state == cluster.Stale) {
		return c.Service(m.Service)
	}
	return nil
}
