package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
)

// batchWindow is the delay between the arrival of a message and the printing of the resulting
// state. During the delay, a command collects further messages, because a replica sends a large set
// of endpoints in several messages.
const batchWindow = 50 * time.Millisecond

// state is the state that a proxy builds from the messages of one stream.
type state[M any] interface {
	// The apply method changes the state according to a message. If the message is one that servers
	// must not send, the result is an error.
	apply(*M) error
	started() bool
	// output returns the state for -o json, and table returns the state as a table.
	output(at time.Time, authority string) any
	table() (headline string, lines []byte)
}

type session[M any] struct {
	Target
	token string
	once  bool
	state state[M]
	open  func(pb.DestinationClient, context.Context, *pb.GetDestination,
		...grpc.CallOption) (grpc.ServerStreamingClient[M], error)
	meanings  codeMeanings
	authority string           // set by Run
	replica   reach.Replica    // set by run
	limit     <-chan time.Time // fires when the first state is late; set by run
}

// streamCommand returns a command that opens a stream.
func streamCommand[M any](v cli.Command, s session[M]) cli.Command {
	v.Run = func(ctx context.Context, p cli.Process) error {
		if err := checkToken(s.token); err != nil {
			return err
		}
		s.authority = p.Args[0]
		return s.run(ctx, p)
	}
	return s.command(v, func(f *pflag.FlagSet) {
		s.AddAddressFlag(f, "addr", "`HOST:PORT` of a replica's gRPC server, or of Linkerd's destination controller.")
		s.Options.Flags(f)
		f.StringVar(&s.token, "token", "",
			`Context token of the simulated proxy, as `+"`JSON`"+
				`: {"ns":"shop","nodeName":"node-1","pod":"web-1"}. `+
				`The node determines the zone, and the namespace the ServiceProfiles.`)
		f.BoolVar(&s.once, "once", false, "Print the first state and exit.")
		s.outputFlags(f, pageTimeout, "Fail if the first state does not arrive within this `DURATION`.")
	})
}

func (s *session[M]) run(ctx context.Context, p cli.Process) error {
	out := s.screen(p)
	out.redraw = !out.asJSON && !s.once && isTerminal(p.Stdout)
	s.limit = time.After(s.Timeout)
	within, cancel := context.WithTimeout(ctx, s.Timeout)
	found, release, err := s.find(within, p)
	cancel()
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	defer release()
	s.replica = found[0]
	conn, err := connect(s.replica)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel = context.WithCancel(ctx)
	messages := make(chan *M)
	ended := make(chan error, 1)
	go func() {
		defer close(messages)
		ended <- s.receive(ctx, conn, messages)
	}()
	defer func() { // wait for the receiving goroutine
		cancel()
		for range messages {
		}
	}()
	return s.display(ctx, p, out, messages, ended)
}

// The connect function returns a connection to a replica's gRPC server. The connection is
// established on first use.
func connect(g reach.Replica) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+cmp.Or(g.Address, "gateway"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error) {
			return g.Dial(ctx, g.GRPCPort)
		}))
}

// The receive method forwards the messages of the stream to a channel, and returns the reason why
// the stream ended. The reason is never nil.
func (s *session[M]) receive(ctx context.Context, conn *grpc.ClientConn, to chan<- *M) error {
	stream, err := s.open(pb.NewDestinationClient(conn), ctx,
		&pb.GetDestination{Scheme: "k8s", Path: s.authority, ContextToken: s.token})
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

// The display method applies messages and shows the state until the stream ends or the process
// receives a signal. The second channel delivers the reason why the stream ended.
func (s *session[M]) display(
	ctx context.Context, p cli.Process, out *screen, messages <-chan *M, ended <-chan error,
) error {
	var batchEnds <-chan time.Time
	slow := time.After(cli.SlowAfter)
	for {
		select {
		case <-slow:
			fmt.Fprintf(p.Stderr, "%s: waiting up to %v for the first message from %s\n", p.Name, s.Timeout, s.replica)
		case <-s.limit:
			return fmt.Errorf("%s sent no message within %v (--timeout)\n  %s", s.replica, s.Timeout,
				s.meanings.explain(codes.Unavailable, s.replica))
		case m, ok := <-messages:
			if !ok {
				return s.finish(out, <-ended)
			}
			if err := s.state.apply(m); err != nil {
				fmt.Fprintf(p.Stderr, "%s: the server sent %v\n", p.Name, err)
			}
			if batchEnds == nil {
				batchEnds = time.After(batchWindow)
			}
			if s.state.started() {
				slow = nil
				s.limit = nil
			}
		case <-batchEnds:
			batchEnds = nil
			if !s.state.started() {
				continue
			}
			if err := s.show(out); err != nil || s.once {
				return err
			}
		case <-ctx.Done(): // on a signal
			return nil
		}
	}
}

func (s *session[M]) show(out *screen) error {
	if changed, err := out.changed(s.state.output(time.Time{}, s.authority)); err != nil || !changed {
		return err
	}
	now := time.Now()
	return out.show(now, s.authority, s.state.output(now, s.authority), s.state.table)
}

func (s *session[M]) finish(out *screen, ended error) error {
	if s.state.started() {
		if err := s.show(out); err != nil || s.once {
			return err
		}
	}
	return s.meanings.explainEnd(s.replica, ended)
}

// codeMeanings contains explanations of the gRPC status codes whose meaning is specific to one RPC
// of the Destination API. The text for codes.Unavailable is appended to a list of causes that apply
// to all streams.
type codeMeanings map[codes.Code]string

// explainEnd returns an error that says why a stream ended and how a proxy reacts.
func (m codeMeanings) explainEnd(from reach.Replica, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s ended the stream without an error: a proxy would open a new stream", from)
	}
	s := status.Convert(err)
	return fmt.Errorf("%s: %s\n  %s", s.Code(), Printable(s.Message()), m.explain(s.Code(), from))
}

func (m codeMeanings) explain(c codes.Code, from reach.Replica) string {
	const again = " A proxy retries with backoff."
	text, ok := m[c]
	switch {
	case c == codes.Unavailable:
		running := "check that Isthmus is running and ready"
		if from.Address != "" {
			running += ", and that --addr is its address"
		}
		if ok {
			text = "; " + text
		}
		return fmt.Sprintf("Possible causes: no server responds at %s (%s); "+
			"the replica is shutting down, or is closing old connections (--max-connection-age)%s.",
			from, running, text) + again
	case ok:
		return text
	case c == codes.Unimplemented:
		return fmt.Sprintf("The server at %s is not a Destination server.", from)
	case c == codes.ResourceExhausted:
		text = "A message is larger than a proxy accepts, or a limit is reached. " +
			"If clients use too many undeclared ports, declare those ports in the Service. " +
			"If --max-streams or --view-memory is reached, add replicas, " +
			"or raise the memory limit and the value of the flag."
	}
	return strings.TrimSpace(text + again)
}
