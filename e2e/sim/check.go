package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
)

// audit knows, for each Service that clients ask for, what has been on offer all the time since the last mark.
type audit struct {
	world  *world
	byBase map[string][]string       // the Services to know of, by the service that they are made of
	always map[string]map[offer]bool // by Service
}

func newAudit(w *world, cs *clients) *audit {
	a := &audit{world: w, byBase: map[string][]string{}, always: map[string]map[offer]bool{}}
	for _, c := range cs.all {
		if !slices.Contains(a.byBase[c.base()], c.service) {
			a.byBase[c.base()] = append(a.byBase[c.base()], c.service)
		}
	}
	return a
}

// mark begins anew, with all that is on offer and what the clients have of it. Of a cluster that is away, or was until now,
// the gateway may not know yet what has gone and come again before. A client that waits for a first message may hold what
// is long gone.
func (a *audit) mark(cs *clients) {
	for _, services := range a.byBase {
		for _, s := range services {
			now := a.world.ask(s).offers
			for o := range now {
				if a.world.named(o.cluster).shaken && !a.always[s][o] {
					delete(now, o)
				}
			}
			a.always[s] = now
		}
	}
	for _, c := range a.world.clusters {
		c.shaken = c.fault != nil
	}
	for _, c := range cs.all {
		c.stream.Mark()
		c.held = nil
		if now := c.stream.Status(); now.Phase != proxy.Open || now.First == nil {
			continue
		}
		c.held = slices.DeleteFunc(a.addrs(c.service), func(addr netip.AddrPort) bool { return c.stream.Flapped(addr) != nil })
	}
}

// addrs are the addresses that some cluster has offered all the time.
func (a *audit) addrs(service string) []netip.AddrPort {
	var list []netip.AddrPort
	for o := range a.always[service] {
		list = append(list, o.addr)
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}

// written removes the offers that are gone, of a service or (empty) of any.
func (a *audit) written(service string) {
	for base, all := range a.byBase {
		if service != "" && service != base {
			continue
		}
		for _, s := range all {
			now := a.world.ask(s).offers
			for o := range a.always[s] {
				if !now[o] {
					delete(a.always[s], o)
				}
			}
		}
	}
}

// seen returns what a client has seen that no client may. Where time was short (hasty) a late message is no error: it
// is counted.
func (a *audit) seen(c *client, hasty bool) (late int, err error) {
	faults := c.stream.Status().Faults
	for _, f := range faults[c.faults:] {
		if f != proxy.LateFirst || !hasty {
			return late, fmt.Errorf("the gateway sent: %s", f)
		}
		late++
	}
	c.faults = len(faults)
	return late, a.flaps(c)
}

// flaps returns why a client has not had all the time what was there all the time.
func (a *audit) flaps(c *client) error {
	stayed := slices.DeleteFunc(a.addrs(c.service), func(addr netip.AddrPort) bool {
		_, held := slices.BinarySearchFunc(c.held, addr, netip.AddrPort.Compare)
		return !held
	})
	if len(stayed) == 0 {
		return nil
	}
	if err := c.stream.Flapped(stayed...); err != nil {
		return fmt.Errorf("taken away in between, though it was there all the time: %w", err)
	}
	return nil
}

// away returns the clusters whose changes do not reach the gateway for now.
func (w *world) away() map[*cluster]bool {
	away := map[*cluster]bool{}
	for _, c := range w.clusters {
		if c.fault != nil && c.fault.away {
			away[c] = true
		}
	}
	return away
}

// wrong returns why a client does not hold what the oracle computes; nil: it does, as far as that is known. What is in
// clusters that are away is not.
func (w *world) wrong(c *client, a answer, away map[*cluster]bool) error {
	if !c.wanted.Load() || c.stalled {
		return nil
	}
	now := c.stream.Snapshot()
	if c.kind == proxy.GetProfile {
		return w.wrongProfile(c.service, now)
	}
	if of := w.clusters[0].services[c.service]; of != nil && away[w.named(of.Labels[object.RemoteDiscovery])] {
		return nil
	}
	if a.code != codes.OK {
		return refused(now, a.code)
	}
	known := func(addr netip.AddrPort, c *cluster) bool { return len(away) == 0 || !away[c] && !shared(addr) }
	want, got := map[netip.AddrPort]string{}, map[netip.AddrPort]string{}
	for addr, e := range a.endpoints {
		if known(addr, e.cluster) {
			want[addr] = e.text(c.zone)
		}
	}
	for addr, e := range now.Get.Endpoints() {
		if known(addr, w.clusterOf(e)) {
			got[addr] = textOf(e)
		}
	}
	switch exists, _ := now.Get.Exists(); {
	case len(away) > 0 && len(want) == 0:
		return nil // it may be refused, since nothing is known
	case now.Phase != proxy.Open:
		return fmt.Errorf("the stream is not open: %w", now.Err)
	case exists != a.exists:
		return fmt.Errorf("exists=%v, should be %v", exists, a.exists)
	}
	return differ(got, want)
}

// refused returns an error unless the stream has been refused, or emptied if it was open already.
func refused(now proxy.Snapshot, code codes.Code) error {
	if now.Phase == proxy.Ended && status.Code(now.Err) == code || now.Phase == proxy.Open && now.First != nil && now.Get.Len() == 0 {
		return nil
	}
	return fmt.Errorf("%d endpoints and %w; should be refused by %v", now.Get.Len(), now.Err, code)
}

func differ(got, want map[netip.AddrPort]string) error {
	var list []string
	for addr, text := range want {
		switch held, ok := got[addr]; {
		case !ok:
			list = append(list, fmt.Sprintf("%s is not there: %s", addr, text))
		case held != text:
			list = append(list, fmt.Sprintf("%s is %s\n    should be %s", addr, held, text))
		}
	}
	for addr, text := range got {
		if _, ok := want[addr]; !ok {
			list = append(list, fmt.Sprintf("%s should not be there: %s", addr, text))
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	const most = 10
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%d endpoints, should be %d:\n    %s", len(got), len(want), strings.Join(list, "\n    "))
}

// textOf returns the same as endpoint.text, of what a client holds.
func textOf(e proxy.Endpoint) string {
	hint := "none"
	switch h := e.Weighted.GetProtocolHint(); {
	case h.GetOpaque() != nil:
		hint = "opaque"
		if port := h.GetOpaqueTransport().GetInboundPort(); port != 0 {
			hint = fmt.Sprintf("opaque by %d", port)
		}
	case h.GetH2() != nil:
		hint = "h2"
	}
	return describe(e.Labels(), e.Weighted.GetTlsIdentity().GetDnsLikeIdentity().GetName(), hint)
}

// shared reports whether several clusters may have the address.
func shared(addr netip.AddrPort) bool {
	return strings.HasPrefix(addr.String(), sharedRange)
}

// clusterOf returns the cluster that an endpoint names in its labels.
func (w *world) clusterOf(e proxy.Endpoint) *cluster {
	if name := e.Labels()["target_cluster"]; name != "" {
		return w.named(name)
	}
	return w.clusters[0]
}
