package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// settle is how long messages are collected after one has come, so that a set
// in several messages, or a step's add and remove, is shown once.
const settle = 50 * time.Millisecond

// followOptions are those of the verbs that follow a stream, as their flags give
// them.
type followOptions struct {
	addr, token, output string
	once                bool
}

func followFlags(o *followOptions, verb, before, after string) *flags {
	f := newFlags(verb, before, after)
	f.section("Flags", func(s *flag.FlagSet) {
		s.StringVar(&o.addr, "addr", "localhost:8086", "`HOST:PORT` of the gateway's gRPC server, or of Linkerd's destination controller.")
		s.StringVar(&o.token, "token", "", `Context token of the proxy to stand for, as `+"`JSON`"+`: {"ns":"shop","nodeName":"node-1","pod":"web-1"}; `+
			`the node decides on zones, the namespace on ServiceProfiles.`)
		s.StringVar(&o.output, "o", "table", "`FORMAT` of the states: table or json.")
		s.BoolVar(&o.once, "once", false, "Print the first state and exit.")
	})
	return f
}

// parse reads the arguments. Help was asked for, and given, if there is no
// authority.
func (o *followOptions) parse(f *flags, p process, args []string) (authority string, err error) {
	rest, err := f.parse(args)
	switch {
	case err != nil:
		return "", err
	case f.asked:
		f.help(p.stdout)
		return "", nil
	case len(rest) == 0 || rest[0] == "":
		return "", usagef("no AUTHORITY given: name a service, as web.shop.svc.cluster.local:80")
	case len(rest) > 1:
		return "", usagef("unexpected argument %q: give one AUTHORITY", rest[1])
	}
	return rest[0], o.check()
}

func (o *followOptions) check() error {
	if o.output != "table" && o.output != "json" {
		return usagef("-o is %q: give table or json", o.output)
	}
	var token struct {
		NS, NodeName, Pod string
	}
	if o.token != "" && !strings.HasPrefix(o.token, "ns:") {
		if err := json.Unmarshal([]byte(o.token), &token); err != nil {
			return usagef(`--token: %w: give JSON like {"ns":"shop","nodeName":"node-1"}`, err)
		}
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// state is what a proxy holds after the messages M of one stream.
type state[M any] interface {
	content
	// apply folds one message in. The error says what a server must not send.
	apply(*M) error
	// heard tells whether there is anything to show yet.
	heard() bool
}

// session is one run of a verb that follows a stream.
type session[M any] struct {
	followOptions
	verb  string
	state state[M]
	open  func(pb.DestinationClient, context.Context, *pb.GetDestination, ...grpc.CallOption) (grpc.ServerStreamingClient[M], error)
	means meanings
}

// follow opens the stream and shows what comes until it ends, or p has a signal.
func (f *session[M]) follow(ctx context.Context, p process, authority string) error {
	s := &screen{w: p.stdout, authority: authority, asJSON: f.output == "json"}
	s.redraw = !s.asJSON && !f.once && isTerminal(p.stdout)
	conn, err := grpc.NewClient(f.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))
	if err != nil {
		return usagef("--addr is %q: %w", f.addr, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	messages, ended := make(chan *M), make(chan error, 1)
	go func() {
		defer close(messages)
		ended <- f.receive(ctx, conn, authority, messages)
	}()
	defer func() { // wait for that goroutine
		cancel()
		for range messages {
		}
	}()
	return f.display(ctx, p, s, messages, ended)
}

// display shows what messages make of the state until messages is closed, when
// ended has the reason, or p gets a signal.
func (f *session[M]) display(ctx context.Context, p process, s *screen, messages <-chan *M, ended <-chan error) error {
	var quiet <-chan time.Time
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return f.finish(s, <-ended)
			}
			if err := f.state.apply(m); err != nil {
				fmt.Fprintf(p.stderr, "isthmus %s: the server sent %v\n", f.verb, err)
			}
			if quiet == nil {
				quiet = time.After(settle)
			}
		case <-quiet:
			quiet = nil
			if err := s.show(f.state, time.Now()); err != nil || f.once && f.state.heard() {
				return err
			}
		case <-p.signals:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finish shows what came last, and returns why the stream has ended.
func (f *session[M]) finish(s *screen, ended error) error {
	if f.state.heard() {
		if err := s.show(f.state, time.Now()); err != nil || f.once {
			return err
		}
	}
	return f.means.explainEnd(f.addr, ended)
}

// receive hands on what the stream says and returns why it ended; never nil.
func (f *session[M]) receive(ctx context.Context, conn *grpc.ClientConn, authority string, to chan<- *M) error {
	stream, err := f.open(pb.NewDestinationClient(conn), ctx, &pb.GetDestination{Scheme: "k8s", Path: authority, ContextToken: f.token})
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case to <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
