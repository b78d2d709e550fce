package main

import (
	"context"
	"fmt"
	"time"

	"isthmus/e2e/harness"
	"isthmus/internal/adminapi"
)

// kill kills a cluster's API server. It returns once the gateway has noticed.
func (d *demo) kill(ctx context.Context, name string) (note string, err error) {
	if err := d.servers[name].Kill(); err != nil {
		return "", err
	}
	gone := time.Now()
	if err := d.awaitLink(ctx, name, "stale"); err != nil {
		return "", err
	}
	return fmt.Sprintf("after %s the gateway calls it stale; its endpoints stay", short(time.Since(gone))), nil
}

// restart brings API servers back. It returns once the gateway follows them, and returns when the last one was started.
func (d *demo) restart(ctx context.Context, clusters ...string) (started time.Time, err error) {
	for _, name := range clusters {
		started = time.Now()
		if err := d.servers[name].Restart(ctx); err != nil {
			return started, err
		}
	}
	for _, name := range clusters {
		if err := d.awaitLink(ctx, name, adminapi.Ready); err != nil {
			return started, err
		}
	}
	return started, nil
}

func (d *demo) killEast(ctx context.Context) (none time.Time, note string, err error) {
	if note, err = d.kill(ctx, east); err != nil {
		return none, "", err
	}
	return none, note, hold(ctx, d.stream, d.want, outage)
}

func (d *demo) startEast(ctx context.Context) (none time.Time, note string, err error) {
	started, err := d.restart(ctx, east)
	return none, fmt.Sprintf("%s later the gateway calls it ready", short(time.Since(started))), err
}

func (d *demo) rotateNorth(ctx context.Context) (none time.Time, note string, err error) {
	linked, err := d.linkBy(ctx, north, secondToken)
	if err != nil {
		return none, "", err
	}
	if err := d.shops[north].Revoke(ctx, firstToken); err != nil {
		return none, "", err
	}
	return none, fmt.Sprintf(
		"the link has a new token, the old one was deleted and is refused %s later",
		short(time.Since(linked)),
	), nil
}

// restartNorth proves that the new credentials are in use: what was connected
// by the old ones is no more.
func (d *demo) restartNorth(ctx context.Context) (none time.Time, note string, err error) {
	if _, err := d.kill(ctx, north); err != nil {
		return none, "", err
	}
	_, err = d.restart(ctx, north)
	return none, "so that the gateway had to log in again, which only the new token lets it", err
}

// awaitLink returns when the gateway shows a linked cluster in a state.
func (d *demo) awaitLink(ctx context.Context, name string, state adminapi.ClusterState) error {
	err := harness.Poll(ctx, seenLimit, 50*time.Millisecond, func() error {
		page, err := harness.ReadClusters(ctx, d.gateway.MetricsAddr())
		if links := harness.ClustersNamed(page, name); err == nil && (len(links) == 0 || links[0].State != state) {
			err = fmt.Errorf("not %s: %+v", state, links)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cluster %s on /debug/clusters: %w", name, err)
	}
	return nil
}
