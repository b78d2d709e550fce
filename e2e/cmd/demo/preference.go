package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What web prefers in the second act. Operators choose longer times.
const (
	minReady    = 3
	returnAfter = 3 * time.Second
	returnOver  = 2 * time.Second
	lostAfter   = 2 * time.Second
)

// preference is the second act: the stream of the first one goes on, and linked clusters are
// used only while they are needed.
func (d *demo) preference(ctx context.Context) error {
	d.screen.print("\nThe same stream, while web has the annotations isthmus.io/prefer: \"local, any\" and isthmus.io/min-ready: \"%d\":\n\n", minReady)
	d.screen.tiersHead()
	d.tiers = endpoints.tiers
	defer func() { d.tiers = nil }()
	for _, s := range []step{
		{"annotate web", d.prefer, d.leftInParts},
		{"scale west from 4 to 2", d.scaleWest(2, east, north), d.joinedAtOnce},
		{"kill north's API server", d.killNorth, nil},
		{"cordon north by its link", d.cordonNorth, d.oneMessage},
		{"end the cordon", d.uncordonNorth, d.oneMessage},
		{"kill east's, with when-lost: last-resort", d.loseEast, d.leftWhenLost},
		{"start both API servers again", d.startBoth, d.oneMessage},
		{"scale west from 2 to 4", d.scaleWest(4), d.leftInParts},
	} {
		if err := d.step(ctx, s); err != nil {
			return d.explain(s.title, err)
		}
	}
	d.tiers = func(endpoints) string { return "any" }
	s := step{"take web's annotations away", d.preferNothing, d.oneMessage}
	if err := d.step(ctx, s); err != nil {
		return d.explain(s.title, err)
	}
	return nil
}

// tiers are those of "local, any" that a proxy has endpoints of.
func (e endpoints) tiers() string {
	var list []string
	if len(e[west]) > 0 {
		list = append(list, "local")
	}
	if len(e[east])+len(e[north]) > 0 {
		list = append(list, "any")
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// expectOnly has the proxy see the Pods of these clusters as they are now, and no others.
func (d *demo) expectOnly(ctx context.Context, clusters ...string) error {
	clear(d.want)
	for _, name := range clusters {
		if err := d.expectPods(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) prefer(ctx context.Context) (changed time.Time, note string, err error) {
	if err := d.expectOnly(ctx, west); err != nil {
		return changed, "", err
	}
	changed, err = d.shops[west].Prefer(ctx, map[string]string{
		"isthmus.io/prefer": "local, any", "isthmus.io/min-ready": strconv.Itoa(minReady),
		"isthmus.io/return-after": returnAfter.String(), "isthmus.io/return-over": returnOver.String(),
	})
	return changed, "", err
}

func (d *demo) preferNothing(ctx context.Context) (changed time.Time, note string, err error) {
	if err := d.expectOnly(ctx, names...); err != nil {
		return changed, "", err
	}
	changed, err = d.shops[west].Prefer(ctx, map[string]string{
		"isthmus.io/prefer": "", "isthmus.io/min-ready": "", "isthmus.io/return-after": "", "isthmus.io/return-over": "",
	})
	return changed, "", err
}

// scaleWest leaves so many Pods in west, with which the proxy uses these linked clusters too.
func (d *demo) scaleWest(to int, linked ...string) func(context.Context) (time.Time, string, error) {
	return func(ctx context.Context) (time.Time, string, error) {
		changed, err := d.shops[west].Scale(ctx, "web", to)
		if err != nil {
			return changed, "", err
		}
		return changed, "", d.expectOnly(ctx, append(linked, west)...)
	}
}

func (d *demo) killNorth(ctx context.Context) (none time.Time, note string, err error) {
	if err := d.servers[north].Kill(); err != nil {
		return none, "", err
	}
	gone := time.Now()
	err = d.awaitLink(ctx, north, "stale")
	return none, fmt.Sprintf("after %s the gateway calls it stale; when-lost is keep, so its endpoints stay", short(time.Since(gone))), err
}

func (d *demo) cordonNorth(ctx context.Context) (changed time.Time, note string, err error) {
	d.cordoned = d.want[north]
	delete(d.want, north)
	changed, err = d.shops[west].AnnotateLink(ctx, north, map[string]string{"isthmus.io/cordon": "true"})
	return changed, "its API server is still away: the switch is in west", err
}

func (d *demo) uncordonNorth(ctx context.Context) (changed time.Time, note string, err error) {
	d.want[north] = d.cordoned
	changed, err = d.shops[west].AnnotateLink(ctx, north, map[string]string{"isthmus.io/cordon": ""})
	return changed, "", err
}

// loseEast kills a cluster that is of last resort once it has been lost for a while.
func (d *demo) loseEast(ctx context.Context) (changed time.Time, note string, err error) {
	delete(d.want, east)
	if _, err = d.shops[west].AnnotateLink(ctx, east, map[string]string{
		"isthmus.io/when-lost": "last-resort", "isthmus.io/lost-after": lostAfter.String(),
	}); err != nil {
		return changed, "", err
	}
	changed = time.Now()
	return changed, "", d.servers[east].Kill()
}

// startBoth brings the API servers back. east's endpoints come back as soon as it is followed.
func (d *demo) startBoth(ctx context.Context) (changed time.Time, note string, err error) {
	for _, name := range []string{north, east} {
		changed = time.Now()
		if err := d.servers[name].Restart(ctx); err != nil {
			return changed, "", err
		}
	}
	for _, name := range []string{north, east} {
		if err := d.awaitLink(ctx, name, "ready"); err != nil {
			return changed, "", err
		}
	}
	return changed, "east's endpoints are used again as soon as it is followed", d.expectOnly(ctx, names...)
}

// moved are the addresses that came or left in a step.
func moved(from, to endpoints) []netip.AddrPort {
	kept := from.kept(to)
	return slices.DeleteFunc(append(from.all(), to.all()...), func(a netip.AddrPort) bool { return slices.Contains(kept, a) })
}

// oneMessage checks that everything came, or left, in one message.
func (d *demo) oneMessage(c change) (note string, err error) {
	_, err = c.together(moved(c.from, c.to))
	return "", err
}

// joinedAtOnce checks that the linked clusters joined in one message, and before west had too few.
func (d *demo) joinedAtOnce(c change) (note string, err error) {
	linked := slices.Concat(c.to[east], c.to[north])
	joined, err := c.together(linked)
	if err != nil {
		return "", err
	}
	if left := c.countBefore(joined, c.from[west]); left < minReady {
		return "", fmt.Errorf("the proxy had %d endpoints of west before the others joined by %s", left, joined)
	}
	return fmt.Sprintf("all %d joined in one message, while west still had %d", len(linked), c.countBefore(joined, c.from[west])), nil
}

// leftInParts checks that the linked clusters left after return-after, one part after the other.
func (d *demo) leftInParts(c change) (note string, err error) {
	linked := slices.Concat(c.from[east], c.from[north])
	list, err := c.by(linked)
	if err != nil {
		return "", err
	}
	for _, m := range list {
		if m.Kind != "remove" {
			return "", fmt.Errorf("endpoints that were to leave came by %s", m)
		}
	}
	first, last := list[0], list[len(list)-1]
	if waited := first.At.Sub(c.began); waited < returnAfter {
		return "", fmt.Errorf("endpoints left %v after the step began, by %s: return-after is %v", waited, first, returnAfter)
	}
	if len(list) == 1 {
		return "", fmt.Errorf("all %d endpoints left at once, by %s: return-over is %v", len(linked), first, returnOver)
	}
	return fmt.Sprintf("they left after %s, in %d parts over %s: return-after %v, return-over %v",
		short(first.At.Sub(c.changed)), len(list), short(last.At.Sub(first.At)), returnAfter, returnOver), nil
}

// leftWhenLost checks that a lost cluster's endpoints left in one message, and not before lost-after.
func (d *demo) leftWhenLost(c change) (note string, err error) {
	m, err := c.together(moved(c.from, c.to))
	if err != nil {
		return "", err
	}
	if waited := m.At.Sub(c.changed); waited < lostAfter {
		return "", fmt.Errorf("the cluster's endpoints left %v after its API server, by %s: lost-after is %v", waited, m, lostAfter)
	}
	return fmt.Sprintf("lost-after is %v; north's is away longer, but its endpoints stay", lostAfter), nil
}
