package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// lookLimit is the maximum time that a page waits for new results from clusters.
const lookLimit = 2 * time.Second

// clustersHandler serves /debug/clusters. The query parameter is adminapi.FreshParameter.
type clustersHandler struct{ *Sources }

// handler returns an http.Handler for /debug/clusters. Concurrent requests with
// adminapi.FreshParameter share one query of the clusters, and the response is cached for a second.
func (h clustersHandler) handler() http.Handler {
	known := sharedAnswer(func() any { return h.all() })
	fresh := newShared(time.Second, 0, func() answer { return encode(h.fresh()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue(adminapi.FreshParameter) == "true" {
			fresh.get().value.serve(w)
			return
		}
		known.ServeHTTP(w, r)
	})
}

// fresh returns the state of all clusters after querying each of them. Results that arrive after
// lookLimit appear in the next response.
func (h clustersHandler) fresh() adminapi.Clusters {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	var left []adminapi.LeftoverMirrors
	var looks sync.WaitGroup
	looks.Go(func() { h.Local.Look(ctx) })
	looks.Go(func() { h.Links.Look(ctx) })
	if listed, err := h.Links.SecretsListed(); listed && err == nil {
		linked := make(map[string]bool)
		for _, c := range h.Links.Status() {
			linked[c.Cluster] = true
		}
		looks.Go(func() { left = h.Leftovers.find(ctx, h.Local.LinkerdMirrors(), linked) })
	}
	looks.Wait()
	page := h.all()
	page.Leftovers = left
	return page
}

func (h clustersHandler) all() adminapi.Clusters {
	listed, err := h.Links.SecretsListed()
	page := adminapi.Clusters{
		Replica:  h.Replica(),
		Secrets:  adminapi.LinkSecrets{Namespace: h.Links.Namespace(), Listed: listed},
		Local:    h.Local.Status(),
		Clusters: h.Links.Status(),
		Unserved: []adminapi.Unserved{},
		Refused:  newRefused(h.Table.Watched()),
		Problems: h.Local.Problems(),
		Exports:  h.Exports.summary(),
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		page.MemoryLimit = limit
	}
	if err != nil {
		page.Secrets.Reason = err.Error()
	}
	conflicts, more := h.Local.AddressConflicts()
	page.Conflicts = append([]adminapi.AddressConflict{}, conflicts...)
	page.MoreConflicts = more
	for _, u := range h.Table.Unserved() {
		page.Unserved = append(page.Unserved, adminapi.Unserved{
			Service: u.Service.String(),
			Cluster: u.Member.Cluster.String(),
			Member:  u.Member.Service.String(),
			Reason:  u.Status.String(),
		})
	}

	// The status of the local cluster contains only rejected lists and watches, so add the other
	// rejected requests of this replica.
	refused := slices.Clone(h.Links.LocalRefused())
	if h.SliceWriter != nil {
		page.Writer = new(h.SliceWriter.Status())
		refused = append(refused, h.SliceWriter.Refused()...)
	}
	if h.Copies != nil {
		page.Copies = new(h.Copies.Status())
		refused = append(refused, h.Copies.Refused()...)
	}
	if api := page.Local.API; api != nil {
		api.Refused = append(api.Refused, refused...)
		kube.SortRefused(api.Refused)
	}
	return page
}

func (h clustersHandler) list() []adminapi.Cluster {
	own := h.Local.Status()
	own.Cluster = federation.Local.String()
	list := append([]adminapi.Cluster{own}, h.Links.Status()...)
	for i := range list {
		c := &list[i]
		c.Cluster = shown(c.Cluster)
		c.Secret = shown(c.Secret)
		c.Reason = shown(c.Reason)
		c.Region = shown(c.Region)
		c.StandingReason = shown(c.StandingReason)
		c.Server = shown(c.Server)
		c.Network = shown(c.Network)
		c.Warnings = shownAll(c.Warnings)
		c.Gateways = slices.Clone(c.Gateways)
		for j := range c.Gateways {
			g := &c.Gateways[j]
			g.Name = shown(g.Name)
			g.Identity = shown(g.Identity)
			g.Reason = shown(g.Reason)
		}

		c.Resources = nil
		c.Memory = adminapi.Memory{}
		c.API = nil
		c.ObjectWarnings = nil
		c.GatewayProblems = nil
		// Clear the fields that only repeat problems from Reason or Warnings.
		c.Insecure = nil
		c.Ignored = nil
		c.Unread = nil
		c.SecretRefused = ""
		c.NewCredentials = ""
	}
	return list
}

// For each cluster, newRefused counts the rejected endpoints on watched ports, and adds examples.
func newRefused(watched []federation.WatchedPort) []adminapi.Refused {
	list := []adminapi.Refused{}
	for _, w := range watched {
		for _, m := range w.Members {
			if len(m.Refused.Examples) == 0 {
				continue
			}
			name := m.Member.Cluster.String()
			i, found := slices.BinarySearchFunc(list, name, func(e adminapi.Refused, c string) int {
				return cmp.Compare(e.Cluster, c)
			})
			if !found {
				list = slices.Insert(list, i, adminapi.Refused{Cluster: name})
			}
			e := &list[i]
			e.Outside += m.Refused.Outside
			e.Owned += m.Refused.Owned
			for _, r := range m.Refused.Examples[:min(len(m.Refused.Examples), 2-len(e.Examples))] {
				text := fmt.Sprintf("%v of %v, offered to %v: %v", m.Member.Service, m.Member.Cluster, w.Service, r)
				e.Examples = append(e.Examples, text)
			}
		}
	}
	return list
}

var clusterLines = lineKind[adminapi.ClusterLine]{
	text: func(c *adminapi.ClusterLine) string {
		return strings.Join([]string{
			c.Cluster.Cluster, string(c.State), c.Standing, c.Region, c.Network, c.Server, c.Secret, c.Reason,
		}, "\n")
	},
	parts: choices[func(*adminapi.ClusterLine) bool]{
		{"", nil},
		{"problems", func(c *adminapi.ClusterLine) bool { return c.Severity > adminapi.Fine }},
	},
	order: choices[func(a, b *adminapi.ClusterLine) int]{
		{"problems", func(a, b *adminapi.ClusterLine) int {
			return cmp.Or(cmp.Compare(b.Severity, a.Severity), byCluster(a, b))
		}},
		{"name", byCluster},
		{"state", func(a, b *adminapi.ClusterLine) int {
			return cmp.Or(cmp.Compare(a.State, b.State), byCluster(a, b))
		}},
		{"since", func(a, b *adminapi.ClusterLine) int {
			return cmp.Or(b.Since.Compare(a.Since), byCluster(a, b))
		}},
	},
}

// byCluster compares clusters by name, except that the local cluster, which has no link Secret,
// comes first.
func byCluster(a, b *adminapi.ClusterLine) int {
	if (a.Secret == "") != (b.Secret == "") {
		return cmp.Compare(a.Secret, b.Secret)
	}
	return cmp.Or(cmp.Compare(a.Cluster.Cluster, b.Cluster.Cluster), cmp.Compare(a.Secret, b.Secret))
}

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

// newClusterLines returns a row for each cluster, and a ClusterList with the totals but without the
// rows.
func newClusterLines(c *listContent) ([]adminapi.ClusterLine, adminapi.ClusterList) {
	totals := adminapi.ClusterList{Replica: c.replica, States: make(map[adminapi.ClusterState]int)}
	lines := make([]adminapi.ClusterLine, len(c.clusters))
	for i := range c.clusters {
		one := &c.clusters[i]
		lines[i] = adminapi.ClusterLine{Cluster: *one, Severity: clusterSeverity(one)}
		totals.States[one.State]++
		if takenOut(one) {
			totals.TakenOut++
		}
	}
	return lines, totals
}
