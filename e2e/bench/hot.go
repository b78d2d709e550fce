package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/proto"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/bench/world"
	"isthmus/e2e/poll"
)

// HotScale is a Service that everybody uses.
type HotScale struct {
	Proxies   Crowd
	Slices    int
	Endpoints int           // of each
	Over      time.Duration // in which all Pods are restarted
}

const (
	folds  = 20 // streams whose messages are read
	framed = 5  // bytes that gRPC adds to a message
)

// hot opens all streams to one Service, and restarts all its Pods.
func hot(ctx context.Context, l *Lab) (samples map[Kind]Sample, err error) {
	s := l.cfg.Scale.Hot
	f, err := follow(ctx, l.cfg, fleet.Config{Services: 1, Slices: s.Slices, Endpoints: s.Endpoints})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.end(ctx)) }()
	name, authority := fleet.Service(0, false)
	h := &heat{followed: f, scale: s, authority: authority}
	if h.rolling, err = f.fleet.Restart(name, 1+s.Slices*s.Endpoints/60); err != nil {
		return nil, err
	}
	if h.before, err = proc.Settled(ctx, f.gateway.Pid(), l.cfg.Scale.Settle); err != nil {
		return nil, err
	}
	cfg := load.Config{Addr: f.gateway.Addr(), Method: getMethod, Conns: s.Proxies.Conns, Newest: true}
	for i := range s.Proxies.Conns * s.Proxies.Streams {
		cfg.Targets = append(cfg.Targets, load.Target{Authority: authority, Token: world.Token(i), Keep: i < folds})
	}
	began := time.Now()
	if h.streams, err = load.Open(ctx, cfg); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.streams.Close()) }()
	opened := latest(h.streams).Sub(began)
	sample, err := h.restart(ctx)
	if err != nil {
		return nil, err
	}
	sample["all"] = opened.Seconds()
	return map[Kind]Sample{Gateway: sample}, nil
}

// heat is the trial while it runs.
type heat struct {
	*followed
	scale     HotScale
	authority string
	rolling   *fleet.Rolling
	before    proc.Memory // without streams
	streams   *load.Load
}

// restart restarts all Pods, and returns what that was like for the streams.
func (h *heat) restart(ctx context.Context) (Sample, error) {
	if err := poll.Pause(ctx, aftermath); err != nil {
		return nil, err
	}
	pid := h.gateway.Pid()
	held, err := proc.ReadMemory(pid)
	if err != nil {
		return nil, err
	}
	least, err := least(h.rolling.Addresses())
	if err != nil {
		return nil, err
	}
	m, err := startMeter(pid, h.streams)
	if err != nil {
		return nil, err
	}
	over, err := h.roll(ctx)
	if err != nil {
		return nil, err
	}
	took := over.Sub(m.began)
	if err := settle(ctx, h.streams); err != nil {
		return nil, err
	}
	cpu, err := m.cpu()
	if err != nil {
		return nil, err
	}
	peak, err := proc.Peak(pid)
	if err != nil {
		return nil, err
	}
	whole, err := h.check(ctx, over)
	if err != nil {
		return nil, err
	}
	var late []float64
	h.streams.Arrivals(func(_ load.Target, at []time.Time) { late = append(late, milliseconds(at[len(at)-1].Sub(over))) })
	sorted(late)
	streams := float64(h.streams.Streams())
	sent := m.bytes() / streams
	return Sample{
		"late p50": percentile(late, 50), "late p99": percentile(late, 99), "late": percentile(late, 100), "sent": sent / 1e6, "ratio": sent / float64(whole+least),
		"messages": float64(m.messages()) / streams, "share": share(cpu, took),
		"memory": perStream(h.before, held, h.streams), "held": megabytes(held.RSS), "peak": megabytes(peak), "most": float64(peak) / float64(held.RSS),
	}, nil
}

// roll makes all steps of the restart, and returns when the last endpoint was replaced.
func (h *heat) roll(ctx context.Context) (over time.Time, err error) {
	began, every := time.Now(), h.scale.Over/time.Duration(h.rolling.Endpoints())
	for i := 0; ; i++ {
		if err := poll.Pause(ctx, time.Until(began.Add(time.Duration(i)*every))); err != nil {
			return over, err
		}
		replaced, done, err := h.rolling.Step()
		if err != nil {
			return over, err
		}
		if replaced {
			over = time.Now()
		}
		if done {
			return over, nil
		}
	}
}

// check returns how large the message is that has all endpoints at the end. It is an error if a stream has had nothing after
// the last change, or one of those that are read does not lead to these endpoints.
func (h *heat) check(ctx context.Context, over time.Time) (size int, err error) {
	late, err := load.Open(ctx, load.Config{Addr: h.gateway.Addr(), Method: getMethod, Conns: 1, Keep: true, Targets: []load.Target{{Authority: h.authority}}})
	if err != nil {
		return 0, err
	}
	size = late.Bytes()
	want := h.rolling.Addresses()
	slices.SortFunc(want, netip.AddrPort.Compare)
	var errs []error
	read := func(_ load.Target, messages [][]byte) {
		if messages == nil {
			return
		}
		state, err := folded(messages)
		if err == nil && !slices.Equal(state.Addrs(), want) {
			err = fmt.Errorf("a stream has %d endpoints, which are not the %d at the end", state.Len(), len(want))
		}
		errs = append(errs, err)
	}
	late.Messages(read)
	h.streams.Messages(read)
	h.streams.Arrivals(func(_ load.Target, at []time.Time) {
		if last := at[len(at)-1]; last.Before(over) {
			errs = append(errs, fmt.Errorf("a stream has had nothing since %v before the last change", over.Sub(last)))
		}
	})
	return size, errors.Join(append(errs, late.Close())...)
}

// least returns how many bytes a message takes that removes addresses.
func least(addresses []netip.AddrPort) (int, error) {
	set := &pb.AddrSet{}
	for _, a := range addresses {
		ip := a.Addr().As4()
		set.Addrs = append(set.Addrs, &pbnet.TcpAddress{
			Ip: &pbnet.IPAddress{Ip: &pbnet.IPAddress_Ipv4{Ipv4: binary.BigEndian.Uint32(ip[:])}}, Port: uint32(a.Port()),
		})
	}
	text, err := proto.Marshal(&pb.Update{Update: &pb.Update_Remove{Remove: set}})
	return framed + len(text), err
}
