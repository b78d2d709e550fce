package client

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"

	"isthmus/internal/adminapi"
)

// What is kept of what a server sends: more than any gateway does.
const (
	maxEndpoints = 100_000
	maxLabels    = 64        // of an endpoint, with those of its message
	maxBytes     = 128 << 20 // of all endpoints, as they are sent
)

// getState is what a proxy holds after the messages of one Get stream. Its zero
// value is that of a proxy before the first message.
type getState struct {
	known, exists bool
	endpoints     map[netip.AddrPort]endpoint
	bytes         int // of the endpoints
}

// apply does what a proxy does with a message: the first add replaces what it
// held, a remove before that is ignored, an empty add is dropped. The error names
// what a server must not send; apply has used what could be used of the message.
func (s *getState) apply(u *pb.Update) error {
	switch u := u.GetUpdate().(type) {
	case *pb.Update_Add:
		return s.add(u.Add)
	case *pb.Update_Remove:
		return s.remove(u.Remove)
	case *pb.Update_NoEndpoints:
		s.known, s.exists, s.endpoints, s.bytes = true, u.NoEndpoints.GetExists(), nil, 0
		return nil
	}
	return errors.New("a message that is neither add, remove nor no_endpoints")
}

func (s *getState) started() bool { return s.known }

func (s *getState) add(set *pb.WeightedAddrSet) error {
	if len(set.GetAddrs()) == 0 {
		return errors.New("an add without addresses: a proxy drops it")
	}
	if s.endpoints == nil {
		s.endpoints = make(map[netip.AddrPort]endpoint)
	}
	s.known, s.exists = true, true
	var bad error
	for _, w := range set.GetAddrs() {
		e, err := decodeEndpoint(w, set.GetMetricLabels())
		if err != nil {
			bad = err
			continue
		}
		before, known := s.endpoints[e.Address]
		switch {
		case !known && len(s.endpoints) == maxEndpoints:
			return fmt.Errorf("more than %d endpoints: the others are not shown", maxEndpoints)
		case s.bytes-before.size+e.size > maxBytes:
			return fmt.Errorf("endpoints of more than %d MiB: the others are not shown", maxBytes>>20)
		}
		s.endpoints[e.Address], s.bytes = e, s.bytes-before.size+e.size
	}
	return bad
}

func (s *getState) remove(set *pb.AddrSet) error {
	if !s.known {
		return errors.New("a remove before any add: a proxy ignores it")
	}
	var bad error
	for _, a := range set.GetAddrs() {
		addr, err := decodeAddress(a)
		if err != nil {
			bad = err
			continue
		}
		s.bytes -= s.endpoints[addr].size
		delete(s.endpoints, addr)
	}
	return bad
}

// list returns the endpoints by address; it is never nil.
func (s *getState) list() []adminapi.Endpoint {
	list := make([]adminapi.Endpoint, 0, len(s.endpoints))
	for _, e := range s.endpoints {
		list = append(list, e.Endpoint)
	}
	slices.SortFunc(list, func(a, b adminapi.Endpoint) int { return a.Address.Compare(b.Address) })
	return list
}

func (s *getState) snapshot(at time.Time, authority string) any {
	return adminapi.GetOutput{Time: at, Authority: authority, Exists: s.exists, Endpoints: s.list()}
}
