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

// getOptions are those of the verb get, as its flags give them.
type getOptions struct {
	addr, token, output string
	once                bool
}

func getFlags(o *getOptions) *flags {
	f := newFlags("get", getIntro, getExamples)
	f.section("Flags", func(s *flag.FlagSet) {
		s.StringVar(&o.addr, "addr", "localhost:8086", "`HOST:PORT` of the gateway's gRPC server, or of Linkerd's destination controller.")
		s.StringVar(&o.token, "token", "", `Context token of the proxy to stand for, as `+"`JSON`"+`: {"ns":"shop","nodeName":"node-1","pod":"web-1"}; the node decides on zones.`)
		s.StringVar(&o.output, "o", "table", "`FORMAT` of the states: table or json.")
		s.BoolVar(&o.once, "once", false, "Print the first state and exit.")
	})
	return f
}

const getIntro = `isthmus get shows what a proxy would be told about a service, live: it opens a
Get stream, folds its messages as a proxy does, and prints the state after each
change. Ctrl-C ends it.

Usage: isthmus get AUTHORITY [FLAGS]

AUTHORITY is what an application dials: SERVICE.NAMESPACE.svc.DOMAIN:PORT, or
INSTANCE.SERVICE.NAMESPACE.svc.DOMAIN:PORT; port 80 may be left out.`

const getExamples = `The table:
  CLUSTER   label target_cluster; "local" without it (a gateway that runs with
            --target-cluster-label=false never sends it)
  ZONE      the endpoint's, and whether the client's is the same
  HINTS     h2 or opaque: the protocol; via:PORT: through the proxy's inbound
            port; authority:NAME: the authority to use instead
  IDENTITY  that the peer's TLS certificate must have

-o json prints one object a line for each state:
  {"time":…, "authority":…, "exists":BOOL, "endpoints":[{"address":"IP:PORT",
   "weight":N, "labels":{…}, "identity":{"dns"|"uri":…, "serverName":…},
   "protocol":"h2"|"opaque", "inboundPort":N, "authority":…, "http2":{…}}]}
What is not said is left out; labels are those a proxy ends up with.

Exit code 1 if the stream ends, with what its status means.

Examples:
  isthmus get web.shop.svc.cluster.local:80
  isthmus get web.shop.svc.cluster.local:80 --once -o json \
    --addr 127.0.0.1:8086 --token '{"ns":"shop","nodeName":"node-1"}'`

// getVerb prints what a Get stream says until it ends, or p has a signal.
func getVerb(ctx context.Context, p process, args []string) error {
	var o getOptions
	f := getFlags(&o)
	rest, err := f.parse(args)
	switch {
	case err != nil:
		return err
	case f.asked:
		f.help(p.stdout)
		return nil
	case len(rest) == 0:
		return usagef("no AUTHORITY given: name a service, as web.shop.svc.cluster.local:80")
	case len(rest) > 1:
		return usagef("unexpected argument %q: give one AUTHORITY", rest[1])
	}
	if err := o.check(); err != nil {
		return err
	}
	s := &screen{w: p.stdout, authority: rest[0], asJSON: o.output == "json"}
	s.redraw = !s.asJSON && !o.once && isTerminal(p.stdout)
	return o.follow(ctx, p, s)
}

func (o *getOptions) check() error {
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

// follow opens the stream and shows what comes.
func (o *getOptions) follow(ctx context.Context, p process, s *screen) error {
	conn, err := grpc.NewClient(o.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))
	if err != nil {
		return usagef("--addr is %q: %w", o.addr, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	updates, ended := make(chan *pb.Update), make(chan error, 1)
	go func() {
		defer close(updates)
		ended <- receive(ctx, conn, &pb.GetDestination{Scheme: "k8s", Path: s.authority, ContextToken: o.token}, updates)
	}()
	defer func() { // wait for that goroutine
		cancel()
		for range updates {
		}
	}()
	var state fold
	var quiet <-chan time.Time
	for {
		select {
		case u, ok := <-updates:
			if !ok {
				return o.finish(s, &state, <-ended)
			}
			if err := state.apply(u); err != nil {
				fmt.Fprintf(p.stderr, "isthmus get: the server sent %v\n", err)
			}
			if quiet == nil {
				quiet = time.After(settle)
			}
		case <-quiet:
			quiet = nil
			if err := s.show(&state, time.Now()); err != nil || o.once && state.known {
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
func (o *getOptions) finish(s *screen, state *fold, ended error) error {
	if state.known {
		if err := s.show(state, time.Now()); err != nil || o.once {
			return err
		}
	}
	return explainEnd(o.addr, ended)
}

// receive hands on what a Get stream says and returns why it ended; never nil.
func receive(ctx context.Context, conn *grpc.ClientConn, q *pb.GetDestination, to chan<- *pb.Update) error {
	stream, err := pb.NewDestinationClient(conn).Get(ctx, q)
	if err != nil {
		return err
	}
	for {
		u, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case to <- u:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
