package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"isthmus/e2e/proxy"
)

// endpoints contains sorted addresses by cluster.
type endpoints map[string][]netip.AddrPort

// byCluster groups a proxy's endpoints by the label target_cluster. Endpoints without this label
// are in the local cluster.
func byCluster(state *proxy.GetState) endpoints {
	e := endpoints{}
	for addr, endpoint := range state.Endpoints() {
		name := endpoint.Labels()["target_cluster"]
		if name == "" {
			name = west
		}
		e[name] = append(e[name], addr)
	}
	for _, addrs := range e {
		slices.SortFunc(addrs, netip.AddrPort.Compare)
	}
	return e
}

func (e endpoints) counts() []int {
	var counts []int
	for _, name := range names {
		counts = append(counts, len(e[name]))
	}
	return counts
}

func (e endpoints) all() []netip.AddrPort {
	var all []netip.AddrPort
	for _, addrs := range e {
		all = append(all, addrs...)
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

func (e endpoints) kept(other endpoints) []netip.AddrPort {
	theirs := other.all()
	return slices.DeleteFunc(e.all(), func(a netip.AddrPort) bool { return !slices.Contains(theirs, a) })
}

// differs describes how the seen endpoints differ from the wanted ones. It returns an empty string
// if they are equal.
func (e endpoints) differs(seen endpoints) string {
	var lines []string
	clusters := slices.Clone(names)
	for name := range seen {
		if !slices.Contains(clusters, name) {
			clusters = append(clusters, name)
		}
	}
	for _, name := range clusters {
		for _, addr := range e[name] {
			if !slices.Contains(seen[name], addr) {
				lines = append(lines, fmt.Sprintf("  %s of %s is missing", addr, name))
			}
		}
		for _, addr := range seen[name] {
			if !slices.Contains(e[name], addr) {
				lines = append(lines, fmt.Sprintf("  %s of %s should not be there", addr, name))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// tiers returns the tiers of the preference "local, any" that contain endpoints.
func (e endpoints) tiers() string {
	var list []string
	if len(e[west]) > 0 {
		list = append(list, "local")
	}
	if len(e[east])+len(e[north]) > 0 {
		list = append(list, "any")
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// look returns an error unless the stream has the wanted endpoints.
func look(stream *proxy.Stream, want endpoints) error {
	snap := stream.Snapshot()
	diff := want.differs(byCluster(snap.Get))
	switch {
	case snap.Phase != proxy.Open:
		return fmt.Errorf("the stream ended: %v", snap.Err)
	case len(snap.Faults) > 0:
		return fmt.Errorf("invalid message from Isthmus: %s", snap.Faults[0])
	case snap.First == nil:
		return fmt.Errorf("no message received yet")
	case diff != "":
		return fmt.Errorf("the proxy does not see what it should:\n%s", diff)
	}
	return nil
}

// await waits until the stream has the wanted endpoints, and returns the time of the last message
// before that.
func await(ctx context.Context, stream *proxy.Stream, want endpoints, limit time.Duration) (at time.Time, err error) {
	err = stream.Until(ctx, limit, func() error {
		err := look(stream, want)
		if err == nil {
			recent := stream.Recent()
			at = recent[len(recent)-1].At
		}
		return err
	})
	return at, err
}

// hold returns an error if the endpoints of the stream change within the duration.
func hold(ctx context.Context, stream *proxy.Stream, want endpoints, duration time.Duration) error {
	return stream.Stays(ctx, duration, func() error { return look(stream, want) })
}
