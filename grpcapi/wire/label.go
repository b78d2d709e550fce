package wire

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"isthmus/federation"
)

// Field numbers of an entry of metric_labels.
const (
	labelName  protowire.Number = 1
	labelValue protowire.Number = 2
)

// appendLabels appends the labels of an endpoint that are not shared.
func (e *Encoder) appendLabels(b []byte, ep *federation.Endpoint, shared []federation.Label) []byte {
	var room [labelRoom]federation.Label
	for _, l := range e.labels(room[:0], ep) {
		if !slices.Contains(shared, l) {
			b = appendLabel(b, addrLabels, l.Name, l.Value)
		}
	}
	return b
}

// labelRoom is more labels than an endpoint usually has, so that the list of its
// labels needs no allocation.
const labelRoom = 16

// labels appends all labels of an endpoint to list. No two have the same name.
func (e *Encoder) labels(list []federation.Label, ep *federation.Endpoint) []federation.Label {
	group := ep.Common.Get().Group
	list = appendOwn(append(list, group...), ep)
	if ep.Kind != federation.Address {
		list = append(list, federation.Label{Name: "zone", Value: ep.Zone})
	}
	list = append(list, federation.Label{Name: zoneLocality, Value: e.locality(ep)})
	if e.options.TargetClusterLabel && ep.Cluster != federation.Local && !slices.ContainsFunc(group, isTargetCluster) {
		list = append(list, federation.Label{Name: targetCluster, Value: string(ep.Cluster)})
	}
	return e.explain(list, ep)
}

// appendOwn appends the labels of an endpoint's Pod or Workload.
func appendOwn(list []federation.Label, ep *federation.Endpoint) []federation.Label {
	list = append(list, ep.Common.Get().Labels...)
	if name, ok := ep.NameLabel(); ok {
		list = append(list, name)
	}
	return list
}

// explain appends the labels that only clients get who ask for them.
func (e *Encoder) explain(list []federation.Label, ep *federation.Endpoint) []federation.Label {
	tier, standing, ok := e.tiers.Of(ep, e.zone)
	if !ok {
		return list
	}
	return append(list, federation.Label{Name: "isthmus_tier", Value: shorten(tier)}, federation.Label{Name: "isthmus_standing", Value: standing.String()})
}

// maxTier is how much of a tier's name an endpoint has. Whoever writes a Service may name many
// clusters in one tier, and each endpoint has the label.
const maxTier = 100

func shorten(name string) string {
	if len(name) <= maxTier {
		return name
	}
	return name[:maxTier] + "..."
}

// ofAddress reports whether a label has to be on the address, and so is never shared: "linkerd diagnostics endpoints" looks there for
// the endpoint's name, and proxies for whether it is in their zone. That is a part of what they compare endpoints by: were it shared in
// one message and not in the next, they would build the endpoint anew.
func ofAddress(l federation.Label) bool {
	return l.Name == "pod" || l.Name == "external_workload" || l.Name == zoneLocality && l.Value != "unknown"
}

const zoneLocality = "zone_locality"

const targetCluster = "target_cluster"

func isTargetCluster(l federation.Label) bool { return l.Name == targetCluster }

// sharedLabels returns the labels that all endpoints of the list have, which their
// message carries once: for a typical Deployment all but the Pod's name and its locality, so that a
// message is a third smaller. Of a single endpoint it returns the labels of its slice
// only: then the message has the same form as one of Linkerd's controller.
func (e *Encoder) sharedLabels(list []*federation.Endpoint) []federation.Label {
	if len(list) == 1 {
		return list[0].Common.Get().Group
	}
	var room [labelRoom]federation.Label
	shared := slices.DeleteFunc(e.labels(nil, list[0]), ofAddress)
	for _, ep := range list[1:] {
		labels := e.labels(room[:0], ep)
		shared = slices.DeleteFunc(shared, func(l federation.Label) bool { return !slices.Contains(labels, l) })
	}
	return shared
}

// locality returns the value of the label zone_locality.
func (e *Encoder) locality(ep *federation.Endpoint) string {
	switch {
	case e.zone == "" || zone(ep) == "":
		return "unknown"
	case ep.Zone == e.zone:
		return "local"
	}
	return "remote"
}

func appendLabel(b []byte, field protowire.Number, name, value string) []byte {
	return nested(b, field, func(b []byte) []byte {
		return appendText(appendText(b, labelName, name), labelValue, value)
	})
}
