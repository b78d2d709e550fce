package commands

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// clustersTable has a line for each cluster, and one for each problem.
func clustersTable(o *adminapi.ClustersOutput) (string, []byte) {
	var t cells
	t.row("CLUSTER", "STATE", "SINCE", "STANDING", "REGION", "SERVICES", "SLICES", "PODS", "MEMORY", "LAST EVENT",
		"SERVER", "WHY NOT")
	for _, c := range append([]adminapi.Cluster{o.Local}, o.Clusters.Clusters...) {
		t.row(
			c.Cluster, coloured(string(c.State)), age(o.Time, c.Since), coloured(c.Standing), c.Region,
			objectsOf(&c, "services"), objectsOf(&c, "endpointslices", "endpoints"), objectsOf(&c, "pods"),
			cell{memoryShare(c.Memory), memoryColour(c.Memory)}, age(o.Time, c.LastEvent), c.Server, whyNotReady(&c),
		)
	}
	var b bytes.Buffer
	t.write(&b, "  ")
	writeGateways(&b, o)
	writeTroubles(&b, &o.Clusters)
	summary, lines := compared(o.Others, o.Unchecked)
	writeList(&b, "Where the other gateways differ", lines, maxLines)
	return clustersHeadline(&o.Clusters) + summary, b.Bytes()
}

// writeGateways writes a line for each gateway of a cluster on another network.
func writeGateways(b *bytes.Buffer, o *adminapi.ClustersOutput) {
	var t cells
	t.row("CLUSTER", "NETWORK", "GATEWAY", "STATE", "SINCE", "NAME", "IDENTITY", "WHY NOT")
	for _, c := range o.Clusters.Clusters {
		for _, g := range c.Gateways {
			t.row(c.Cluster, c.Network, g.Address, coloured(g.State), age(o.Time, g.Since),
				g.Name, g.Identity, g.Reason)
		}
	}
	t.writeUnder(b, "\n")
}

// objectsOf counts what the gateway has of the first of these resources that it reads.
func objectsOf(c *adminapi.Cluster, names ...string) string {
	for _, name := range names {
		for _, r := range c.Resources {
			if r.Resource == name {
				return strconv.Itoa(r.Objects)
			}
		}
	}
	return ""
}

// memoryShare is how much a linked cluster takes of what it may; empty for a cluster without a budget.
func memoryShare(m adminapi.Memory) string {
	if m.Limit == 0 {
		return ""
	}
	return fmt.Sprintf("%d %%", int64(100*float64(m.Used)/float64(m.Limit)))
}

func memoryColour(m adminapi.Memory) colour {
	if m.Near() {
		return yellow
	}
	return plain
}

func whyNotReady(c *adminapi.Cluster) string {
	secret := ""
	if c.Cluster == "" && c.Secret != "" {
		secret = "Secret " + c.Secret
	}
	return joined("; ", secret, c.Reason, c.StandingReason)
}

// clustersHeadline counts the links by state.
func clustersHeadline(p *adminapi.Clusters) string {
	if len(p.Clusters) == 0 {
		return "no links"
	}
	per := make(map[adminapi.ClusterState]int)
	for _, c := range p.Clusters {
		per[c.State]++
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(per)) {
		parts = append(parts, fmt.Sprintf("%d %s", per[state], state))
	}
	return text.Count(len(p.Clusters), "link", "links") + " (" + strings.Join(parts, ", ") + ")"
}

// writeTroubles writes everything that the table has no room for.
func writeTroubles(b *bytes.Buffer, p *adminapi.Clusters) {
	var links, services, unserved []string
	switch {
	case p.Secrets.Reason != "":
		links = append(links, "link Secrets can't be read: "+p.Secrets.Reason)
	case !p.Secrets.Listed:
		links = append(links, "link Secrets have not been listed yet")
	}
	for _, c := range append([]adminapi.Cluster{p.Local}, p.Clusters...) {
		links = append(links, clusterTroubles(&c)...)
	}
	for _, r := range p.Refused {
		line := fmt.Sprintf("%s: %s refused: %d outside of its address ranges, %d at addresses of the local cluster", r.Cluster, text.Count(r.Outside+r.Owned, "endpoint", "endpoints"), r.Outside, r.Owned)
		links = append(links, withExamples(line, r.Examples))
	}
	for _, one := range p.Problems {
		services = append(services, prefixed(one.Service, one.Problems)...)
	}
	for _, u := range p.Unserved {
		unserved = append(unserved, fmt.Sprintf("%s: %s of %s: %s", u.Service, u.Member, u.Cluster, u.Reason))
	}
	writeList(b, "Problems of clusters", links, maxLines)
	writeList(b, "Problems of services", services, maxLines)
	writeList(b, "Members that are not served", unserved, maxLines)
	writeList(b, "Problems of EndpointSlices for ExternalWorkloads", writerTroubles(p.Writer), maxLines)
	writeList(b, "Addresses that several objects claim", conflictLines(p), maxLines)
}

// clusterTroubles leaves out what the table has as the reason.
func clusterTroubles(c *adminapi.Cluster) []string {
	list := slices.Clone(c.Warnings)
	for _, r := range c.NeverRead() {
		if text := r.Unread(); !slices.Contains(c.Warnings, text) {
			list = append(list, text)
		}
	}
	for _, r := range c.Resources {
		for _, text := range []string{r.Err, r.Trouble} {
			listed := slices.ContainsFunc(list, func(w string) bool { return strings.Contains(w, text) })
			if text != "" && !strings.Contains(c.Reason, text) && !listed {
				list = append(list, r.Resource+": "+text)
			}
		}
	}
	if text := throttled(c); text != "" {
		list = append(list, text)
	}
	return prefixed(c.Cluster, list)
}

// throttled returns which resources are not requested because the API server asked for a pause, and
// until when all of them are requested again.
func throttled(c *adminapi.Cluster) string {
	var names []string
	var until time.Time
	for _, r := range c.Resources {
		if r.ThrottledUntil.IsZero() {
			continue
		}
		names = append(names, r.Resource)
		if r.ThrottledUntil.After(until) {
			until = r.ThrottledUntil
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("throttled until %s by the API server: %s",
		until.UTC().Format("15:04:05 UTC"), strings.Join(names, ", "))
}

func writerTroubles(w *adminapi.SliceWriter) (list []string) {
	if w == nil {
		return nil
	}
	if w.LeaseError != "" {
		list = append(list, "the Lease can't be used: "+w.LeaseError)
	}
	if w.Error != "" {
		list = append(list, w.Error)
	}
	for _, resource := range slices.Sorted(maps.Keys(w.Unread)) {
		list = append(list, resource+" can't be read: "+w.Unread[resource])
	}
	for _, one := range w.Problems {
		list = append(list, prefixed(one.Service, one.Problems)...)
	}
	return list
}

// conflictLines has a line for each address of the local cluster that several objects claim.
func conflictLines(p *adminapi.Clusters) (list []string) {
	for _, x := range p.Conflicts {
		list = append(list, fmt.Sprintf("%s: %s: %s", x.Address, x.Claimed, strings.Join(x.Objects, ", ")))
	}
	if p.MoreConflicts > 0 {
		list = append(list, fmt.Sprintf("%d more", p.MoreConflicts))
	}
	return list
}

// prefixed returns texts with what they are about before them.
func prefixed(about string, texts []string) []string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = about + ": " + text
	}
	return list
}

func withExamples(line string, examples []string) string {
	if len(examples) == 0 {
		return line
	}
	return line + ", such as " + examples[0]
}
