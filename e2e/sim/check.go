package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// away returns the clusters whose changes do not reach Isthmus at the moment.
func away(w *world) map[*cluster]bool {
	away := map[*cluster]bool{}
	for _, c := range w.clusters {
		if c.fault != nil && c.fault.away {
			away[c] = true
		}
	}
	return away
}

// wrong returns an error if the client does not hold what the oracle computes. Endpoints of
// clusters that are away are not compared.
func wrong(w *world, c *client, a answer, away map[*cluster]bool) error {
	if !c.wanted.Load() || c.stalled {
		return nil
	}
	now := c.stream.Snapshot()
	if c.kind == proxy.GetProfile {
		return wrongProfile(w, c.service, now)
	}
	if of := w.clusters[0].services[c.service]; of != nil {
		if m := w.named(of.Labels[kube.RemoteDiscovery]); away[m] && !takenOut(w, m) {
			return nil
		}
	}
	if a.code != codes.OK {
		return refused(now, a.code)
	}
	known := func(addr netip.AddrPort, c *cluster) bool {
		return len(away) == 0 || !shared(addr) && (!away[c] || takenOut(w, c))
	}
	all := a.endpoints
	if a.vague {
		all = a.served
	}
	want, got := map[netip.AddrPort]string{}, map[netip.AddrPort]string{}
	for addr, e := range now.Get.Endpoints() {
		if known(addr, clusterOf(w, e)) {
			got[addr] = textOf(e)
		}
	}
	for addr, e := range all {
		if _, held := got[addr]; known(addr, e.cluster) && (held || !a.vague) {
			want[addr] = e.text(c.zone)
		}
	}
	switch exists, _ := now.Get.Exists(); {
	case len(away) > 0 && len(want) == 0 && (len(got) == 0 || now.Phase != proxy.Open):
		return nil // the stream may be refused, since no cluster is known; the client keeps its endpoints
	case now.Phase != proxy.Open:
		return fmt.Errorf(
			"the stream is not open, and should have %v: %w",
			slices.SortedFunc(maps.Keys(want), netip.AddrPort.Compare),
			now.Err,
		)
	case exists != a.exists:
		return fmt.Errorf("exists=%v, should be %v", exists, a.exists)
	}
	return differ(got, want)
}

// refused returns an error unless the stream was rejected with the code, or, if it was open
// already, emptied.
func refused(now proxy.Snapshot, code codes.Code) error {
	if now.Phase == proxy.Ended && status.Code(now.Err) == code ||
		now.Phase == proxy.Open && now.First != nil && now.Get.Len() == 0 {
		return nil
	}
	return fmt.Errorf("%d endpoints and %w; should be rejected with %v", now.Get.Len(), now.Err, code)
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

// textOf returns what endpoint.text returns, but for an endpoint that a client holds.
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
	labels := e.Labels()
	if authority := e.Weighted.GetAuthorityOverride().GetAuthorityOverride(); authority != "" {
		labels[authorityLabel] = authority
	}
	return describe(labels, e.Weighted.GetTlsIdentity().GetDnsLikeIdentity().GetName(), hint)
}

// shared reports whether several clusters may use the address.
func shared(addr netip.AddrPort) bool {
	return strings.HasPrefix(addr.String(), sharedRange)
}

func clusterOf(w *world, e proxy.Endpoint) *cluster {
	if name := e.Labels()["target_cluster"]; name != "" {
		return w.named(name)
	}
	return w.clusters[0]
}
