package proxy

import (
	"encoding/json"
	"net/netip"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/net"
)

// describe returns the kind of an update and its addresses in the received order.
func describe(u *pb.Update) (kind string, addrs []netip.AddrPort) {
	note := func(a *net.TcpAddress) {
		if addr, ok := AddrPort(a); ok {
			addrs = append(addrs, addr)
		}
	}
	switch u := u.GetUpdate().(type) {
	case *pb.Update_Add:
		for _, w := range u.Add.GetAddrs() {
			note(w.GetAddr())
		}
		return "add", addrs
	case *pb.Update_Remove:
		for _, a := range u.Remove.GetAddrs() {
			note(a)
		}
		return "remove", addrs
	case *pb.Update_NoEndpoints:
		if u.NoEndpoints.GetExists() {
			return "no_endpoints(true)", nil
		}
		return "no_endpoints(false)", nil
	}
	return "none", nil
}

// line returns a profile's normalized JSON, truncated to one line.
func line(p *pb.DestinationProfile) string {
	state := ProfileState{last: p}
	tree, err := state.JSON()
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return err.Error()
	}
	const most = 300
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}
