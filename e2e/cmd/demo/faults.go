package main

import (
	"context"
	"fmt"
	"time"

	"isthmus/e2e/admin"
	"isthmus/e2e/poll"
	"isthmus/internal/adminapi"
)

func (d *demo) killEast(ctx context.Context) (none time.Time, note string, err error) {
	if err := d.servers[east].Kill(); err != nil {
		return none, "", err
	}
	d.eastGone = time.Now()
	if err := d.awaitLink(ctx, east, "stale"); err != nil {
		return none, "", err
	}
	note = fmt.Sprintf("after %s the gateway calls it stale; its endpoints stay", short(time.Since(d.eastGone)))
	return none, note, hold(ctx, d.stream, d.want, outage)
}

func (d *demo) startEast(ctx context.Context) (none time.Time, note string, err error) {
	if err := d.servers[east].Restart(ctx); err != nil {
		return none, "", err
	}
	back := time.Now()
	if err := d.awaitLink(ctx, east, "ready"); err != nil {
		return none, "", err
	}
	return none, fmt.Sprintf("it was away for %s; the gateway calls it ready again %s later", short(back.Sub(d.eastGone)), short(time.Since(back))), nil
}

func (d *demo) rotateNorth(ctx context.Context) (none time.Time, note string, err error) {
	linked, err := d.linkBy(ctx, north, secondToken)
	if err != nil {
		return none, "", err
	}
	if err := d.shops[north].Revoke(ctx, firstToken); err != nil {
		return none, "", err
	}
	return none, fmt.Sprintf("the link has a new token, the old one was deleted and is refused %s later", short(time.Since(linked))), nil
}

// restartNorth proves that the new credentials are in use: what was connected
// by the old ones is no more.
func (d *demo) restartNorth(ctx context.Context) (none time.Time, note string, err error) {
	if err := d.servers[north].Kill(); err != nil {
		return none, "", err
	}
	if err := d.awaitLink(ctx, north, "stale"); err != nil {
		return none, "", err
	}
	if err := d.servers[north].Restart(ctx); err != nil {
		return none, "", err
	}
	if err := d.awaitLink(ctx, north, adminapi.Ready); err != nil {
		return none, "", err
	}
	return none, "so that the gateway had to log in again, which only the new token lets it", nil
}

// awaitLink returns when the gateway shows a linked cluster in a state.
func (d *demo) awaitLink(ctx context.Context, name string, state adminapi.ClusterState) error {
	err := poll.Until(ctx, seenLimit, 50*time.Millisecond, func() error {
		page, err := admin.ReadClusters(ctx, d.gateway.MetricsAddr())
		if links := admin.Named(page, name); err == nil && (len(links) == 0 || links[0].State != state) {
			err = fmt.Errorf("not %s: %+v", state, links)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cluster %s on /debug/clusters: %w", name, err)
	}
	return nil
}
