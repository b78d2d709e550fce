package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

const (
	// seenLimit is the timeout for a change to reach the proxy on a busy machine. The documented
	// limit for a cluster after an outage is ten seconds. Other changes are much faster, as the
	// table shows.
	seenLimit = 30 * time.Second
	// calm is the time for which the result of a step must not change.
	calm = 300 * time.Millisecond
	// outage is the minimum duration of the outage of east's API server.
	outage = 3 * time.Second

	secondToken = "remote-access-token-2"
)

// step is one row of the table.
type step struct {
	title string
	do    deed
}

// deed makes a change and sets the expected endpoints. It returns a remark and the time of the
// change, or the zero time if the proxy should see no change.
type deed func(context.Context) (changed time.Time, note string, err error)

func (d *demo) story(ctx context.Context) error {
	d.screen.print("\n%s, as one proxy in west sees it on one stream:\n\n", federated)
	d.screen.head()
	if err := d.first(ctx); err != nil {
		return d.explain("the first message", err)
	}
	return d.steps(ctx, []step{
		d.scale(east, 2, 5),
		d.scale(east, 5, 1),
		{"unlink north", d.unlinkNorth},
		{"link north again", d.relinkNorth},
		{"kill east's API server", d.killEast},
		d.scale(west, 3, 4),
		{"start east's API server again", d.startEast},
		d.scale(east, 1, 3),
		{"rotate the credentials of north's link", d.rotateNorth},
		{"restart north's API server", d.restartNorth},
		d.scale(north, 2, 4),
	})
}

func (d *demo) steps(ctx context.Context, list []step) error {
	for _, s := range list {
		if err := d.step(ctx, s); err != nil {
			return d.explain(s.title, err)
		}
	}
	return nil
}

// first checks that the first message contains the endpoints of all clusters.
func (d *demo) first(ctx context.Context) error {
	for _, name := range names {
		if err := d.expectPods(ctx, name); err != nil {
			return err
		}
	}
	if _, err := await(ctx, d.stream, d.want, seenLimit); err != nil {
		return err
	}
	snap := d.stream.Snapshot()
	if n := len(snap.First.Addrs); snap.First.Kind != "add" || n != len(d.want.all()) {
		return fmt.Errorf("the first message was %s, not an add of all %d endpoints", snap.First, len(d.want.all()))
	}
	if err := hold(ctx, d.stream, d.want, calm); err != nil {
		return err
	}
	d.screen.finish(row{
		title:   "the stream's first message",
		now:     d.want.counts(),
		when:    short(snap.First.At.Sub(snap.Opened)),
		verdict: "none",
	})
	return nil
}

// expectPods makes the current Pods of a cluster expected endpoints.
func (d *demo) expectPods(ctx context.Context, name string) error {
	addrs, err := d.shops[name].Ready(ctx, "web")
	if err != nil {
		return err
	}
	d.want[name] = addrs
	return nil
}

func (d *demo) step(ctx context.Context, s step) error {
	from := maps.Clone(d.want)
	d.stream.Mark()
	r := row{title: s.title, before: from.counts()}
	stop := d.drawLive(r)
	when, note, err := d.take(ctx, s, from)
	stop()
	d.fill(&r)
	r.when, r.verdict = when, "none"
	switch {
	case ctx.Err() != nil:
		r.when, r.verdict = "", "interrupted"
	case err != nil:
		r.when, r.verdict = "", "FAILED"
	}
	d.screen.finish(r)
	if err == nil && note != "" {
		d.screen.note(note)
	}
	return err
}

// take performs a step. It returns the delay until the proxy saw the change, and a remark.
func (d *demo) take(ctx context.Context, s step, from endpoints) (when, note string, err error) {
	changed, note, err := s.do(ctx)
	if err != nil {
		return "", "", err
	}
	seen, err := await(ctx, d.stream, d.want, seenLimit)
	if err != nil {
		return "", "", err
	}
	if err := hold(ctx, d.stream, d.want, calm); err != nil {
		return "", "", err
	}
	when = "no change"
	if !changed.IsZero() {
		when = short(seen.Sub(changed))
	}
	return when, note, d.stream.Flapped(from.kept(d.want)...)
}

func (d *demo) fill(r *row) {
	now := byCluster(d.stream.Snapshot().Get)
	r.now = now.counts()
	if d.tiers != nil {
		r.tiers = d.tiers(now)
	}
}

// drawLive redraws the row on each change of the stream until stop is called.
func (d *demo) drawLive(r row) (stop func()) {
	began := time.Now()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			changed := d.stream.Changed()
			d.fill(&r)
			r.when = short(time.Since(began)) + " …"
			d.screen.live(r)
			select {
			case <-changed:
			case <-tick.C:
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

func (d *demo) explain(title string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if d.stream == nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	text := "the newest messages on the stream:\n"
	recent := d.stream.Recent()
	for _, m := range recent[max(0, len(recent)-8):] {
		text += "  " + m.String() + "\n"
	}
	return fmt.Errorf("%s: %w\n\n%s\nthe log of Isthmus ends with:\n%s", title, err, text, d.gateway.Log(15))
}

func (d *demo) scale(name string, from, to int) step {
	return step{
		fmt.Sprintf("scale %s from %d to %d", name, from, to),
		func(ctx context.Context) (time.Time, string, error) {
			changed, err := d.shops[name].Scale(ctx, "web", to)
			if err != nil {
				return changed, "", err
			}
			return changed, "", d.expectPods(ctx, name)
		},
	}
}

func (d *demo) unlinkNorth(ctx context.Context) (time.Time, string, error) {
	delete(d.want, north)
	now := time.Now()
	return now, "", d.shops[west].Unlink(ctx, north)
}

func (d *demo) relinkNorth(ctx context.Context) (time.Time, string, error) {
	if err := d.expectPods(ctx, north); err != nil {
		return time.Time{}, "", err
	}
	linked, err := d.linkBy(ctx, north, firstToken)
	return linked, "", err
}
