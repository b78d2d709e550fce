package lists

import (
	"cmp"
	"slices"
	"strings"

	"isthmus/internal/adminapi"
)

var clusters = kind[adminapi.ClusterLine]{
	text: func(c *adminapi.ClusterLine) string {
		return strings.Join([]string{c.Cluster.Cluster, string(c.State), c.Standing, c.Region, c.Network, c.Server, c.Secret, c.Reason}, "\n")
	},
	parts: named[func(*adminapi.ClusterLine) bool]{{"", nil}, {"problems", func(c *adminapi.ClusterLine) bool { return c.Severity > adminapi.Fine }}},
	order: named[func(a, b *adminapi.ClusterLine) int]{
		{"problems", func(a, b *adminapi.ClusterLine) int {
			return cmp.Or(cmp.Compare(b.Severity, a.Severity), byCluster(a, b))
		}},
		{"name", byCluster},
		{"state", func(a, b *adminapi.ClusterLine) int { return cmp.Or(cmp.Compare(a.State, b.State), byCluster(a, b)) }},
		{"since", func(a, b *adminapi.ClusterLine) int { return cmp.Or(b.Since.Compare(a.Since), byCluster(a, b)) }},
	},
}

// byCluster has the own cluster, which has no Secret, first.
func byCluster(a, b *adminapi.ClusterLine) int {
	if (a.Secret == "") != (b.Secret == "") {
		return cmp.Compare(a.Secret, b.Secret)
	}
	return cmp.Or(cmp.Compare(a.Cluster.Cluster, b.Cluster.Cluster), cmp.Compare(a.Secret, b.Secret))
}

// clusterSeverity is the severity of a cluster.
func clusterSeverity(c *adminapi.Cluster) adminapi.Severity {
	switch {
	case c.State == adminapi.Rejected || c.State == adminapi.Unreachable || c.State == adminapi.Stale:
		return adminapi.Broken
	case c.State != adminapi.Ready:
		return adminapi.Partial
	case takenOut(c) || len(c.Warnings) > 0:
		return adminapi.Notable
	}
	return adminapi.Fine
}

func takenOut(c *adminapi.Cluster) bool { return c.Standing != "" && c.Standing != adminapi.InService }

var services = kind[adminapi.ServiceLine]{
	text: func(s *adminapi.ServiceLine) string {
		all := []string{s.Namespace + "/" + s.Name, s.Kind}
		for _, m := range s.Members {
			all = append(all, m.Cluster, m.Service, m.Reason)
		}
		return strings.Join(append(all, s.Problems...), "\n")
	},
	parts: named[func(*adminapi.ServiceLine) bool]{
		{"", nil},
		{"problems", func(s *adminapi.ServiceLine) bool { return s.Severity > adminapi.Fine }},
		{"import", ofKind("import")}, {"federated", ofKind("federated")}, {"mirrored", ofKind("mirrored")}, {"plain", ofKind("plain")},
	},
	order: named[func(a, b *adminapi.ServiceLine) int]{
		{"problems", func(a, b *adminapi.ServiceLine) int {
			return cmp.Or(cmp.Compare(b.Severity, a.Severity), byService(a, b))
		}},
		{"name", byService},
		{"streams", func(a, b *adminapi.ServiceLine) int {
			return cmp.Or(cmp.Compare(b.Streams, a.Streams), byService(a, b))
		}},
		{"endpoints", func(a, b *adminapi.ServiceLine) int {
			return cmp.Or(cmp.Compare(b.Endpoints, a.Endpoints), byService(a, b))
		}},
	},
}

func ofKind(kind string) func(*adminapi.ServiceLine) bool {
	return func(s *adminapi.ServiceLine) bool { return s.Kind == kind }
}

func byService(a, b *adminapi.ServiceLine) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// serviceSeverity is the severity of a service.
func serviceSeverity(s *adminapi.ServiceLine) adminapi.Severity {
	switch {
	case s.Streams > 0 && s.Watched && s.Endpoints == 0, s.Serving == 0 && (s.Kind == "federated" || s.Kind == "import"):
		return adminapi.Broken
	case len(s.Problems) > 0 || s.Serving < len(s.Members)+s.MoreMembers && s.Kind != "plain":
		return adminapi.Partial
	case slices.ContainsFunc(s.Tiers, func(t adminapi.ZoneTiers) bool { return t.Count > 1 }):
		return adminapi.Notable
	}
	return adminapi.Fine
}

var streams = kind[adminapi.View]{
	text: func(v *adminapi.View) string {
		return strings.Join([]string{v.Destination, v.Method, v.Node, v.Zone, v.Namespace}, "\n")
	},
	parts: named[func(*adminapi.View) bool]{
		{"", nil},
		{"Get", func(v *adminapi.View) bool { return v.Method == "Get" }},
		{"GetProfile", func(v *adminapi.View) bool { return v.Method == "GetProfile" }},
	},
	order: named[func(a, b *adminapi.View) int]{
		{"streams", func(a, b *adminapi.View) int { return cmp.Or(cmp.Compare(b.Streams, a.Streams), byDestination(a, b)) }},
		{"destination", byDestination},
	},
}

func byDestination(a, b *adminapi.View) int {
	return cmp.Or(cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Zone, b.Zone),
		cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace))
}

var eventKind = kind[adminapi.Event]{
	text: func(e *adminapi.Event) string { return e.Object + "\n" + e.Text + "\n" + string(e.Kind) },
	parts: named[func(*adminapi.Event) bool]{
		{"", nil},
		about(adminapi.EventCluster), about(adminapi.EventStanding), about(adminapi.EventRotation), about(adminapi.EventGateway),
		about(adminapi.EventTier), about(adminapi.EventStall),
	},
	order: named[func(a, b *adminapi.Event) int]{{"newest", nil}}, // as they are
}

// about shows events of one kind.
func about(kind adminapi.EventKind) option[func(*adminapi.Event) bool] {
	return option[func(*adminapi.Event) bool]{string(kind), func(e *adminapi.Event) bool { return e.Kind == kind }}
}
