package main

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// Web's preference in the second act. The durations are shorter than in production.
const (
	minReady    = 3
	returnAfter = 3 * time.Second
	returnOver  = 2 * time.Second
	lostAfter   = 2 * time.Second
)

var leaving = fmt.Sprintf(
	"the others leave after return-after %v, one by one within return-over %v",
	returnAfter,
	returnOver,
)

// preference is the second act, with the same proxy. Linked clusters are used only while they are
// needed.
func (d *demo) preference(ctx context.Context) error {
	d.screen.print(
		"\nThe same proxy, while web has the annotations isthmus.io/prefer: \"local, any\" and "+
			"isthmus.io/min-ready: \"%d\":\n\n",
		minReady,
	)
	d.screen.tiersHead()
	d.tiers = endpoints.tiers
	defer func() { d.tiers = nil }()
	var before []netip.AddrPort // north's endpoints before the cordon
	if err := d.steps(ctx, []step{
		{"annotate web", d.annotateWeb(map[string]string{
			"isthmus.io/prefer": "local, any", "isthmus.io/min-ready": strconv.Itoa(minReady),
			"isthmus.io/return-after": returnAfter.String(), "isthmus.io/return-over": returnOver.String(),
		}, leaving, west)},
		{"scale west from 4 to 2", d.scaleWest(2, "", east, north)},
		{"kill north's API server", d.killNorth},
		{"replace Isthmus once north is copied", d.replaceIsthmus},
		{"cordon north by its link",
			d.annotateNorth("isthmus.io/cordon", "true", "its API server is still down, but cordons are set in west",
				func(context.Context) error {
					before = d.want[north]
					delete(d.want, north)
					return nil
				})},
		{"end the cordon", d.annotateNorth("isthmus.io/cordon", "", "", func(context.Context) error {
			d.want[north] = before
			return nil
		})},
		{"kill east's, which becomes last resort", d.loseEast},
		{"start both API servers again", d.startBoth},
		{"scale west from 2 to 4", d.scaleWest(4, leaving)},
	}); err != nil {
		return err
	}
	d.tiers = func(endpoints) string { return "any" }
	return d.steps(ctx, []step{{"remove web's annotations", d.annotateWeb(map[string]string{
		"isthmus.io/prefer":       "",
		"isthmus.io/min-ready":    "",
		"isthmus.io/return-after": "",
		"isthmus.io/return-over":  "",
	}, "", names...)}})
}

// expectOnly makes the current Pods of these clusters the only expected endpoints.
func (d *demo) expectOnly(ctx context.Context, clusters ...string) error {
	clear(d.want)
	for _, name := range clusters {
		if err := d.expectPods(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// annotateWeb returns a deed that changes web's preference. The proxy must then use exactly these
// clusters.
func (d *demo) annotateWeb(annotations map[string]string, note string, used ...string) deed {
	return func(ctx context.Context) (changed time.Time, _ string, err error) {
		if err := d.expectOnly(ctx, used...); err != nil {
			return changed, "", err
		}
		changed, err = d.shops[west].Prefer(ctx, annotations)
		return changed, note, err
	}
}

// annotateNorth returns a deed that sets an annotation on north's link. An empty value removes the
// annotation. The expect function sets the expected endpoints.
func (d *demo) annotateNorth(name, value, note string, expect func(context.Context) error) deed {
	return func(ctx context.Context) (changed time.Time, _ string, err error) {
		if err := expect(ctx); err != nil {
			return changed, "", err
		}
		changed, err = d.shops[west].AnnotateLink(ctx, north, map[string]string{name: value})
		return changed, note, err
	}
}

// scaleWest returns a deed that scales west. The proxy must then use these linked clusters in
// addition to west.
func (d *demo) scaleWest(to int, note string, linked ...string) deed {
	return func(ctx context.Context) (time.Time, string, error) {
		changed, err := d.shops[west].Scale(ctx, "web", to)
		if err != nil {
			return changed, "", err
		}
		return changed, note, d.expectOnly(ctx, append(linked, west)...)
	}
}

func (d *demo) killNorth(ctx context.Context) (none time.Time, note string, err error) {
	note, err = d.kill(ctx, north)
	return none, note, err
}

// loseEast kills the API server of east, whose endpoints become a last resort after a while.
func (d *demo) loseEast(ctx context.Context) (changed time.Time, note string, err error) {
	delete(d.want, east)
	if _, err = d.shops[west].AnnotateLink(ctx, east, map[string]string{
		"isthmus.io/when-lost": "last-resort", "isthmus.io/lost-after": lostAfter.String(),
	}); err != nil {
		return changed, "", err
	}
	changed = time.Now()
	return changed, fmt.Sprintf(
		"lost-after is %v; north is down for longer, and its endpoints stay",
		lostAfter,
	), d.servers[east].Kill()
}

// startBoth restarts both API servers. East's endpoints must return as soon as east has synced.
func (d *demo) startBoth(ctx context.Context) (changed time.Time, note string, err error) {
	if changed, err = d.restart(ctx, north, east); err != nil {
		return changed, "", err
	}
	return changed, "east's endpoints are used again as soon as Isthmus can watch east", d.expectOnly(ctx, names...)
}
