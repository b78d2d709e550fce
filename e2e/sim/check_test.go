package sim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"

	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/e2e/proxy/destinationtest"
	"isthmus/internal/spec"
)

// stage is a local service s00 with two endpoints, and a client of a server that sends what the
// test chooses.
type stage struct {
	t      *testing.T
	world  *world
	client *client
	audit  *audit
	send   chan *pb.Update
	sent   int64
}

const first, second = "10.0.0.1", "10.0.0.2"

func newStage(t *testing.T) *stage {
	w, err := newWorld(Config{Clusters: 2, Services: 1, Faults: regexp.MustCompile("")})
	if err != nil {
		t.Fatal(err)
	}
	slice := kube.Slice(namespace, "s00", "000")
	for i, ip := range []string{first, second} {
		pod := newPod([]string{"a", "b"}[i], "s00", look{})
		slice.Endpoints = append(slice.Endpoints, newEndpoint(ip, pod.Name, ""))
		w.put(w.clusters[0], "s00", pod)
	}
	w.put(w.clusters[0], "s00", newService("s00"), slice)

	server := destinationtest.Start(t)
	s := &stage{t: t, world: w, send: make(chan *pb.Update)}
	server.OnGet("s00.sim.svc.cluster.local:80", func(stream grpc.ServerStreamingServer[pb.Update]) error {
		for {
			select {
			case u := <-s.send:
				if err := stream.Send(u); err != nil {
					return err
				}
			case <-stream.Context().Done():
				return nil
			}
		}
	})
	cs, err := connect(server.Addr(), 1)
	if err != nil {
		t.Fatal(err)
	}
	s.client = newClient(cs.links[0], proxy.Get, "s00", "", "")
	s.client.wanted.Store(true)
	cs.all = []*client{s.client}
	s.audit = newAudit(w, cs)
	w.written = s.audit.written
	if err := s.client.stream.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cs.stop(); err != nil {
			t.Error(err)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// receive makes the server send the updates, and waits until the client has received them.
func (s *stage) receive(updates ...*pb.Update) {
	for _, u := range updates {
		s.send <- u
		s.sent++
		if err := s.client.stream.Until(s.t.Context(), time.Minute, func() error {
			if got := s.client.stream.Status().Messages; got != s.sent {
				return fmt.Errorf("%d messages received, want %d", got, s.sent)
			}
			return nil
		}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// add returns an update that adds addresses with the right labels, except those that change
// modifies.
func add(change func(map[string]string), ips ...string) *pb.Update {
	set := &pb.WeightedAddrSet{}
	for _, ip := range ips {
		labels := map[string]string{
			"namespace":      "sim",
			"service":        "s00",
			"serviceaccount": "s00-account",
			"zone":           "",
			"zone_locality":  "unknown",
			"pod":            map[string]string{first: "a", second: "b"}[ip],
		}
		if change != nil {
			change(labels)
		}
		set.Addrs = append(set.Addrs, &pb.WeightedAddr{Addr: destinationtest.TCP(ip + ":8080"), MetricLabels: labels})
	}
	return &pb.Update{Update: &pb.Update_Add{Add: set}}
}

// TestWrong checks that wrong detects each difference between what a client holds and what it
// should.
func TestWrong(t *testing.T) {
	for _, x := range []struct {
		name    string
		updates []*pb.Update
		want    string // part of the error; empty means no error
	}{
		{"no difference", []*pb.Update{add(nil, first, second)}, ""},
		{"no message yet", nil, "exists=false, should be true"},
		{"one is missing", []*pb.Update{add(nil, first)}, "10.0.0.2:8080 is not there"},
		{"one too many", []*pb.Update{add(nil, first, second, "10.0.0.3")}, "10.0.0.3:8080 should not be there"},
		{
			"another label",
			[]*pb.Update{add(func(l map[string]string) { l["serviceaccount"] = "x" }, first, second)},
			"10.0.0.1:8080 is",
		},
		{
			"no label",
			[]*pb.Update{add(func(l map[string]string) { delete(l, "zone") }, first, second)},
			"10.0.0.1:8080 is",
		},
		{"the Service does not exist", []*pb.Update{destinationtest.None(false)}, "exists=false, should be true"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newStage(t)
			s.receive(x.updates...)
			expect(t, wrong(s.world, s.client, ask(s.world, view{"s00", ""}), nil), x.want)
		})
	}
}

// TestWrongProfile checks that wrongProfile detects each difference between profiles.
func TestWrongProfile(t *testing.T) {
	s := newStage(t)
	local := s.world.clusters[0]
	s.world.put(local, "s00", newProfile("s00", []string{"/a", "/b"}))
	toggleOpaque(s.world, local, "s00")
	routes := func(names ...string) (list []*pb.Route) {
		for _, name := range names {
			list = append(list, &pb.Route{MetricsLabels: map[string]string{"route": name}})
		}
		return list
	}
	name := fullName("s00")
	for _, x := range []struct {
		service string
		profile *pb.DestinationProfile
		want    string
	}{
		{"s00", &pb.DestinationProfile{FullyQualifiedName: name, OpaqueProtocol: true, Routes: routes("/a", "/b")}, ""},
		{
			"s00",
			&pb.DestinationProfile{FullyQualifiedName: name, OpaqueProtocol: true, Routes: routes("/b", "/a")},
			"should be",
		},
		{"s00", &pb.DestinationProfile{FullyQualifiedName: name, Routes: routes("/a", "/b")}, "should be"},
		{"s00", &pb.DestinationProfile{}, "should be"},
		{"gone", &pb.DestinationProfile{}, ""},
		{"gone", &pb.DestinationProfile{FullyQualifiedName: fullName("gone")}, "should be"},
	} {
		state := &proxy.ProfileState{}
		state.Apply(x.profile)
		now := proxy.Snapshot{Status: proxy.Status{Phase: proxy.Open, First: &proxy.Message{}}, Profile: state}
		expect(t, wrongProfile(s.world, x.service, now), x.want)
	}
}

// TestSeen checks that seen detects endpoints that were only absent for a while.
func TestSeen(t *testing.T) {
	gone := destinationtest.Remove(first + ":8080")
	slice := func(s *stage, ready bool) {
		l := s.world.clusters[0].slices["s00-000"].DeepCopy()
		l.Endpoints[0].Conditions.Ready = &ready
		s.world.put(s.world.clusters[0], "s00", l)
	}
	for _, x := range []struct {
		name string
		then func(*stage)
		want string
	}{
		{"nothing", func(*stage) {}, ""},
		{"removed and added again", func(s *stage) { s.receive(gone, add(nil, first)) }, "10.0.0.1:8080 was absent"},
		{"removed", func(s *stage) { s.receive(gone) }, "10.0.0.1:8080 was absent"},
		{"removed while unready", func(s *stage) {
			slice(s, false)
			slice(s, true)
			s.receive(gone, add(nil, first))
		}, ""},
		{
			"emptied and filled again",
			func(s *stage) { s.receive(destinationtest.None(true), add(nil, first, second)) },
			"was absent",
		},
		{"an empty add", func(s *stage) { s.receive(destinationtest.Add()) }, "an add without addresses"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newStage(t)
			s.receive(add(nil, first, second))
			s.audit.mark(&clients{all: []*client{s.client}})
			if len(s.client.held) != 2 || s.client.held[0] != netip.MustParseAddrPort(first+":8080") {
				t.Fatalf("the client holds %v", s.client.held)
			}
			x.then(s)
			_, err := s.audit.seen(s.client, false)
			expect(t, err, x.want)
		})
	}
}

// TestDips checks that dips detects when a client had too few endpoints, counting all tiers.
func TestDips(t *testing.T) {
	for _, x := range []struct {
		name             string
		prefer, minReady string
		then             func(*stage)
		want             string
	}{
		{"one is left", "any", "1", func(s *stage) { s.receive(destinationtest.Remove(first + ":8080")) }, ""},
		{"none is left", "remote, any", "1", func(s *stage) {
			s.receive(destinationtest.Remove(first+":8080", second+":8080"), add(nil, first, second))
		},
			"0 endpoints after message"},
		{"two have to be ready", "remote, any", "2",
			func(s *stage) { s.receive(destinationtest.Remove(first+":8080"), add(nil, first, second)) },
			"1 endpoints after message"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newStage(t)
			o := newService("s00")
			o.Annotations = map[string]string{spec.PreferKey: x.prefer, spec.MinReadyKey: x.minReady}
			s.world.put(s.world.clusters[0], "s00", o)
			s.receive(add(nil, first, second))
			for range 2 {
				s.audit.mark(&clients{all: []*client{s.client}})
			}
			x.then(s)
			expect(t, s.audit.dips(s.client), x.want)
		})
	}
}

// TestLasted checks that lasted counts each address once, and only if it had lasted before the
// mark.
func TestLasted(t *testing.T) {
	of := func(ip, cluster string) offer {
		return offer{netip.MustParseAddrPort(ip + ":8080"), cluster, "pod"}
	}
	k := known{
		always: map[offer]grade{of(first, "east"): certain, of(first, "south"): reserved, of(second, "east"): reserved,
			of("10.0.0.3", "east"): useful, of("10.0.0.4", "east"): unused, of("10.0.0.5", "east"): certain},
		before: map[offer]bool{of(first, "east"): true, of(first, "south"): true, of(second, "east"): true,
			of("10.0.0.3", "east"): true, of("10.0.0.4", "east"): true, of("10.0.0.5", "east"): false},
	}
	if usable, inService := k.lasted(); usable != 3 || inService != 2 {
		t.Errorf("%d usable endpoints, %d in service", usable, inService)
	}
}

// TestReadiness checks that readiness keeps the error of a check that failed once.
func TestReadiness(t *testing.T) {
	var r readiness
	asked := 0
	r.run(t.Context(), func(context.Context) error {
		if asked++; asked < 3 {
			return r.err()
		}
		return errors.New("not ready")
	})
	expect(t, r.err(), "not ready")
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
