package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/proto"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/program"
	"isthmus/e2e/proxy"
)

// ColdScale is what a gateway finds when it starts.
type ColdScale struct {
	Clusters  int // the local one among them
	Services  int // federated ones, each of all clusters
	Endpoints int // of each in a cluster, all Pods of their own
	Repeats   int
}

// coldStart starts the gateway, again and again, and in turn what the floor is here: a process that lists the same objects.
func coldStart(name string, of func(Scale) ColdScale) func(context.Context, *Lab) (map[Kind]Sample, error) {
	return func(ctx context.Context, l *Lab) (samples map[Kind]Sample, err error) {
		s := of(l.cfg.Scale)
		f, kubeconfig, err := startFleet(l.cfg, fleet.Config{Linked: s.Clusters - 1, Services: s.Services, Slices: 1, Endpoints: s.Endpoints, Joined: true})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		all := map[Kind][]Sample{}
		for range s.Repeats {
			if err := l.awaitIdle(ctx, name+", the plain list"); err != nil {
				return nil, err
			}
			listed, err := l.list(ctx, s, kubeconfig)
			if err != nil {
				return nil, fmt.Errorf("the plain list: %w", err)
			}
			if err := l.awaitIdle(ctx, name+", the gateway"); err != nil {
				return nil, err
			}
			started, err := l.coldGateway(ctx, s, kubeconfig)
			if err != nil {
				return nil, fmt.Errorf("the gateway: %w", err)
			}
			all[Floor], all[Gateway] = append(all[Floor], listed), append(all[Gateway], started)
		}
		return map[Kind]Sample{Floor: combine(all[Floor], median), Gateway: combine(all[Gateway], median)}, nil
	}
}

// list runs a process that lists everything, and returns how long that took. It has the same to compare with all that the gateway is
// measured by.
func (l *Lab) list(ctx context.Context, s ColdScale, kubeconfig string) (Sample, error) {
	began := time.Now()
	p, err := program.Start(program.Config{
		Path: l.cfg.List[0], Args: append(l.cfg.List[1:len(l.cfg.List):len(l.cfg.List)], kubeconfig), Output: os.Stderr, Announces: true,
	})
	if err != nil {
		return nil, err
	}
	line, err := p.AwaitLine(ctx)
	took := time.Since(began)
	if err = errors.Join(err, p.Close()); err != nil {
		return nil, err
	}
	federated := s.Services
	if n, err := strconv.Atoi(line); err != nil || n != s.Clusters*s.Services*(2+s.Endpoints)+federated {
		return nil, fmt.Errorf("%q objects listed, not all", line)
	}
	return Sample{"ready": took.Seconds(), "first": took.Seconds(), "whole": took.Seconds()}, nil
}

// coldGateway starts a gateway, and returns how long it took until it was ready, until a stream had its first message, and
// until that had the endpoints of all clusters.
func (l *Lab) coldGateway(ctx context.Context, s ColdScale, kubeconfig string) (_ Sample, err error) {
	began := time.Now()
	g, err := startGateway(ctx, l.cfg.Isthmus, kubeconfig)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Check(ctx), g.Stop()) }()
	ready := time.Since(began)
	_, authority := fleet.Service(s.Services-1, true)
	stream, err := load.Open(ctx, load.Config{Addr: g.Addr(), Method: getMethod, Conns: 1, Keep: true, Targets: []load.Target{{Authority: authority}}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	messages, err := whole(ctx, stream, s.Clusters*s.Endpoints)
	if err != nil {
		return nil, err
	}
	var at []time.Time
	stream.Arrivals(func(_ load.Target, all []time.Time) { at = all })
	stays, err := proc.Settled(ctx, g.Pid(), l.cfg.Scale.Settle)
	if err != nil {
		return nil, err
	}
	peak, err := proc.Peak(g.Pid())
	if err != nil {
		return nil, err
	}
	cpu, err := proc.CPU(g.Pid())
	return Sample{
		"ready": ready.Seconds(), "first": at[0].Sub(began).Seconds(), "whole": at[messages-1].Sub(began).Seconds(), "cpu": cpu.Seconds(),
		"stays": megabytes(stays.RSS), "peak": megabytes(peak), "most": float64(peak) / float64(stays.RSS),
	}, err
}

// whole waits until one stream has so many endpoints, and returns with how many messages it had.
func whole(ctx context.Context, stream *load.Load, endpoints int) (messages int, err error) {
	for {
		var kept [][]byte
		stream.Messages(func(_ load.Target, all [][]byte) { kept = all })
		state, err := folded(kept)
		if err != nil {
			return 0, err
		}
		if state.Len() == endpoints {
			return len(kept), nil
		}
		if err := stream.Await(ctx, len(kept)+1); err != nil {
			return 0, fmt.Errorf("%d endpoints, not %d: %w", state.Len(), endpoints, err)
		}
	}
}

// folded returns what a proxy knows that has had these messages.
func folded(messages [][]byte) (*proxy.GetState, error) {
	state := &proxy.GetState{}
	for _, m := range messages {
		u := &pb.Update{}
		if err := proto.Unmarshal(m, u); err != nil {
			return nil, err
		}
		if faults := state.Apply(u); faults != nil {
			return nil, fmt.Errorf("faults of the server: %q", faults)
		}
	}
	return state, nil
}

// combine combines what runs have of each key.
func combine(runs []Sample, by func([]float64) float64) Sample {
	all := Sample{}
	for key := range runs[0] {
		var values []float64
		for _, r := range runs {
			values = append(values, r[key])
		}
		all[key] = by(values)
	}
	return all
}
