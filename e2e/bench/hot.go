package bench

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/proto"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
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

// hotService opens all streams to one Service, and restarts all its Pods.
func hotService(s Scale) Trial {
	c := s.Hot
	return Trial{
		Name: "hot service", Claims: optimizations, repeats: 1,
		Figures: []Figure{
			{Key: "late", Label: "delay of the last change", Unit: "ms", Max: 1000},
			{Key: "ratio", Label: "sent bytes relative to the minimum", Unit: "×", Max: 1.2},
			{Key: "messages", Label: "messages per stream"},
			{Key: "peak", Label: "peak resident memory", Unit: "MB"},
			{Key: "growth", Label: "peak relative to initial memory", Unit: "×", Max: 3},
		},
		fleet: func(int) fleet.Config { return fleet.Config{Services: 1, Slices: c.Slices, Endpoints: c.Endpoints} },
		do: func(r *run) {
			rolling := must(r.fleet.Restart(fleet.Service(0), 1+c.Slices*c.Endpoints/60))
			at := r.start()
			at.settled()
			cfg := spread(c.Proxies.Conns*c.Proxies.Streams, c.Proxies.Conns, 1, local)
			cfg.Newest = true
			for i := range min(folds, len(cfg.Targets)) {
				cfg.Targets[i].Keep = true
			}
			streams := at.open(cfg)
			r.pause(aftermath)
			held := at.rss()
			m := at.meter(streams)
			old := removal(rolling.Addresses())
			over := m.roll(rolling, c.Over)
			r.settle(streams)
			r.set("peak", megabytes(at.peak()))
			r.set("growth", at.peak()/held)
			m.rolled(over, old+m.checkAll(rolling.Addresses(), over))
		},
	}
}

// rolled sets what streams have been sent of a restart that is over, and for which so many bytes
// would have been enough.
func (m *meter) rolled(over time.Time, least int) {
	streams := float64(m.streams.Streams())
	m.set("late", milliseconds(latest(m.streams).Sub(over)))
	m.set("ratio", m.bytes()/streams/float64(least))
	m.set("messages", float64(m.messages())/streams)
}

// roll makes all steps of the restart, and returns when the last endpoint was replaced.
func (m *meter) roll(rolling *fleet.Rolling, within time.Duration) (over time.Time) {
	began, every := time.Now(), within/time.Duration(rolling.Endpoints())
	for i := 0; ; i++ {
		m.pause(time.Until(began.Add(time.Duration(i) * every)))
		replaced, done, err := rolling.Step()
		check(err)
		if replaced {
			over = time.Now()
		}
		if done {
			return over
		}
	}
}

// checkAll returns how large the message is that has all endpoints at the end. A stream that has
// had nothing after the last change ends the run, and so does one of those that are read if its
// messages do not lead to these endpoints.
func (m *meter) checkAll(want []netip.AddrPort, over time.Time) int {
	late := m.open(load.Config{Conns: 1, Targets: []load.Target{{Authority: local(0), Keep: true}}})
	slices.SortFunc(want, netip.AddrPort.Compare)
	leads := func(_ load.Target, messages [][]byte) {
		if messages == nil {
			return
		}
		if state := must(folded(messages)); !slices.Equal(state.Addrs(), want) {
			check(fmt.Errorf("a stream has %d endpoints, which are not the %d at the end", state.Len(), len(want)))
		}
	}
	late.Messages(leads)
	m.streams.Messages(leads)
	m.streams.Arrivals(func(_ load.Target, at []time.Time) {
		if last := at[len(at)-1]; last.Before(over) {
			check(fmt.Errorf("a stream has had nothing since %v before the last change", over.Sub(last)))
		}
	})
	return late.Bytes()
}

// removal returns how many bytes a message takes that removes addresses.
func removal(addresses []netip.AddrPort) int {
	set := &pb.AddrSet{}
	for _, a := range addresses {
		ip := a.Addr().As4()
		set.Addrs = append(set.Addrs, &pbnet.TcpAddress{
			Ip: &pbnet.IPAddress{
				Ip: &pbnet.IPAddress_Ipv4{Ipv4: binary.BigEndian.Uint32(ip[:])},
			}, Port: uint32(a.Port()),
		})
	}
	return framed + proto.Size(&pb.Update{Update: &pb.Update_Remove{Remove: set}})
}
