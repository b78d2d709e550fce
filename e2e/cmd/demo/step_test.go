package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/goleak"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
	. "isthmus/e2e/proxy/destinationtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func addrs(list ...string) []netip.AddrPort {
	var parsed []netip.AddrPort
	for _, text := range list {
		parsed = append(parsed, netip.MustParseAddrPort(text))
	}
	return parsed
}

// of returns an add message with addresses in a cluster.
func of(cluster string, list ...string) *pb.Update {
	u := Add(list...)
	u.GetAdd().MetricLabels = map[string]string{"target_cluster": cluster}
	return u
}

// subscribed returns a demo whose proxy receives these updates.
func subscribed(t *testing.T, out *bytes.Buffer) (*demo, chan<- *pb.Update) {
	t.Helper()
	server := Start(t)
	updates := make(chan *pb.Update)
	server.OnGet(federated, Send(updates))
	conn, err := proxy.Dial(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{screen: newScreen(out), stream: proxy.NewStream(proxy.Config{Conn: conn, Authority: federated})}
	t.Cleanup(func() {
		d.stream.Close()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.stream.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	updates <- of("", "10.1.0.1:80")
	updates <- of("east", "10.2.0.1:80")
	d.want = endpoints{west: addrs("10.1.0.1:80"), east: addrs("10.2.0.1:80")}
	if _, err := await(t.Context(), d.stream, d.want, seenLimit); err != nil {
		t.Fatal(err)
	}
	return d, updates
}

func TestStep(t *testing.T) {
	grown := endpoints{west: addrs("10.1.0.1:80"), east: addrs("10.2.0.1:80", "10.2.0.2:80")}
	for name, test := range map[string]struct {
		updates []*pb.Update
		want    string // part of the expected error
	}{
		"as it should be": {[]*pb.Update{of("east", "10.2.0.2:80")}, ""},
		"a flap": {
			[]*pb.Update{Remove("10.1.0.1:80"), of("", "10.1.0.1:80"), of("east", "10.2.0.2:80")},
			"10.1.0.1:80 was absent after message",
		},
		"emptied": {
			[]*pb.Update{None(true), of("", "10.1.0.1:80"), of("east", "10.2.0.1:80", "10.2.0.2:80")},
			"was absent after message",
		},
		"too much": {
			[]*pb.Update{of("east", "10.2.0.2:80"), of("north", "10.3.0.1:80")},
			"10.3.0.1:80 of north should not be there",
		},
		"wrong cluster": {[]*pb.Update{of("north", "10.2.0.2:80")}, "10.2.0.2:80 of east is missing"},
		"an empty add":  {[]*pb.Update{of("east", "10.2.0.2:80"), Add()}, "an add without addresses"},
		"nothing":       {nil, "10.2.0.2:80 of east is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			d, updates := subscribed(t, &out)
			limit := time.Minute
			if test.want != "" && !strings.Contains(test.want, "absent") { // the expected state never appears
				limit = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := d.step(ctx, step{"grow", func(context.Context) (time.Time, string, error) {
				for _, u := range test.updates {
					updates <- u
				}
				d.want = grown
				return time.Now(), "a remark", nil
			}})
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				// The measured delay depends on the load of the machine.
				want := regexp.MustCompile(`^grow 1 2 0 \d+(\.\d)? m?s none a remark$`)
				if got := strings.Join(strings.Fields(out.String()), " "); !want.MatchString(got) {
					t.Errorf("it printed %q", out.String())
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if strings.Contains(out.String(), "none") {
				t.Errorf("it printed %q", out.String())
			}
		})
	}
}

func TestTiers(t *testing.T) {
	for want, e := range map[string]endpoints{
		"none": {}, "local": {west: addrs("10.1.0.1:80")}, "any": {north: addrs("10.3.0.1:80")},
		"local, any": {west: addrs("10.1.0.1:80"), east: addrs("10.2.0.1:80")},
	} {
		if got := e.tiers(); got != want {
			t.Errorf("%v: %q, not %q", e, got, want)
		}
	}
}

func TestStepOnEndedStream(t *testing.T) {
	var out bytes.Buffer
	d, updates := subscribed(t, &out)
	err := d.step(t.Context(), step{"end", func(ctx context.Context) (time.Time, string, error) {
		close(updates)
		return time.Time{}, "", hold(ctx, d.stream, d.want, seenLimit)
	}})
	if err == nil || !strings.Contains(err.Error(), "the stream ended") {
		t.Errorf("got %v", err)
	}
}

func TestRow(t *testing.T) {
	for _, test := range []struct {
		row  row
		want string
	}{
		{row{
			title:   "scale east from 2 to 5",
			before:  []int{3, 2, 2},
			now:     []int{3, 5, 2},
			when:    "18 ms",
			verdict: "none",
		},
			"  scale east from 2 to 5                        3      5      2      18 ms  none"},
		{row{title: "kill east's API server", now: []int{3, 1, 10}, when: "no change", verdict: "none"},
			"  kill east's API server                        3      1     10  no change  none"},
		{row{
			title:   "end the cordon",
			before:  []int{2, 3, 0},
			now:     []int{2, 3, 4},
			tiers:   "local, any",
			when:    "6 ms",
			verdict: "none",
		},
			"  end the cordon                                2      3      4  local, any       6 ms  none"},
		{row{title: "12:00:00", now: []int{0, 0, 0}},
			"  12:00:00                                      0      0      0"},
	} {
		var out bytes.Buffer
		s := newScreen(&out)
		s.live(test.row)
		s.finish(test.row)
		if got := out.String(); got != test.want+"\n" {
			t.Errorf("got\n%q, want\n%q", got, test.want)
		}
	}
}

func TestTerminalDrawsAgain(t *testing.T) {
	var out bytes.Buffer
	s := &screen{terminal: true, out: &out}
	r := row{title: "scale", before: []int{1, 1}, now: []int{1, 2}, verdict: "none"}
	s.live(r)
	s.finish(r)
	if got, want := strings.Count(out.String(), clearLine), 2; got != want {
		t.Errorf("%d redraws, not %d: %q", got, want, out.String())
	}
	if !strings.Contains(out.String(), bold+"      2"+plain) || strings.Contains(out.String(), bold+"      1") {
		t.Errorf("what has changed must stand out, and nothing else: %q", out.String())
	}
}

func TestCommandLine(t *testing.T) {
	empty := t.TempDir()
	for name, test := range map[string]struct {
		args  []string
		usage string
	}{
		"unknown flag": {[]string{"--keeep"}, "not defined: -keeep"},
		"argument":     {[]string{"keep"}, `unexpected argument "keep"`},
		"no programs":  {[]string{"--bin", empty}, "there is no " + empty + "/isthmus"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), test.args, &bytes.Buffer{})
			if !errors.As(err, new(harness.UsageError)) || !strings.Contains(err.Error(), test.usage) {
				t.Errorf("got %v, want a usage error with %q", err, test.usage)
			}
		})
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	for _, want := range []string{"demo --keep", "-bin", "Ctrl-C"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("--help does not print %q", want)
		}
	}
}
