package commands

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
)

// clustersOptions are those of "isthmus clusters".
type clustersOptions struct {
	Target
	watch bool
	every time.Duration // the page is read while it is watched
}

func clustersCommand() cli.Command {
	o := &clustersOptions{every: 2 * time.Second}
	return o.command(cli.Command{
		Use:     "clusters",
		Summary: "show every linked cluster: its state, its standing, and why it is not served",
		Intro:   clustersIntro,
		Ending:  clustersEnding,
		Run:     func(ctx context.Context, p cli.Process) error { return runClusters(ctx, p, o) },
	}, func(s *pflag.FlagSet) {
		o.pageFlags(s, pageTimeout, pageAllowed)
		s.BoolVarP(&o.watch, "watch", "w", false, "Go on, and print what changes. Ctrl-C ends it.")
	})
}

// runClusters shows the page of clusters once, or until the process gets a signal.
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

// read reads the page of clusters: of every gateway, or of the one that is watched.
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

// showClusters prints a page unless it is like the one before, in what lasts of it unless it replaces that.
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

// lastingPage is a page without what changes all the time.
func lastingPage(page adminapi.Clusters) adminapi.Clusters {
	page.Local = lasting(page.Local)
	page.Clusters = slices.Clone(page.Clusters)
	for i, c := range page.Clusters {
		page.Clusters[i] = lasting(c)
	}
	return page
}

func lasting(c adminapi.Cluster) adminapi.Cluster {
	c.LastEvent, c.Memory, c.API = time.Time{}, adminapi.Memory{}, nil
	c.Resources = slices.Clone(c.Resources)
	for i := range c.Resources {
		c.Resources[i].Objects, c.Resources[i].ThrottledUntil = 0, time.Time{}
	}
	return c
}

const clustersIntro = `isthmus clusters shows every cluster that a gateway reads: its own, and one for each
link Secret, used or not.

Usage: isthmus clusters [FLAGS]`

const clustersEnding = `The table:
  STATE       ready, pending, unreachable (never read yet), stale (read before, not
              now: its endpoints stay), or rejected (its link Secret can't be used)
  SINCE       for how long it has been in that state
  STANDING    in-service; last-resort or withdrawn: a cordon, or it is lost
  SERVICES, SLICES, PODS
              how many objects of it the gateway has
  MEMORY      how much it takes of what a linked cluster may (--cluster-memory), by estimate
  LAST EVENT  how long ago anything came from its API
  SERVER      host, port and path of its API
  WHY NOT     why it is not ready, or not in service
The Linkerd gateways of clusters on other networks follow, with whether each is alive,
dead (it does not answer probes), not-probed-yet, not-probed (it is not known how, or it is
an address of the local cluster: it is used also when it is dead), or
outside-ranges: the link's address ranges leave it out. ipv6-off: it has an IPv6 address,
which clients do not get.
Problems of any kind follow: of links, of what the gateway may read, of Services'
annotations, and members of services that are not served.

Of several gateways the first that answers is shown, and where the others differ from
it: in links, and their states, standings and regions. --watch asks the first only.

-o json prints one object in a line, with --watch one for each change: go doc
isthmus/internal/adminapi.ClustersOutput explains its fields. What is a change: not
lastEvent, memory, api, throttledUntil, nor objects.

Exit code 1 if no gateway can be asked, whatever they have to show.

Examples:
  isthmus clusters
  isthmus clusters --watch --context west
  isthmus clusters --admin 127.0.0.1:9996
  isthmus clusters -o json | jq -r '.clusters[] | select(.state != "ready") | .cluster'`
