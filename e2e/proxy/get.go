package proxy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Fault describes a violation of the protocol by the server.
type Fault string

const (
	FirstRemove Fault = "a remove before any add: a proxy ignores it"
	EmptyAdd    Fault = "an add without addresses: a proxy drops it"
	LateFirst   Fault = "the first message came too late: a proxy has given up by then"
	BadAddress  Fault = "an invalid address"
	TwiceInOne  Fault = "an address twice in one message"
	NoUpdate    Fault = "a message without an update"
	TooDeep     Fault = "a message nested too deeply: a proxy cannot read it"
)

// Endpoint is an address with the metadata from its most recent add.
type Endpoint struct {
	Weighted  *pb.WeightedAddr  // as received; read-only
	SetLabels map[string]string // labels of the add message; read-only
}

// Labels returns the labels of the endpoint, which override the labels of its add message. From the
// add message, the label zone_locality is only used if its value is "unknown".
func (e Endpoint) Labels() map[string]string {
	labels := make(map[string]string, len(e.SetLabels)+len(e.Weighted.GetMetricLabels()))
	maps.Copy(labels, e.SetLabels)
	if labels["zone_locality"] != "unknown" {
		delete(labels, "zone_locality")
	}
	maps.Copy(labels, e.Weighted.GetMetricLabels())
	return labels
}

// Metadata returns everything known about the endpoint except its address, as protobuf JSON.
func (e Endpoint) Metadata() (map[string]any, error) {
	tree, err := jsonTree(e.Weighted)
	if err != nil {
		return nil, err
	}
	delete(tree, "addr")
	delete(tree, "resourceRef")
	delete(tree, "metricLabels")
	if labels := e.Labels(); len(labels) > 0 {
		all := make(map[string]any, len(labels))
		for k, v := range labels {
			all[k] = v
		}
		tree["metricLabels"] = all
	}
	if hint, ok := tree["protocolHint"].(map[string]any); ok && len(hint) == 0 {
		delete(tree, "protocolHint")
	}
	return tree, nil
}

// GetState is the state that a proxy derives from a Get stream. The zero value is an empty state.
type GetState struct {
	known, exists bool
	replaced      bool // whether an add with addresses or a no_endpoints has been received since Open
	endpoints     map[netip.AddrPort]Endpoint
}

// Open begins a new call. The state is kept until a message replaces it.
func (s *GetState) Open() { s.replaced = false }

// Apply folds one message into the state and returns the faults in the message.
func (s *GetState) Apply(u *pb.Update) []Fault {
	switch u := u.GetUpdate().(type) {
	case *pb.Update_Add:
		return s.add(u.Add)
	case *pb.Update_Remove:
		return s.remove(u.Remove)
	case *pb.Update_NoEndpoints:
		s.known, s.exists, s.replaced = true, u.NoEndpoints.GetExists(), true
		s.endpoints = nil
		return nil
	default:
		return []Fault{NoUpdate}
	}
}

func (s *GetState) add(set *pb.WeightedAddrSet) (faults []Fault) {
	if len(set.GetAddrs()) == 0 {
		return []Fault{EmptyAdd}
	}
	whole := !s.replaced || s.endpoints == nil
	if whole {
		s.endpoints = make(map[netip.AddrPort]Endpoint, len(set.GetAddrs()))
	}
	s.known, s.exists, s.replaced = true, true, true
	for _, w := range set.GetAddrs() {
		addr, ok := AddrPort(w.GetAddr())
		if !ok {
			faults = append(faults, BadAddress)
			continue
		}
		s.endpoints[addr] = Endpoint{Weighted: w, SetLabels: set.GetMetricLabels()}
	}
	if whole && len(s.endpoints)+len(faults) < len(set.GetAddrs()) {
		faults = append(faults, TwiceInOne)
	}
	return faults
}

func (s *GetState) remove(set *pb.AddrSet) (faults []Fault) {
	if !s.replaced {
		return []Fault{FirstRemove}
	}
	s.known, s.exists = true, true
	for _, a := range set.GetAddrs() {
		addr, ok := AddrPort(a)
		if !ok {
			faults = append(faults, BadAddress)
			continue
		}
		delete(s.endpoints, addr)
	}
	return faults
}

// Exists reports whether the service exists. It returns known = false before the first message that
// says so.
func (s *GetState) Exists() (exists, known bool) { return s.exists, s.known }

func (s *GetState) Len() int { return len(s.endpoints) }

func (s *GetState) Has(addr netip.AddrPort) bool {
	_, ok := s.endpoints[addr]
	return ok
}

// Addrs returns the addresses in ascending order.
func (s *GetState) Addrs() []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(s.endpoints), netip.AddrPort.Compare)
}

// Endpoints returns a copy of the endpoints.
func (s *GetState) Endpoints() map[netip.AddrPort]Endpoint { return maps.Clone(s.endpoints) }

func (s *GetState) Clone() *GetState {
	c := *s
	c.endpoints = maps.Clone(s.endpoints)
	return &c
}

// JSON returns the state as a tree of JSON values: {"exists": null|bool, "endpoints": {ADDRESS: METADATA}}.
func (s *GetState) JSON() (any, error) {
	endpoints := make(map[string]any, len(s.endpoints))
	for addr, e := range s.endpoints {
		tree, err := e.Metadata()
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", addr, err)
		}
		endpoints[addr.String()] = tree
	}
	state := map[string]any{"exists": nil, "endpoints": endpoints}
	if s.known {
		state["exists"] = s.exists
	}
	return state, nil
}

func jsonTree(m proto.Message) (map[string]any, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("protobuf to JSON: %w", err)
	}
	tree := map[string]any{}
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("reading protobuf's JSON: %w", err)
	}
	return tree, nil
}
