package cluster

import (
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"isthmus/federation"
	"isthmus/internal/legible"
)

// leftOut is an address of a slice of which no endpoint is made, whatever the port.
type leftOut struct {
	ip     netip.Addr // not valid: text has what is written there
	text   string
	target string // kind, namespace and name of what it stands for, as far as they are written
	why    federation.Verdict
}

type leftOuts []leftOut

// maxLeftText is how much of a text is kept for explanations, in bytes.
const maxLeftText = 100

// add adds addresses that stand for an object, and why they are left out; to nil it does
// not.
func (l *leftOuts) add(ref *corev1.ObjectReference, why federation.Verdict, addresses ...string) {
	if l == nil {
		return
	}
	x := leftOut{why: why}
	if ref != nil {
		x.target = beginning(strings.Trim(ref.Kind+" "+strings.Trim(ref.Namespace+"/"+ref.Name, "/"), " "))
	}
	for _, text := range addresses {
		var ok bool
		if x.ip, ok = parseIP(text); !ok {
			x.text = beginning(text)
		} else {
			x.text = ""
		}
		*l = append(*l, x)
	}
}

// beginning returns a text that takes at most maxLeftText, and no memory of a longer one.
func beginning(text string) string {
	return strings.Clone(strings.ToValidUTF8(legible.Beginning(text, maxLeftText), "\uFFFD"))
}

func (d *sliceData) leftOut() []leftOut {
	if d.notServed == nil {
		return nil
	}
	return d.notServed.left
}

// leave replaces what is left out. state.mu is held.
func (d *sliceData) leave(list []leftOut) {
	switch {
	case d.notServed != nil:
		d.notServed.left = list
	case len(list) > 0:
		d.notServed = &notServed{left: list}
	}
}

// Explain implements [federation.Explainer]. It holds the state's lock for one slice at a
// time.
func (c *Cluster) Explain(svc federation.ServiceID, port uint16) iter.Seq[federation.Considered] {
	return func(yield func(federation.Considered) bool) {
		var list []federation.Considered
		for _, l := range c.state.slicesOf(svc) {
			list = c.state.explainSlice(list[:0], l, svc, port)
			for _, x := range list {
				if !yield(x) {
					return
				}
			}
		}
	}
}

func (s *state) slicesOf(svc federation.ServiceID) []*slice {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.services[svc]; e != nil {
		return slices.Clone(e.slices)
	}
	return nil
}

// explainSlice joins a slice for a reader that there is not, and adds what becomes of its
// addresses to a list.
func (s *state) explainSlice(list []federation.Considered, l *slice, svc federation.ServiceID, port uint16) []federation.Considered {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.slices[l.key] != l || l.data.service != svc {
		return list // gone, or moved to another Service, meanwhile
	}
	r := &reader{state: s, service: svc, port: port, explained: &list}
	if e := s.services[svc]; e.state() == federation.Present {
		r.join(l, e.spec.portRef(port), &federation.Slice{})
	} else {
		for i, sub := range l.data.subsets {
			r.explainAll(l, sub.addresses, l.data.unready(i), federation.NoSuchService)
		}
	}
	for _, x := range l.data.leftOut() {
		addr := netip.AddrPort{}
		if x.ip.IsValid() {
			addr = netip.AddrPortFrom(x.ip, 0)
		}
		list = append(list, federation.Considered{Slice: l.key, Addr: addr, Text: x.text, Target: x.target, Verdict: x.why})
	}
	for i := range list {
		list[i].Changed = time.Unix(0, l.changed)
	}
	return list
}

// explain explains an address that is ready.
func (r *reader) explain(l *slice, a *address, port uint16, why federation.Verdict) {
	x := federation.Considered{Slice: l.key, Addr: netip.AddrPortFrom(a.ip, port), Target: DescribeTarget(a.target), Verdict: why}
	if why == federation.Unusable {
		x.Detail = beginning(a.pod.facts.template.Value().invalid)
	}
	*r.explained = append(*r.explained, x)
}

// explainUnready explains an address that is not ready.
func (r *reader) explainUnready(l *slice, u *unready, port uint16, why federation.Verdict) {
	*r.explained = append(*r.explained, federation.Considered{Slice: l.key, Addr: netip.AddrPortFrom(u.ip, port), Target: DescribeTarget(u.target), Verdict: why})
}

// explainAll explains addresses of which none is served.
func (r *reader) explainAll(l *slice, addresses []address, waiting []unready, why federation.Verdict) {
	if r.explained == nil {
		return
	}
	for i := range addresses {
		r.explain(l, &addresses[i], 0, why)
	}
	for i := range waiting {
		r.explainUnready(l, &waiting[i], 0, why)
	}
}

// DescribeTarget is the Twin of an endpoint in words: what the address stands for; empty:
// nothing.
func DescribeTarget(target string) string {
	switch targetKind(target) {
	case federation.Pod:
		return "Pod " + target
	case federation.Workload:
		return "ExternalWorkload " + strings.TrimPrefix(target, workloadPrefix)
	}
	return ""
}
