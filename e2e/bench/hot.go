package bench

import (
	"encoding/binary"
	"net/netip"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/proto"

	"isthmus/e2e/bench/fleet"
)

// HotScale is the size of a Service that all streams use.
type HotScale struct {
	Proxies   Crowd
	Slices    int
	Endpoints int           // endpoints per Service
	Over      time.Duration // time in which all Pods are restarted
}

const (
	folds  = 20 // number of streams whose messages are decoded
	framed = 5  // size of the gRPC header of a message
)

// hotService returns a trial that opens all streams to one Service and restarts all its Pods.
func hotService(s Scale) Trial {
	c := s.Hot
	return Trial{
		Name: "hot service", Claims: optimizations, repeats: 1,
		Figures: []Figure{
			{Key: "late", Label: "delay of the last change", Unit: "ms", Max: 1000},
			{Key: "ratio", Label: "bytes sent, relative to the minimum", Unit: "×", Max: 1.2},
			{Key: "messages", Label: "messages per stream"},
			{Key: "peak", Label: "peak resident memory", Unit: "MB"},
			{Key: "growth", Label: "peak memory relative to initial memory", Unit: "×", Max: 3},
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

// removal returns the size of a message that removes the addresses.
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
