package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"isthmus/e2e/proxy"
)

// amount is a range of numbers, as a case writes it: N..M.
type amount struct{ low, high int }

func parseAmount(text string) (amount, error) {
	from, to, _ := strings.Cut(text, "..")
	low, err1 := strconv.Atoi(from)
	high, err2 := strconv.Atoi(to)
	if errors.Join(err1, err2) != nil || low < 0 || high < low {
		return amount{}, fmt.Errorf("%q is not N..M", text)
	}
	return amount{low, high}, nil
}

func (a amount) has(n int) bool { return a.low <= n && n <= a.high }

// parseExpectCount is for: expect-count ID N..M.
func parseExpectCount(p *parser, args []string) (action, error) {
	want, err := parseAmount(args[1])
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].expectCount(ctx, want) }, err
}

// expectCount waits until there are so many addresses. They need not stay so many.
func (s *stream) expectCount(ctx context.Context, want amount) error {
	if s.kind != proxy.Get {
		return errors.New("only a Get stream has addresses")
	}
	return eventually(ctx, wait{limit: s.wait, changed: s.Changed}, func() (int64, error) {
		snap := s.Snapshot()
		if err := closedError(snap); err != nil {
			return 0, final{err}
		}
		if n := snap.Get.Len(); !want.has(n) {
			return 0, fmt.Errorf("there are %d addresses, expected are %d to %d", n, want.low, want.high)
		}
		return 0, nil
	})
}

// parseParts is for: parts ID left|joined N..M.
func parseParts(p *parser, args []string) (action, error) {
	if !slices.Contains([]string{"left", "joined"}, args[1]) {
		return nil, fmt.Errorf("%q is neither left nor joined", args[1])
	}
	want, err := parseAmount(args[2])
	return func(_ context.Context, r *run) error {
		n, joined, err := r.streams[args[0]].Parts()
		if args[1] == "joined" {
			n = joined
		}
		if err == nil && !want.has(n) {
			err = fmt.Errorf("addresses have %s in %d messages, expected are %d to %d", args[1], n, want.low, want.high)
		}
		return err
	}, err
}

// limitKey is of the limit that within sets, in a context.
type limitKey struct{}

// parseWithin is for: within DURATION EXPECTATION...
func parseWithin(p *parser, args []string) (action, error) {
	limit, err := duration(args[0])
	if err != nil {
		return nil, err
	}
	waiting := []string{"expect", "expect-addrs", "expect-count", "expect-error", "expect-export", "expect-import", "expect-slices", "expect-svc", "metric", "page"}
	if !slices.Contains(waiting, args[1]) {
		return nil, fmt.Errorf("%q is none of %q", args[1], waiting)
	}
	do, err := p.command(args[1:])
	return func(ctx context.Context, r *run) error { return do(context.WithValue(ctx, limitKey{}, limit), r) }, err
}

// limitOf returns how long an expectation may take: that of within, or else the usual.
func limitOf(ctx context.Context, usual time.Duration) time.Duration {
	if limit, ok := ctx.Value(limitKey{}).(time.Duration); ok {
		return limit
	}
	return usual
}
