package cases

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
)

// action runs a command of a case.
type action func(context.Context, *run) error

const (
	settleTime = 300 * time.Millisecond
	maxSteps   = 100_000 // maximum number of steps in a case, including repetitions
)

func parseSettle(_ *parser, args []string) (action, error) {
	d := settleTime
	if len(args) == 1 {
		var err error
		if d, err = duration(args[0]); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, _ *run) error { return harness.Pause(ctx, d) }, nil
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration", text)
	}
	return d, nil
}

func parseRepeat(p *parser, args []string) (action, error) {
	n, err := strconv.Atoi(args[0])
	const limit = 10_000
	if err != nil || n < 0 || n > limit {
		return nil, fmt.Errorf("%q is not a number from 1 to %d", args[0], limit)
	}
	if p.depth == 3 {
		return nil, fmt.Errorf("repeated sections are nested too deeply")
	}
	outer := p.index
	p.depth++
	defer func() { p.depth--; p.index = outer }()
	for i := range n {
		p.index = strconv.Itoa(i)
		s, err := p.section(args[1])
		if err != nil {
			return nil, err
		}
		before := len(p.errs)
		p.script(s.text, s.line)
		if len(p.errs) > before {
			break // all repetitions have the same mistakes
		}
		if len(p.c.steps) > maxSteps {
			return nil, fmt.Errorf("the case has more than %d commands", maxSteps)
		}
	}
	return nil, nil
}

func parseSubscribe(kind proxy.Kind) func(*parser, []string) (action, error) {
	return func(p *parser, args []string) (action, error) {
		p.streams[args[0]] = true
		token := ""
		if len(args) == 3 {
			token = args[2]
		}
		return func(ctx context.Context, r *run) error { return subscribe(ctx, r, kind, args[0], args[1], token) }, nil
	}
}

// onStream returns a parser for commands whose only argument is the id of a stream.
func onStream(do func(*stream, context.Context) error) func(*parser, []string) (action, error) {
	return func(_ *parser, args []string) (action, error) {
		return func(ctx context.Context, r *run) error { return do(r.streams[args[0]], ctx) }, nil
	}
}

func parseExpect(p *parser, args []string) (action, error) {
	want, err := p.jsonSection(args[1])
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].expect(ctx, want) }, err
}

func parseExpectAddrs(p *parser, args []string) (action, error) {
	want, err := addresses(args[1:])
	slices.SortFunc(want, netip.AddrPort.Compare)
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].expectAddrs(ctx, want) }, err
}

func parseFirst(p *parser, args []string) (action, error) {
	kinds := []string{"add", "remove", "no_endpoints(true)", "no_endpoints(false)", "profile"}
	if !slices.Contains(kinds, args[1]) {
		return nil, fmt.Errorf("%q is not one of %q", args[1], kinds)
	}
	want, err := addresses(args[2:])
	slices.SortFunc(want, netip.AddrPort.Compare)
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].first(ctx, args[1], want) }, err
}

func parseExpectError(p *parser, args []string) (action, error) {
	code, ok := codeByName(args[1])
	if !ok {
		return nil, fmt.Errorf("%q is not a gRPC code", args[1])
	}
	text := ""
	if len(args) == 3 {
		text = args[2]
	}
	message, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].expectError(ctx, code, message) }, nil
}

func codeByName(name string) (codes.Code, bool) {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if c.String() == name {
			return c, true
		}
	}
	return 0, false
}

func parseNoFlap(p *parser, args []string) (action, error) {
	addrs, err := addresses(args[1:])
	return func(_ context.Context, r *run) error { return r.streams[args[0]].Flapped(addrs...) }, err
}

func parseQuiet(p *parser, args []string) (action, error) {
	d, err := duration(args[1])
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].quiet(ctx, d) }, err
}

func parseRestart(p *parser, args []string) (action, error) {
	return func(ctx context.Context, r *run) error { return r.restartGateway(ctx, args) }, nil
}

func parseFault(command string) func(*parser, []string) (action, error) {
	return func(p *parser, args []string) (action, error) {
		return func(ctx context.Context, r *run) error { return r.fault(ctx, command, args[0]) }, nil
	}
}

// clusterNames lists the clusters that a case can use. The first one is the replica's local
// cluster.
var clusterNames = []string{"west", "east", "north"}

func knownCluster(name string) error {
	if !slices.Contains(clusterNames, name) {
		return fmt.Errorf("%q is not one of the clusters %q", name, clusterNames)
	}
	return nil
}
