package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/proto"

	"isthmus/internal/adminapi"
)

// What is kept of what a server sends: more than any gateway does.
const (
	maxEndpoints = 100_000
	maxLabels    = 64        // of an endpoint, with those of its message
	maxBytes     = 128 << 20 // of all endpoints
)

var errTooLarge = fmt.Errorf("endpoints of more than %d MiB: the others are not shown", maxBytes>>20)

// getState is what a proxy holds after the messages of one Get stream. Its zero
// value is that of a proxy before the first message.
type getState struct {
	known, exists bool
	endpoints     map[netip.AddrPort]endpoint
	bytes         int // of the endpoints
}

// endpoint is what a proxy knows about one address.
type endpoint struct {
	*pb.WeightedAddr                 // with the labels of its message
	sent             json.RawMessage // the same
}

// size is that of the message, with what JSON has not, and that of its JSON, where a character may be six.
func (e endpoint) size() int { return proto.Size(e.WeightedAddr) + len(e.sent) }

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
	decoded := 0 // bytes: an address may be there again and again, with labels that all of them share
	for _, w := range set.GetAddrs() {
		addr, err := completed(w, set.GetMetricLabels())
		if err != nil {
			bad = err
			continue
		}
		if decoded += proto.Size(w); decoded > maxBytes {
			return errTooLarge
		}
		sent, err := messageJSON(w)
		if err != nil {
			bad = fmt.Errorf("endpoint %v that has no JSON, such as HTTP/2 parameters with a duration out of range", addr)
			continue
		}
		before, known := s.endpoints[addr]
		e := endpoint{w, sent}
		size := s.bytes - before.size() + e.size()
		switch {
		case !known && len(s.endpoints) == maxEndpoints:
			return fmt.Errorf("more than %d endpoints: the others are not shown", maxEndpoints)
		case size > maxBytes:
			return errTooLarge
		}
		s.endpoints[addr], s.bytes = e, size
	}
	return bad
}

// completed adds the labels of a whole add to one address of it, whose own go before those of the same name.
func completed(w *pb.WeightedAddr, setLabels map[string]string) (netip.AddrPort, error) {
	addr, err := decodeAddress(w.GetAddr())
	if err != nil {
		return addr, err
	}
	if len(setLabels)+len(w.GetMetricLabels()) > maxLabels {
		return addr, fmt.Errorf("endpoint %v with more than %d labels", addr, maxLabels)
	}
	labels := make(map[string]string)
	maps.Copy(labels, setLabels)
	maps.Copy(labels, w.GetMetricLabels())
	w.MetricLabels = labels
	return addr, nil
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
		s.bytes -= s.endpoints[addr].size()
		delete(s.endpoints, addr)
	}
	return bad
}

// addresses are those of the endpoints, sorted.
func (s *getState) addresses() []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(s.endpoints), netip.AddrPort.Compare)
}

func (s *getState) output(at time.Time, authority string) any {
	o := adminapi.GetOutput{Time: at, Authority: authority, Exists: s.exists, Endpoints: []adminapi.Endpoint{}}
	for _, addr := range s.addresses() {
		e := s.endpoints[addr]
		o.Endpoints = append(o.Endpoints, adminapi.Endpoint{Address: addr, Cluster: clusterOf(e.WeightedAddr), Sent: e.sent})
	}
	return o
}
