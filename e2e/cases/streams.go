package cases

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"isthmus/e2e/proxy"
)

type stream struct {
	*proxy.Stream
	conn *grpc.ClientConn
	kind proxy.Kind
	life context.Context // context of the case, which limits the call
	wait time.Duration   // timeout of expectations
}

// subscribe opens a stream on a new connection. It closes an earlier stream with the same id.
func subscribe(ctx context.Context, r *run, kind proxy.Kind, id, authority, token string) error {
	if old := r.streams[id]; old != nil {
		for _, f := range old.Snapshot().Faults {
			r.faults = append(r.faults, fmt.Sprintf("stream %s, before it was reopened, received: %v", id, f))
		}
		old.end()
	}
	conn, err := proxy.Dial(r.runner.env.Gateway.Addr())
	if err != nil {
		return err
	}
	s := &stream{
		Stream: proxy.NewStream(proxy.Config{Conn: conn, Kind: kind, Authority: authority, Token: token}),
		conn:   conn, kind: kind, life: r.life, wait: r.runner.opt.Timeout,
	}
	r.streams[id] = s
	return s.open(ctx)
}

// open waits for the connection before it makes the call, so that the time to the first message
// does not include the connection.
func (s *stream) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s.conn.ResetConnectBackoff()
	s.conn.Connect()
	for state := s.conn.GetState(); state != connectivity.Ready; state = s.conn.GetState() {
		if !s.conn.WaitForStateChange(ctx, state) {
			break // the call will return the error
		}
		if s.conn.GetState() == connectivity.Idle {
			s.conn.Connect()
		}
	}
	return s.Open(s.life)
}

func (s *stream) end() {
	s.Close()
	_ = s.conn.Close() // only fails if the connection is already closed
}

func (s *stream) reconnect(ctx context.Context) error {
	s.Close()
	return s.open(ctx)
}

func (s *stream) close(context.Context) error   { s.Close(); return nil }
func (s *stream) stall(context.Context) error   { s.Stall(); return nil }
func (s *stream) unstall(context.Context) error { s.Unstall(); return nil }
func (s *stream) mark(context.Context) error    { s.Mark(); return nil }

// closedError explains why a stream is not open. It returns nil for an open stream.
func closedError(snap proxy.Snapshot) error {
	switch snap.Phase {
	case proxy.Open:
		return nil
	case proxy.Ended:
		return fmt.Errorf("the stream ended with %s", ended(snap))
	default:
		return errors.New("the stream is closed")
	}
}

func ended(snap proxy.Snapshot) string {
	s := status.Convert(snap.Err)
	if s.Message() == "" {
		return s.Code().String()
	}
	return fmt.Sprintf("%s: %s", s.Code(), s.Message())
}

// holds waits until the stream is open and check succeeds for long enough.
func (s *stream) holds(ctx context.Context, check func(proxy.Snapshot) error) error {
	return eventually(ctx, wait{limit: s.wait, hold: holdTime, changed: s.Changed}, func() (int64, error) {
		snap := s.Snapshot()
		err := check(snap)
		if closed := closedError(snap); closed != nil {
			return snap.Messages, final{errors.Join(closed, err)}
		}
		return snap.Messages, err
	})
}

func (s *stream) expect(ctx context.Context, want any) error {
	return s.holds(ctx, func(snap proxy.Snapshot) error {
		got, err := snap.JSON()
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("the state differs (- want, + got):\n%s", jsonDiff(want, got))
		}
		return nil
	})
}

func (s *stream) expectAddrs(ctx context.Context, want []netip.AddrPort) error {
	if s.kind != proxy.Get {
		return errors.New("only a Get stream has addresses")
	}
	return s.holds(ctx, func(snap proxy.Snapshot) error { return sameAddrs(snap.Get.Addrs(), want) })
}

func sameAddrs(got, want []netip.AddrPort) error {
	if slices.Equal(got, want) {
		return nil
	}
	var missing, surplus []string
	for _, a := range want {
		if !slices.Contains(got, a) {
			missing = append(missing, a.String())
		}
	}
	for _, a := range got {
		if !slices.Contains(want, a) {
			surplus = append(surplus, a.String())
		}
	}
	return fmt.Errorf("the addresses differ: found %d, expected %d\n  missing: %s\n  surplus: %s",
		len(got), len(want), strings.Join(missing, " "), strings.Join(surplus, " "))
}

// firstMessage waits for the first message of the current call. If the snapshot contains no
// message, the call ended before the first message.
func (s *stream) firstMessage(ctx context.Context, limit time.Duration) (snap proxy.Snapshot, err error) {
	err = eventually(ctx, wait{limit: limit, changed: s.Changed}, func() (int64, error) {
		snap = s.Snapshot()
		if snap.First == nil && snap.Phase == proxy.Open {
			return 0, errors.New("no message received")
		}
		return 0, nil
	})
	return snap, err
}

func (s *stream) first(ctx context.Context, kind string, want []netip.AddrPort) error {
	snap, err := s.firstMessage(ctx, s.wait)
	if err != nil {
		return err
	}
	m := snap.First
	if m == nil {
		return errors.Join(errors.New("no message received"), closedError(snap))
	}
	if m.Kind != kind {
		return fmt.Errorf("the first message is %s", m)
	}
	if took := m.At.Sub(snap.Opened); took > proxy.FirstMessageLimit {
		return fmt.Errorf("the first message was received after %v", took)
	}
	if len(want) == 0 {
		return nil
	}
	got := slices.Clone(m.Addrs)
	slices.SortFunc(got, netip.AddrPort.Compare)
	if err := sameAddrs(got, want); err != nil {
		return fmt.Errorf("in the first message: %w", err)
	}
	return nil
}

func (s *stream) expectError(ctx context.Context, code codes.Code, message *regexp.Regexp) error {
	var snap proxy.Snapshot
	err := eventually(ctx, wait{limit: s.wait, changed: s.Changed}, func() (int64, error) {
		snap = s.Snapshot()
		switch snap.Phase {
		case proxy.Open:
			return 0, errors.New("the stream is still open")
		case proxy.Idle:
			return 0, final{errors.New("the stream was closed by this side")}
		}
		return 0, nil
	})
	if err != nil {
		return err
	}
	if s := status.Convert(snap.Err); s.Code() != code || !message.MatchString(s.Message()) {
		return fmt.Errorf("the stream ended with %s, want %s matching %q", ended(snap), code, message)
	}
	return nil
}

func (s *stream) expectMissing(ctx context.Context) error {
	snap, err := s.firstMessage(ctx, missingTime)
	if err != nil {
		return err
	}
	if m := snap.First; m != nil {
		if m.Kind != "no_endpoints(false)" {
			return fmt.Errorf("the first message is %s", m)
		}
		return nil
	}
	if snap.Phase != proxy.Ended || status.Code(snap.Err) != codes.NotFound {
		return errors.Join(errors.New("want NotFound or no_endpoints(false)"), closedError(snap))
	}
	return nil
}

// quiet checks that the stream receives nothing for d.
func (s *stream) quiet(ctx context.Context, d time.Duration) error {
	start := s.Snapshot().Messages
	return s.Stays(ctx, d, func() error {
		snap := s.Snapshot()
		if err := closedError(snap); err != nil {
			return err
		}
		if snap.Messages > start {
			recent := s.Recent()
			return fmt.Errorf("message received: %s", recent[len(recent)-1])
		}
		return nil
	})
}

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

// parseExpectCount parses: expect-count ID N..M.
func parseExpectCount(p *parser, args []string) (action, error) {
	want, err := parseAmount(args[1])
	return func(ctx context.Context, r *run) error { return r.streams[args[0]].expectCount(ctx, want) }, err
}

// expectCount waits until the number of addresses is in the range. The number may change again.
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
			return 0, fmt.Errorf("%d addresses, want %d to %d", n, want.low, want.high)
		}
		return 0, nil
	})
}

// parseParts parses: parts ID left|joined N..M.
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
			err = fmt.Errorf("addresses have %s in %d messages, want %d to %d", args[1], n, want.low, want.high)
		}
		return err
	}, err
}

// limitKey is the context key for the timeout from the within command.
type limitKey struct{}

// parseWithin parses: within DURATION EXPECTATION...
func parseWithin(p *parser, args []string) (action, error) {
	limit, err := duration(args[0])
	if err != nil {
		return nil, err
	}
	waiting := []string{
		"expect",
		"expect-addrs",
		"expect-count",
		"expect-error",
		"expect-export",
		"expect-import",
		"expect-slices",
		"expect-svc",
		"metric",
		"page",
	}
	if !slices.Contains(waiting, args[1]) {
		return nil, fmt.Errorf("%q is not one of %q", args[1], waiting)
	}
	do, err := p.command(args[1:])
	return func(ctx context.Context, r *run) error { return do(context.WithValue(ctx, limitKey{}, limit), r) }, err
}

// limitOf returns the timeout from the within command, or the usual timeout.
func limitOf(ctx context.Context, usual time.Duration) time.Duration {
	if limit, ok := ctx.Value(limitKey{}).(time.Duration); ok {
		return limit
	}
	return usual
}
