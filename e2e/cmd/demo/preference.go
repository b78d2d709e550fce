package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
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

// preference is the act in which web prefers the local cluster. Linked clusters are used only while
// they are needed.
type preference struct{ *demo }

func (p preference) play(ctx context.Context) error {
	p.screen.print(
		"\nThe same proxy, while web has the annotations isthmus.io/prefer: \"local, any\" and "+
			"isthmus.io/min-ready: \"%d\":\n\n",
		minReady,
	)
	p.screen.tiersHead()
	p.tiers = endpoints.tiers
	defer func() { p.tiers = nil }()
	var before []netip.AddrPort // north's endpoints before the cordon
	if err := p.steps(ctx, []step{
		{"annotate web", p.annotateWeb(map[string]string{
			"isthmus.io/prefer": "local, any", "isthmus.io/min-ready": strconv.Itoa(minReady),
			"isthmus.io/return-after": returnAfter.String(), "isthmus.io/return-over": returnOver.String(),
		}, leaving, west)},
		{"scale west from 4 to 2", p.scaleWest(2, "", east, north)},
		{"kill north's API server", p.killNorth},
		{"replace Isthmus once north is copied", p.replaceIsthmus},
		{"cordon north by its link",
			p.annotateNorth("isthmus.io/cordon", "true", "its API server is still down, but cordons are set in west",
				func(context.Context) error {
					before = p.want[north]
					delete(p.want, north)
					return nil
				})},
		{"end the cordon", p.annotateNorth("isthmus.io/cordon", "", "", func(context.Context) error {
			p.want[north] = before
			return nil
		})},
		{"kill east's, which becomes last resort", p.loseEast},
		{"start both API servers again", p.startBoth},
		{"scale west from 2 to 4", p.scaleWest(4, leaving)},
	}); err != nil {
		return err
	}
	p.tiers = func(endpoints) string { return "any" }
	return p.steps(ctx, []step{{"remove web's annotations", p.annotateWeb(map[string]string{
		"isthmus.io/prefer":       "",
		"isthmus.io/min-ready":    "",
		"isthmus.io/return-after": "",
		"isthmus.io/return-over":  "",
	}, "", names...)}})
}

// annotateWeb returns a deed that changes web's preference. The proxy must then use exactly these
// clusters.
func (p preference) annotateWeb(annotations map[string]string, note string, used ...string) deed {
	return func(ctx context.Context) (changed time.Time, _ string, err error) {
		if err := p.expectOnly(ctx, used...); err != nil {
			return changed, "", err
		}
		changed, err = p.shops[west].Prefer(ctx, annotations)
		return changed, note, err
	}
}

// scaleWest returns a deed that scales west. The proxy must then use these linked clusters in
// addition to west.
func (p preference) scaleWest(to int, note string, linked ...string) deed {
	return func(ctx context.Context) (time.Time, string, error) {
		changed, err := p.shops[west].Scale(ctx, "web", to)
		if err != nil {
			return changed, "", err
		}
		return changed, note, p.expectOnly(ctx, append(linked, west)...)
	}
}

func (p preference) killNorth(ctx context.Context) (none time.Time, note string, err error) {
	note, err = p.kill(ctx, north)
	return none, note, err
}

// replaceIsthmus restarts Isthmus while north's API server is down, after Isthmus has copied
// north's cache. The first message of the new process must contain all endpoints.
func (p preference) replaceIsthmus(ctx context.Context) (none time.Time, note string, err error) {
	if err := p.awaitCopy(ctx, north); err != nil {
		return none, "", err
	}
	before := p.stream.Status().Messages
	if err := p.gateway.Restart(ctx); err != nil {
		return none, "", err
	}
	p.stream.Close()
	if err := p.stream.Open(context.WithoutCancel(ctx)); err != nil {
		return none, "", err
	}
	if _, err := await(ctx, p.stream, p.want, proxy.FirstMessageLimit); err != nil {
		return none, "", err
	}
	if n := p.stream.Status().Messages - before; n != 1 {
		return none, "", fmt.Errorf("the new process needed %d messages: %v", n, p.stream.Recent())
	}
	copied, err := p.copied(ctx, north)
	return none, "its first message contains all endpoints; isthmus clusters shows north as stale, " + copied, err
}

// awaitCopy waits until Isthmus has copied the cache of a stale cluster into ConfigMaps.
func (p preference) awaitCopy(ctx context.Context, name string) error {
	api := p.shops[west].CoreV1().ConfigMaps(kube.LinkNamespace)
	err := harness.Poll(ctx, seenLimit, 100*time.Millisecond, func() error {
		list, err := api.List(ctx, metav1.ListOptions{LabelSelector: "isthmus.io/cache-cluster=" + name})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("there is no ConfigMap")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("copy of cluster %s: %w", name, err)
	}
	return nil
}

// copied runs isthmus clusters and returns the part of its output about the copy of a cluster:
// "from a copy of TIME".
func (p preference) copied(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, seenLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, p.isthmus, "clusters", "--admin", p.gateway.MetricsAddr()).Output()
	if err != nil {
		return "", fmt.Errorf("isthmus clusters: %w", err)
	}
	found := regexp.MustCompile(`(?m)^ *` + name + ` +stale .*(from a copy of [-0-9T:]+Z)`).FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("isthmus clusters does not show that %s is served from a copy:\n%s", name, out)
	}
	return string(found[1]), nil
}

// loseEast kills the API server of east, whose endpoints become a last resort after a while.
func (p preference) loseEast(ctx context.Context) (changed time.Time, note string, err error) {
	delete(p.want, east)
	if _, err = p.shops[west].AnnotateLink(ctx, east, map[string]string{
		"isthmus.io/when-lost": "last-resort", "isthmus.io/lost-after": lostAfter.String(),
	}); err != nil {
		return changed, "", err
	}
	changed = time.Now()
	return changed, fmt.Sprintf(
		"lost-after is %v; north is down for longer, and its endpoints stay",
		lostAfter,
	), p.servers[east].Kill()
}

// startBoth restarts both API servers. East's endpoints must return as soon as east has synced.
func (p preference) startBoth(ctx context.Context) (changed time.Time, note string, err error) {
	if changed, err = p.restart(ctx, north, east); err != nil {
		return changed, "", err
	}
	return changed, "east's endpoints are used again as soon as Isthmus can watch east", p.expectOnly(ctx, names...)
}
