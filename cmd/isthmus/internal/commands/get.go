package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

func getCommand() cli.Command {
	return streamCommand(cli.Command{
		Use:     "get AUTHORITY",
		Example: "web.shop.svc.cluster.local:80",
		Summary: "show a live view of the endpoints that a proxy receives for a service",
		Intro:   getIntro,
		Ending:  getEnding,
	}, session[pb.Update]{state: &getState{}, open: openGet, meanings: codeMeanings{
		codes.InvalidArgument: "The authority is invalid: it is not a service name in the local cluster domain, " +
			"or it names a Service of type ExternalName. A proxy does not retry.",
		codes.FailedPrecondition: "The Service is a mirror, but " +
			"its label multicluster.linkerd.io/remote-service is missing or invalid. A proxy does not retry.",
		codes.NotFound: "The local cluster has no such Service, " +
			"or the Service is a mirror for a cluster that is not linked. A proxy retries with backoff.",
		codes.Unavailable: "the replica has not read any data from the service's clusters yet",
	}})
}

// openGet opens a Get stream and asks the replica to label each endpoint with its tier. Servers
// other than Isthmus do not add tier labels.
func openGet(
	c pb.DestinationClient, ctx context.Context, q *pb.GetDestination, opts ...grpc.CallOption,
) (grpc.ServerStreamingClient[pb.Update], error) {
	return c.Get(metadata.AppendToOutgoingContext(ctx, "isthmus-explain", "tiers"), q, opts...)
}

// These constants limit the state that "isthmus get" stores. No replica reaches them.
const (
	maxEndpoints = 100_000
	maxLabels    = 64        // labels of an endpoint, including the labels of its message
	maxBytes     = 128 << 20 // size of all endpoints
)

var errTooLarge = fmt.Errorf("more than %d MiB of endpoints: the remaining endpoints are not shown",
	maxBytes>>20)

// getState is the state that a proxy builds from the messages of one Get stream. The zero value is
// the state before the first message.
type getState struct {
	known, exists bool
	endpoints     map[netip.AddrPort]endpoint
	bytes         int // size of all endpoints
}

// endpoint is one address and its properties, as a proxy stores them.
type endpoint struct {
	*pb.WeightedAddr                 // includes the labels of its message
	sent             json.RawMessage // the JSON form of the message
}

// size returns the total size, in bytes, of the message and its JSON form. Either form can be
// larger than the other, because the JSON form omits some parts of the message but may need six
// bytes per character.
func (e endpoint) size() int { return proto.Size(e.WeightedAddr) + len(e.sent) }

// apply applies a message in the same way as a proxy does. The first add message replaces the
// state. A remove message before the first add message is ignored. An empty add is dropped. If a
// part of the message is invalid, the rest is applied, and the result is an error.
func (s *getState) apply(u *pb.Update) error {
	switch u := u.GetUpdate().(type) {
	case *pb.Update_Add:
		return s.add(u.Add, maxBytes)
	case *pb.Update_Remove:
		return s.remove(u.Remove)
	case *pb.Update_NoEndpoints:
		s.known = true
		s.exists = u.NoEndpoints.GetExists()
		s.endpoints = nil
		s.bytes = 0
		return nil
	}
	return errors.New("a message other than add, remove or no_endpoints")
}

func (s *getState) started() bool { return s.known }

// add applies an add message. The limit applies to the total size of all endpoints.
func (s *getState) add(set *pb.WeightedAddrSet, limit int) error {
	if len(set.GetAddrs()) == 0 {
		return errors.New("an add message without addresses, which proxies ignore")
	}
	if s.endpoints == nil {
		s.endpoints = make(map[netip.AddrPort]endpoint)
	}
	s.known = true
	s.exists = true
	var bad error
	decoded := 0 // in bytes, because addresses may repeat and share large labels
	for _, w := range set.GetAddrs() {
		addr, err := completed(w, set.GetMetricLabels())
		if err != nil {
			bad = err
			continue
		}
		if decoded += proto.Size(w); decoded > limit {
			return errTooLarge
		}
		sent, err := messageJSON(w)
		if err != nil {
			bad = fmt.Errorf("an endpoint that cannot be encoded as JSON (%v): a duration may be out of range", addr)
			continue
		}
		before, known := s.endpoints[addr]
		e := endpoint{w, sent}
		size := s.bytes - before.size() + e.size()
		switch {
		case !known && len(s.endpoints) == maxEndpoints:
			return fmt.Errorf("more than %d endpoints: the remaining endpoints are not shown", maxEndpoints)
		case size > limit:
			return errTooLarge
		}
		s.endpoints[addr] = e
		s.bytes = size
	}
	return bad
}

func (s *getState) remove(set *pb.AddrSet) error {
	if !s.known {
		return errors.New("a remove message that proxies ignore, because no add message preceded it")
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

func (s *getState) addresses() []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(s.endpoints), netip.AddrPort.Compare)
}

func (s *getState) output(at time.Time, authority string) any {
	o := adminapi.GetOutput{Time: at, Authority: authority, Exists: s.exists, Endpoints: []adminapi.Endpoint{}}
	for _, addr := range s.addresses() {
		e := s.endpoints[addr]
		o.Endpoints = append(o.Endpoints,
			adminapi.Endpoint{Address: addr, Cluster: clusterOf(e.WeightedAddr), Sent: e.sent})
	}
	return o
}

func (s *getState) table() (string, []byte) {
	if len(s.endpoints) == 0 {
		return s.headline(), nil
	}
	takenOut := false
	var t cells
	t.row("ADDRESS", "CLUSTER", "ZONE", "TIER", "STANDING", "WEIGHT", "HINTS", "POD", "IDENTITY")
	for _, addr := range s.addresses() {
		w := s.endpoints[addr].WeightedAddr
		tier := w.GetMetricLabels()["isthmus_tier"]
		standing := w.GetMetricLabels()["isthmus_standing"]
		takenOut = takenOut || standing != "" && standing != "in-service"
		t.row(addr, clusterOf(w), zoneOf(w), tier, standing, w.GetWeight(), hintsOf(w), podOf(w), peerOf(w))
	}
	if !takenOut {
		for i, row := range t.rows {
			t.rows[i] = slices.Delete(row, standingColumn, standingColumn+1)
		}
	}
	var b bytes.Buffer
	t.write(&b, "  ")
	return s.headline(), b.Bytes()
}

// standingColumn is the index of the STANDING column, which is omitted if all endpoints are in
// service.
const standingColumn = 4

func (s *getState) headline() string {
	switch {
	case !s.exists:
		return "no endpoints: the service does not exist"
	case len(s.endpoints) == 0:
		return "no endpoints"
	}
	per := make(map[string]int)
	for _, e := range s.endpoints {
		per[clusterOf(e.WeightedAddr)]++
	}
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(per)) {
		parts = append(parts, fmt.Sprintf("%s %d", c, per[c]))
	}
	return fmt.Sprintf("%s (%s)", text.Count(len(s.endpoints), "endpoint", "endpoints"), strings.Join(parts, ", "))
}

// An add message can contain labels for all of its endpoints. This function merges such labels with
// the labels of one endpoint, and returns the endpoint's address. If two labels have the same name,
// the endpoint's own label takes precedence.
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

const getIntro = `isthmus get shows the endpoints of a service as a proxy receives them, live. It opens
a Get stream, applies the messages as a proxy does, and prints the endpoints after
each change. Press Ctrl-C to stop.

Usage: isthmus get AUTHORITY [FLAGS]

AUTHORITY is the name that an application dials: SERVICE.NAMESPACE.svc.DOMAIN:PORT or
INSTANCE.SERVICE.NAMESPACE.svc.DOMAIN:PORT. The default port is 80.`

const getEnding = `The table:
  CLUSTER   the label target_cluster, or "local" without the label; replicas with
            --target-cluster-label=false never send the label
  ZONE      the zone of the endpoint, and whether the client is in the same zone
  TIER      the tier of the endpoint in the service's preference; "-" if there is
            no preference, or if the server is not Isthmus
  STANDING  the standing of the endpoint's cluster; the column is omitted while all
            endpoints are in-service
  HINTS     the protocol (h2 or opaque); via:PORT for the proxy's inbound port;
            authority:NAME for a different authority
  IDENTITY  the required identity in the peer's TLS certificate

-o json prints one object per line for each state. go doc
isthmus/internal/adminapi.GetOutput explains its fields. The field "sent" of an endpoint
is the WeightedAddr of linkerd2-proxy-api in protobuf's JSON form. The labels
isthmus_tier and isthmus_standing are sent only to this command, not to proxies.

The exit code is 1 if the stream ends. The error explains the status.

Examples:
  isthmus get web.shop.svc.cluster.local:80
  isthmus get web.shop.svc.cluster.local:80 --once -o json \
    --addr 127.0.0.1:8086 --token '{"ns":"shop","nodeName":"node-1"}'`
