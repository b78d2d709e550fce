package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

func (d *demo) killEast(ctx context.Context) (none time.Time, note string, err error) {
	if err := d.servers[east].Kill(); err != nil {
		return none, "", err
	}
	d.eastGone = time.Now()
	link, err := d.awaitLink(ctx, east, "stale")
	if err != nil {
		return none, "", err
	}
	note = fmt.Sprintf("after %s the gateway calls it %s; its endpoints stay", short(time.Since(d.eastGone)), link.State)
	return none, note, hold(ctx, d.stream, d.want, outage)
}

func (d *demo) startEast(ctx context.Context) (none time.Time, note string, err error) {
	if err := d.servers[east].Restart(ctx); err != nil {
		return none, "", err
	}
	back := time.Now()
	if _, err := d.awaitLink(ctx, east, "ready"); err != nil {
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
	if _, err := d.awaitLink(ctx, north, "stale"); err != nil {
		return none, "", err
	}
	if err := d.servers[north].Restart(ctx); err != nil {
		return none, "", err
	}
	if _, err := d.awaitLink(ctx, north, "ready"); err != nil {
		return none, "", err
	}
	return none, "so that the gateway had to log in again, which only the new token lets it", nil
}

// link is what the gateway says of a linked cluster.
type link struct {
	Cluster string `json:"cluster"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
}

// awaitLink returns when the gateway says that a linked cluster is in a state.
func (d *demo) awaitLink(ctx context.Context, name, state string) (link, error) {
	ctx, cancel := context.WithTimeout(ctx, seenLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		links, err := d.links(ctx)
		i := slices.IndexFunc(links, func(l link) bool { return l.Cluster == name })
		if err == nil && i >= 0 && links[i].State == state {
			return links[i], nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return link{}, fmt.Errorf("/debug/clusters does not call %s %s after %v: %+v, %v", name, state, seenLimit, links, err)
		}
	}
}

// links asks the gateway's admin server for what it knows of linked clusters.
func (d *demo) links(ctx context.Context) ([]link, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.gateway.MetricsAddr()+"/debug/clusters", nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{Proxy: nil, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var page struct {
		Clusters []link `json:"clusters"`
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/debug/clusters says %s", resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		return nil, fmt.Errorf("/debug/clusters: %w", err)
	}
	return page.Clusters, nil
}
