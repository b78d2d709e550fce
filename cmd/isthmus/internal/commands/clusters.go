package commands

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/internal/text"
)

type clustersOptions struct {
	Target
	watch bool
	every time.Duration // polling interval with --watch
}

func clustersCommand() cli.Command {
	o := &clustersOptions{every: 2 * time.Second}
	return o.command(cli.Command{
		Use:     "clusters",
		Summary: "show the state and standing of every linked cluster, and why one is not ready or not in service",
		Intro:   clustersIntro,
		Ending:  clustersEnding,
		Run:     func(ctx context.Context, p cli.Process) error { return runClusters(ctx, p, o) },
	}, func(s *pflag.FlagSet) {
		o.pageFlags(s, pageTimeout, pageTimeoutUsage)
		s.BoolVarP(&o.watch, "watch", "w", false, "Keep running and print each change. Press Ctrl-C to stop.")
	})
}

func runClusters(ctx context.Context, p cli.Process, o *clustersOptions) error {
	page, err := o.read(ctx, p)
	if err != nil {
		return err
	}
	out := o.screen(p)
	out.redraw = o.watch && !out.asJSON && isTerminal(p.Stdout)
	for away := ""; ; {
		if err := showClusters(out, page); err != nil || !o.watch {
			return err
		}
		if !pace.Sleep(ctx, o.every) {
			return nil
		}
		next, err := o.read(ctx, p)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			page, away = next, ""
		case err.Error() != away:
			away = err.Error()
			fmt.Fprintf(p.Stderr, "%s: %s\n  Trying again.\n", p.Name, away)
		}
	}
}

// read fetches /debug/clusters from every replica or, with --watch, from the first replica only.
func (o *clustersOptions) read(ctx context.Context, p cli.Process) (*adminapi.ClustersOutput, error) {
	o.first = o.watch
	shown, others, err := readEach(ctx, p, &o.Target, "/debug/clusters", clusterFacts)
	if err != nil {
		return nil, err
	}
	return &adminapi.ClustersOutput{
		Time: shown.At, Gateway: shown.Replica, Clusters: *shown.Value, Others: others,
		Unchecked: shown.Unchecked(p.Build),
	}, nil
}

// showClusters prints a page unless it equals the previous one. If the output does not overwrite
// the previous page, showClusters ignores changes to counters and times.
func showClusters(out *screen, page *adminapi.ClustersOutput) error {
	compared := page.Clusters
	if !out.redraw {
		compared = lastingPage(compared)
	}
	if changed, err := out.changed(compared); err != nil || !changed {
		return err
	}
	return out.show(page.Time, page.Gateway, page, func() (string, []byte) { return clustersTable(page) })
}

// lastingPage returns a copy of a page without its counters and times.
func lastingPage(page adminapi.Clusters) adminapi.Clusters {
	page.Local = lasting(page.Local)
	page.Clusters = slices.Clone(page.Clusters)
	for i, c := range page.Clusters {
		page.Clusters[i] = lasting(c)
	}
	return page
}

func lasting(c adminapi.Cluster) adminapi.Cluster {
	c.LastEvent = time.Time{}
	c.Memory = adminapi.Memory{}
	c.API = nil
	c.Resources = slices.Clone(c.Resources)
	for i := range c.Resources {
		c.Resources[i].Objects = 0
		c.Resources[i].ThrottledUntil = time.Time{}
	}
	return c
}

func clusterFacts(p *adminapi.Clusters) facts {
	all := facts{"the local cluster": clusterFact(&p.Local)}
	for _, c := range p.Clusters {
		key := "cluster " + c.Cluster
		if c.Cluster == "" {
			key = "Secret " + c.Secret
		}
		all[key] = clusterFact(&c)
	}
	return all
}

func clusterFact(c *adminapi.Cluster) fact {
	return fact{text: joined(" ", string(c.State), c.Standing, c.Region)}
}

func clustersTable(o *adminapi.ClustersOutput) (string, []byte) {
	var t cells
	t.row("CLUSTER", "STATE", "SINCE", "STANDING", "REGION", "SERVICES", "SLICES", "PODS", "MEMORY", "LAST EVENT",
		"SERVER", "WHY NOT")
	for _, c := range append([]adminapi.Cluster{o.Local}, o.Clusters.Clusters...) {
		t.row(
			c.Cluster, colored(string(c.State)), age(o.Time, c.Since), colored(c.Standing), c.Region,
			objectsOf(&c, "services"), objectsOf(&c, "endpointslices", "endpoints"), objectsOf(&c, "pods"),
			cell{memoryShare(c.Memory), memoryColor(c.Memory)}, age(o.Time, c.LastEvent), c.Server, whyNotReady(&c),
		)
	}
	var b bytes.Buffer
	t.write(&b, "  ")
	writeGateways(&b, o)
	writeTroubles(&b, &o.Clusters)
	summary, lines := compared(o.Others, o.Unchecked)
	writeList(&b, "Where the other replicas differ", lines, maxLines)
	return clustersHeadline(&o.Clusters) + summary, b.Bytes()
}

func writeGateways(b *bytes.Buffer, o *adminapi.ClustersOutput) {
	var t cells
	t.row("CLUSTER", "NETWORK", "GATEWAY", "STATE", "SINCE", "NAME", "IDENTITY", "WHY NOT")
	for _, c := range o.Clusters.Clusters {
		for _, g := range c.Gateways {
			t.row(c.Cluster, c.Network, g.Address, colored(g.State), age(o.Time, g.Since),
				g.Name, g.Identity, g.Reason)
		}
	}
	t.writeUnder(b, "\n")
}

// objectsOf finds the first of the given resources that the replica reads, and returns the number
// of cached objects of that resource.
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

// memoryShare returns the percentage of the memory cap that the cache of a linked cluster uses. If
// there is no memory cap, the result is "".
func memoryShare(m adminapi.Memory) string {
	if m.Limit == 0 {
		return ""
	}
	return fmt.Sprintf("%d %%", int64(100*float64(m.Used)/float64(m.Limit)))
}

func memoryColor(m adminapi.Memory) color {
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

func writeTroubles(b *bytes.Buffer, p *adminapi.Clusters) {
	var links, services, unserved []string
	switch {
	case p.Secrets.Reason != "":
		links = append(links, "link Secrets cannot be read: "+p.Secrets.Reason)
	case !p.Secrets.Listed:
		links = append(links, "link Secrets have not been listed yet")
	}
	for _, c := range append([]adminapi.Cluster{p.Local}, p.Clusters...) {
		links = append(links, clusterTroubles(&c)...)
	}
	for _, r := range p.Refused {
		line := fmt.Sprintf("%s: %s refused: "+
			"%d outside the cluster's address ranges, and %d at addresses of the local cluster",
			r.Cluster, text.Count(r.Outside+r.Owned, "endpoint", "endpoints"), r.Outside, r.Owned)
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

// clusterTroubles returns a cluster's problems, except the problem that the table already shows.
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

// throttled returns a message that lists the resources for which the API server requested a pause,
// and says when the last pause ends.
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
		list = append(list, "the Lease cannot be used: "+w.LeaseError)
	}
	if w.Error != "" {
		list = append(list, w.Error)
	}
	for _, resource := range slices.Sorted(maps.Keys(w.Unread)) {
		list = append(list, resource+" cannot be read: "+w.Unread[resource])
	}
	for _, one := range w.Problems {
		list = append(list, prefixed(one.Service, one.Problems)...)
	}
	return list
}

// conflictLines returns one line for each address that several objects in the local cluster claim.
func conflictLines(p *adminapi.Clusters) (list []string) {
	for _, x := range p.Conflicts {
		list = append(list, fmt.Sprintf("%s: %s: %s", x.Address, x.Claimed, strings.Join(x.Objects, ", ")))
	}
	if p.MoreConflicts > 0 {
		list = append(list, fmt.Sprintf("%d more", p.MoreConflicts))
	}
	return list
}

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

const clustersIntro = `isthmus clusters shows every cluster that Isthmus reads: the local cluster, and one cluster for
each link Secret, even if the Secret is unusable.

Usage: isthmus clusters [FLAGS]`

const clustersEnding = `The table:
  STATE       ready, pending, unreachable (never read yet), stale (read before, but not
              now, so its endpoints stay), or rejected (the link Secret is unusable)
  SINCE       how long the cluster has been in this state
  STANDING    in-service; or last-resort or withdrawn, if the cluster is cordoned or lost
  SERVICES, SLICES, PODS
              number of objects of the cluster in the replica's cache
  MEMORY      estimated share of the memory cap of a linked cluster (--cluster-memory)
  LAST EVENT  time since the last event from the API
  SERVER      host, port and path of the API
  WHY NOT     why the cluster is not ready, or not in service
A second table shows the Linkerd gateways of clusters on other networks. A gateway is in one
of these states:
  alive           it responds to probes
  dead            it does not respond to probes
  not-probed-yet  no probe has ended yet
  not-probed      its probe is unknown, or it is at an address of the local cluster; clients
                  use it even if it is dead
  outside-ranges  the address ranges of the link exclude it
  ipv6-off        it has an IPv6 address, which clients do not receive
Lists of problems follow: problems of links, of missing permissions, of annotations of
Services, and members of services that are not served.

If there are several replicas, the command shows the page of the first one that responds. It
also shows where the other replicas differ in links, states, standings and regions. With
--watch, the command queries only the first replica.

-o json prints one object per line or, with --watch, one for each change. go doc
isthmus/internal/adminapi.ClustersOutput explains the fields. Changes of lastEvent, memory,
api, throttledUntil and objects do not count.

The exit code is 1 if no replica can be queried. Problems do not change the exit code.

Examples:
  isthmus clusters
  isthmus clusters --watch --context west
  isthmus clusters --admin 127.0.0.1:9996
  isthmus clusters -o json | jq -r '.clusters[] | select(.state != "ready") | .cluster'`
