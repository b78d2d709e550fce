package cases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy/destinationtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// double simulates an Isthmus replica.
type double struct {
	addr, metrics string
	sick          atomic.Bool
	restarts      []string
}

func (d *double) Addr() string        { return d.addr }
func (d *double) MetricsAddr() string { return d.metrics }
func (d *double) Log(int) string      { return "the double's log" }
func (d *double) Check(context.Context) error {
	if d.sick.Load() {
		return errors.New("the replica is unhealthy")
	}
	return nil
}

func (d *double) Halt() error {
	d.sick.Store(true)
	return nil
}

func (d *double) Restart(_ context.Context, args ...string) error {
	d.restarts = append(d.restarts, fmt.Sprint(args))
	d.sick.Store(false)
	return nil
}

// play sends updates one after the other and then waits until the client disconnects.
func play(updates ...*pb.Update) func(grpc.ServerStreamingServer[pb.Update]) error {
	return func(stream grpc.ServerStreamingServer[pb.Update]) error {
		for _, u := range updates {
			if err := stream.Send(u); err != nil {
				return err
			}
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	}
}

func newDouble(t *testing.T) *double {
	server := destinationtest.Start(t)
	server.OnGet("two", play(destinationtest.Add("10.0.0.1:80", "[fd00::1]:80")))
	server.OnGet("steps", play(
		destinationtest.Add("10.0.0.1:80"),
		destinationtest.Add("10.0.0.2:80"),
		destinationtest.Remove("10.0.0.1:80"),
	))
	server.OnGet("none", play(destinationtest.None(true)))
	server.OnGet("missing", play(destinationtest.None(false)))
	server.OnGet("silent", play())
	server.OnGet("remove-first", play(destinationtest.Remove("10.0.0.1:80"), destinationtest.None(true)))
	server.OnGet("ends", func(grpc.ServerStreamingServer[pb.Update]) error { return nil })
	server.OnGet("fails", func(grpc.ServerStreamingServer[pb.Update]) error {
		return status.Error(codes.Unavailable, "going away")
	})
	server.OnGet("busy", func(stream grpc.ServerStreamingServer[pb.Update]) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for stream.Send(destinationtest.Add("10.0.0.1:80")) == nil {
			<-tick.C
		}
		return nil
	})
	var calls atomic.Int64
	server.OnGet("changes", func(stream grpc.ServerStreamingServer[pb.Update]) error {
		return play(destinationtest.Add(fmt.Sprintf("10.0.0.%d:80", calls.Add(1))))(stream)
	})
	var swings atomic.Int64
	server.OnGet("swings", func(stream grpc.ServerStreamingServer[pb.Update]) error {
		return play(destinationtest.Add([]string{"10.0.0.1:80", "10.0.0.2:80"}[:2-swings.Add(1)%2]...))(stream)
	})
	server.OnProfile("profile", func(stream grpc.ServerStreamingServer[pb.DestinationProfile]) error {
		if err := stream.Send(&pb.DestinationProfile{FullyQualifiedName: "web", OpaqueProtocol: true}); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	})
	var ticks atomic.Int64
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "size 2\ncount{a=\"b\"} 3\ncount{a=\"c\"} 4\nticks %d\n", ticks.Add(1))
	}))
	t.Cleanup(metrics.Close)
	return &double{addr: server.Addr(), metrics: strings.TrimPrefix(metrics.URL, "http://")}
}

// runScript runs a case against a double. Expectations time out after a minute, or after two
// seconds if the case should fail.
func runScript(t *testing.T, gateway *double, script string, fails bool) (Result, []string) {
	t.Helper()
	limit := time.Minute
	if fails {
		limit = 2 * time.Second
	}
	c, err := Parse("the-case.txtar", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	var trace []string
	shell := Tool{Path: "/bin/sh", Dir: t.TempDir()} // replaces the isthmus command
	runner, err := NewRunner(Environment{Gateway: gateway, Tool: shell}, Options{
		Timeout: limit, Trace: func(line string) { trace = append(trace, line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := runner.Close(); err != nil {
			t.Error(err)
		}
	}()
	return runner.Run(t.Context(), c), trace
}

func TestStreamCommands(t *testing.T) {
	tests := []struct{ name, script, fails string }{
		{"state", "get a two\nexpect a s\n-- s --\n" +
			`{"exists": true, "endpoints": {"10.0.0.1:80": {"weight": 10000}, "[fd00::1]:80": {"weight": 10000}}}`, ""},
		{"another state", "get a two\nexpect a s\n-- s --\n" +
			`{"exists": true, "endpoints": {"10.0.0.1:80": {"weight": 1}, "[fd00::1]:80": {"weight": 10000}}}`,
			`+    "weight": 10000`},
		{
			"state before the first message",
			"get a silent\nexpect a s\n-- s --\n" + `{"exists": null, "endpoints": {}}`,
			"",
		},
		{"profile", "profile a profile\nfirst a profile\nexpect a s\nquiet a 100ms\n-- s --\n" +
			`{"fullyQualifiedName": "web", "opaqueProtocol": true}`, ""},
		{"another profile", "profile a profile\nexpect a s\n-- s --\n{}", `+  "fullyQualifiedName": "web",`},
		{"addresses", "get a two\nexpect-addrs a [fd00::1]:80 10.0.0.[1-1]:80", ""},
		{"too few addresses", "get a two\nexpect-addrs a 10.0.0.1:80", "surplus: [fd00::1]:80"},
		{"too many addresses", "get a two\nexpect-addrs a 10.0.0.[1-2]:80 [fd00::1]:80", "missing: 10.0.0.2:80"},
		{"addresses of a profile", "profile a profile\nexpect-addrs a", "only a Get stream"},
		{"an ended stream", "get a ends\nexpect-addrs a", "the stream ended with OK"},
		{
			"a closed stream",
			"get a two\nclose a\nexpect-addrs a 10.0.0.1:80 [fd00::1]:80",
			"the stream is closed",
		},
		{"first", "get a two\nfirst a add", ""},
		{"first with addresses", "get a steps\nfirst a add 10.0.0.1:80", ""},
		{"first with other addresses", "get a two\nfirst a add 10.0.0.1:80", "surplus: [fd00::1]:80"},
		{"first of another kind", "get a none\nfirst a no_endpoints(false)", "the first message is #1"},
		{"first without a message", "get a silent\nfirst a add", "no message received"},
		{"first of an ended stream", "get a fails\nfirst a add", "Unavailable: going away"},
		{"no endpoints", "get a none\nfirst a no_endpoints(true)\nexpect-addrs a", ""},
		{"error", "get a fails\nexpect-error a Unavailable 'going .*'", ""},
		{"OK", "get a ends\nexpect-error a OK", ""},
		{
			"another code",
			"get a fails\nexpect-error a NotFound",
			"ended with Unavailable: going away, want NotFound",
		},
		{"another text", "get a fails\nexpect-error a Unavailable coming", `matching "coming"`},
		{"no error", "get a two\nexpect-error a OK", "the stream is still open"},
		{"missing by code", "get a nowhere\nexpect-missing a", ""},
		{"missing by message", "get a missing\nexpect-missing a", ""},
		{"not missing", "get a none\nexpect-missing a", "the first message is #1"},
		{"missing by another code", "get a fails\nexpect-missing a", "Unavailable"},
		{"quiet", "get a two\nfirst a add\nquiet a 200ms", ""},
		{"not quiet", "get a busy\nquiet a 200ms", "message received: #"},
		{"quiet but ended", "get a ends\nexpect-error a OK\nquiet a 1ms", "the stream ended"},
		{
			"reconnect",
			"get a changes\nexpect-addrs a 10.0.0.1:80\nmark a\nclose a\nsettle 10ms\nreconnect a\nexpect-addrs a " +
				"10.0.0.2:80\nno-flap a",
			"",
		},
		{
			"reconnect with a lost endpoint",
			"get a changes\nfirst a add\nmark a\nreconnect a\nexpect-addrs a 10.0.0.2:80\nno-flap a 10.0.0.1:80",
			"absent after message #2",
		},
		{
			"flap",
			"get a steps\nfirst a add\nexpect-addrs a 10.0.0.2:80\nmark a\nno-flap a 10.0.0.1:80",
			"absent at the mark",
		},
		{"flap without mark", "get a two\nno-flap a", "no mark"},
		{"count", "get a two\nexpect-count a 1..2", ""},
		{"another count", "get a two\nexpect-count a 3..4", "2 addresses, want 3 to 4"},
		{"count of a profile", "profile a profile\nexpect-count a 0..1", "only a Get stream"},
		{"count of an ended stream", "get a ends\nexpect-count a 5..6", "the stream ended with OK"},
		{
			"parts",
			"get a swings\nfirst a add\nmark a\nreconnect a\nexpect-count a 2..2\nreconnect a\nexpect-count a 1..1\n" +
				"reconnect a\n" +
				"expect-count a 2..2\nparts a joined 2..2\nparts a left 1..1",
			"",
		},
		{
			"other parts",
			"get a steps\nmark a\nexpect-addrs a 10.0.0.2:80\nparts a joined 3..4",
			"messages, want 3 to 4",
		},
		{"parts without mark", "get a two\nparts a left 0..1", "no mark"},
		{"within", "get a two\nwithin 20s expect-addrs a 10.0.0.1:80 [fd00::1]:80", ""},
		{"not within", "get a two\nwithin 100ms expect-addrs a 10.0.0.1:80", "surplus: [fd00::1]:80"},
		{"stall", "get a two\nfirst a add\nstall a\nunstall a\nexpect-addrs a 10.0.0.1:80 [fd00::1]:80", ""},
		{"a reused id", "get a two\nfirst a add\nget a none\nfirst a no_endpoints(true)\nexpect-addrs a", ""},
		{"repeat", "repeat 3 open\nexpect-addrs s2\n-- open --\nget s$I none\n", ""},
		{"a fault", "get a remove-first\nexpect-addrs a", "stream a was sent: [a remove before any add"},
		{"metric", "metric ^size$ 2\nmetric ^count 7\nmetric 'count{a=\"b\"}' >2\nmetric nothing 0", ""},
		{"a constant metric", "metric ^size$ note\nmetric ^size$ noted", ""},
		{"a growing metric", "metric ^ticks$ note\nmetric ^ticks$ noted", "add up to"},
		{"another metric", "metric ^count >7", "2 samples match and add up to 7, want >7"},
		{"verb", "isthmus -c 'echo $ADDR; echo no >&2'\nstdout '^\\S+:\\d+\\s$'\nstderr ^no\nno-stdout no", ""},
		{"a command that fails", "isthmus -c 'exit 1'", "want exit code 0"},
		{"a command that must fail", "fails 1 -c 'exit 1'\nstdout ^$\nfails 1 -c 'exit 2'", "want exit code 1"},
		{"output without a match", "isthmus -c 'echo a'\nstdout b", `standard output does not match "b"`},
		{"output with an unwanted match", "isthmus -c 'echo a'\nno-stdout a", `standard output matches "a"`},
		{"output without a command", "stderr b", "has not run the isthmus command yet"},
		{"a command that shows a text later", "shows aaa -c 'printf a >>file; cat file'", ""},
		{"a command that never shows a text", "shows b -c 'echo a'", `does not match "b"`},
		{"no cluster", "pod west p 10.0.0.1", "no cluster west"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			result, _ := runScript(t, newDouble(t), test.script, test.fails != "")
			switch {
			case test.fails == "" && result.Err != nil:
				t.Error(result.Err)
			case test.fails != "" && (result.Err == nil || !strings.Contains(result.Err.Error(), test.fails)):
				t.Errorf("error %v, want one with %q", result.Err, test.fails)
			}
		})
	}
}

func TestFailureShowsWhatThereIsToKnow(t *testing.T) {
	result, trace := runScript(
		t,
		newDouble(t),
		"# nothing\nget a steps\nget b fails\nexpect-addrs a 10.0.0.2:80\nexpect-error a OK\n",
		true,
	)
	if result.Err == nil {
		t.Fatal("no failure")
	}
	for _, want := range []string{
		"the-case.txtar:5: expect-error a OK", "still open", "stream a (Get), open, 3 messages", "#2 ",
		"add 10.0.0.2:80", "remove 10.0.0.1:80",
		"state: 1 endpoints 10.0.0.2:80", "stream b (Get), the stream ended with Unavailable: going away",
		"the double's log",
	} {
		if !strings.Contains(result.Err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, result.Err)
		}
	}
	if len(trace) != 4 || trace[0] != "the-case.txtar:2: get a steps" {
		t.Errorf("trace %q", trace)
	}
}

// A case with flags leaves the replica stopped. The next case starts the replica without flags
// unless it begins with a restart.
func TestGatewayRestartsAreUndone(t *testing.T) {
	gateway := newDouble(t)
	for _, x := range []struct {
		script, restarts string
		halted           bool
	}{
		{"restart-gateway\nrestart-gateway -a=b '-c=d e'", "[[] [-a=b -c=d e]]", true},
		{"restart-gateway -a=c", "[[-a=c]]", true},
		{"settle 1ms\nrestart-gateway -a=d", "[[] [-a=d]]", true},
		{"settle 1ms", "[[]]", false},
		{"restart-gateway", "[[]]", false},
		{"settle 1ms", "[]", false},
	} {
		gateway.restarts = nil
		result, _ := runScript(t, gateway, x.script, false)
		if got := fmt.Sprint(gateway.restarts); result.Err != nil || got != x.restarts ||
			gateway.sick.Load() != x.halted {
			t.Errorf("%q: restarts %s, halted %t, %v", x.script, got, gateway.sick.Load(), result.Err)
		}
	}
}

func TestDeadGatewayFailsTheCaseAndIsMended(t *testing.T) {
	gateway := newDouble(t)
	c, err := Parse("c.txtar", []byte("settle 1ms"))
	if err != nil {
		t.Fatal(err)
	}
	runner, err := NewRunner(Environment{Gateway: gateway}, Options{Trace: func(line string) {
		if strings.HasPrefix(line, "c.txtar") {
			gateway.sick.Store(true) // the replica dies during the first case
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	if result := runner.Run(t.Context(), c); result.Err == nil ||
		!strings.Contains(result.Err.Error(), "is unhealthy") {
		t.Errorf("the dead process was not detected: %v", result.Err)
	}
	runner.opt.Trace = nil
	if result := runner.Run(t.Context(), c); result.Err != nil || len(gateway.restarts) != 1 {
		t.Errorf("restarts %v, %v", gateway.restarts, result.Err)
	}
}

func TestEachClusterReturnsAllErrors(t *testing.T) {
	r := &run{
		runner: &Runner{
			writers: map[string]*writer{"west": {&kube.Client{Name: "west"}}, "north": {&kube.Client{Name: "north"}}},
		},
	}
	if err := r.eachCluster(func(w *writer) error { return errors.New(w.Name) }); fmt.Sprint(err) != "west\nnorth" {
		t.Errorf("%v", err)
	}
}

// TestEnsureNamespaceRefused checks that a rejected write is not retried.
func TestEnsureNamespaceRefused(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusUnprocessableEntity} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(code)
		}))
		w, err := newWriter("west", &rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = w.ensureNamespace(ctx, "web")
		cancel()
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || asked.Load() != 1 {
			t.Errorf("%d requests, then %v", asked.Load(), err)
		}
		w.Close()
		server.Close()
	}
}

// TestDeadAddress checks that the address for dead servers refuses connections and that no other
// process can use it.
func TestDeadAddress(t *testing.T) {
	runner, err := NewRunner(Environment{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	dead := runner.dead.LocalAddr().String()
	if c, err := net.Dial("tcp", dead); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection to the address: %v, %v", c, err)
	}
	if l, err := net.Listen("tcp", dead); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a listener on the address: %v, %v", l, err)
	}
}

// faulty is a cluster whose faults have no effect.
type faulty struct{ Cluster }

func (faulty) Kill() error                   { return nil }
func (faulty) Restart(context.Context) error { return nil }
func (faulty) Pause() error                  { return nil }
func (faulty) Resume() error                 { return nil }

func TestFaultMistakes(t *testing.T) {
	for script, want := range map[string]string{
		"resume": "cluster west is not paused", "start": "cluster west is not stopped",
		"stop resume": "cluster west is not paused", "pause start": "cluster west is not stopped",
		"stop start start": "cluster west is not stopped", "pause resume resume": "cluster west is not paused",
		"pause resume stop start pause stop start": "",
	} {
		r := newRun(t.Context(), &Runner{env: Environment{Clusters: map[string]Cluster{"west": faulty{}}}}, nil)
		var err error
		for _, command := range strings.Fields(script) {
			err = errors.Join(err, r.fault(t.Context(), command, "west"))
		}
		if got := fmt.Sprint(err); got != cmp.Or(want, "<nil>") {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
}

func TestUnasked(t *testing.T) {
	s, err := harness.StartLinkerdGateway("127.0.0.1:0", http.StatusOK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	unasked, err := parseUnasked(nil, []string{s.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{answering: map[netip.AddrPort]*harness.LinkerdGateway{s.Addr(): s}}
	if err := unasked(t.Context(), r); err != nil {
		t.Error(err)
	}
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/ready", nil))
	if err := unasked(t.Context(), r); err == nil || !strings.Contains(err.Error(), "received 1 requests") {
		t.Errorf("after a request: %v", err)
	}
}
