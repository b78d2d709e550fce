package cluster

import (
	"cmp"
	"iter"
	"net/netip"
	"strings"
	"time"

	"isthmus/federation"
	"isthmus/internal/text"
)

func explain(c *cache, svc federation.ServiceID, port uint16) iter.Seq[federation.Considered] {
	return func(yield func(federation.Considered) bool) {
		var list []federation.Considered
		for _, l := range c.services.slicesOf(svc) {
			list = explainSlice(c, list[:0], l, svc, port)
			for _, x := range list {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// For each address of the slice, explainSlice appends a verdict to the given list.
func explainSlice(
	c *cache, list []federation.Considered, l *slice, svc federation.ServiceID, port uint16,
) []federation.Considered {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if l = c.slices.byKey[l.key]; l == nil || l.service != svc {
		return list // deleted, or assigned to another Service in the meantime
	}
	if e := c.services.byID[svc]; e.state() == federation.Present {
		r := &reader{cache: c, service: svc, port: port, explained: &list}
		r.join(l, e.spec.portRef(port), &federation.Slice{})
		return list
	}
	for _, sub := range l.subsets {
		for i := range sub.addresses {
			a := &sub.addresses[i]
			at := a.facts.Value()
			why := federation.NoSuchService
			if at.leftOut {
				why = at.why
			}
			list = append(list, considered(l, a, &at, 0, why))
		}
	}
	return list
}

func considered(l *slice, a *address, at *addressFacts, port uint16, why federation.Verdict) federation.Considered {
	x := federation.Considered{
		Slice:   l.key,
		Text:    at.text,
		Target:  cmp.Or(at.other, DescribeTarget(a.target)),
		Verdict: why,
		Changed: time.Unix(0, l.changed),
	}
	if a.ip.IsValid() {
		x.Addr = netip.AddrPortFrom(a.ip, port)
	}
	if why == federation.Unusable {
		x.Detail = beginning(a.pod.facts.template.Value().invalid)
	}
	return x
}

// DescribeTarget describes the Pod or ExternalWorkload in the Twin field of an endpoint. If the
// Twin field is empty, DescribeTarget returns "".
func DescribeTarget(target string) string {
	switch targetKind(target) {
	case federation.Pod:
		return "Pod " + target
	case federation.Workload:
		return "ExternalWorkload " + strings.TrimPrefix(target, workloadPrefix)
	}
	return ""
}

// maxLeftText is the maximum length, in bytes, of a string in an explanation.
const maxLeftText = 100

// In explanations, each string is truncated to maxLeftText bytes plus an ellipsis, and invalid
// UTF-8 is removed or replaced. The string in the explanation is always a copy, so that the
// original string can be garbage collected. Truncating a truncated string again does not change the
// string.
func beginning(s string) string {
	valid := strings.ToValidUTF8(text.Truncate(s, maxLeftText), "\uFFFD")
	return strings.Clone(text.Truncate(valid, maxLeftText))
}
