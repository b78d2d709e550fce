package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// seenLimit is how long a change may take until the proxy sees it, also beside other
	// work. The gateway promises ten seconds for a cluster that was away, and is far
	// quicker otherwise: the table has how long it took.
	seenLimit = 30 * time.Second
	// calm is how long a step's result must stay as it is.
	calm = 300 * time.Millisecond
	// outage is how long east's API server stays away at least.
	outage = 3 * time.Second

	secondToken = "remote-access-token-2"
)

// step is one row of the table.
type step struct {
	title string
	// do changes something and sets what the proxy should see. It returns when the
	// change was made, or zero if the proxy should see none, and what there is to add.
	do func(context.Context) (changed time.Time, note string, err error)
	// check looks at how the proxy came to see it, beyond what is checked of every step; nil: nothing does.
	check func(change) (note string, err error)
}

func (d *demo) story(ctx context.Context) error {
	d.screen.print("\n%s, as one proxy in west sees it on one stream:\n\n", federated)
	d.screen.head()
	if err := d.first(ctx); err != nil {
		return d.explain("the first message", err)
	}
	for _, s := range []step{
		d.scale(east, 2, 5),
		d.scale(east, 5, 1),
		{"unlink north", d.unlinkNorth, nil},
		{"link north again", d.relinkNorth, nil},
		{"kill east's API server", d.killEast, nil},
		d.scale(west, 3, 4),
		{"start east's API server again", d.startEast, nil},
		d.scale(east, 1, 3),
		{"rotate the credentials of north's link", d.rotateNorth, nil},
		{"restart north's API server", d.restartNorth, nil},
		d.scale(north, 2, 4),
	} {
		if err := d.step(ctx, s); err != nil {
			return d.explain(s.title, err)
		}
	}
	return nil
}

// first checks the stream's first message: it must hold the endpoints of every
// cluster at once.
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
	d.screen.finish(row{title: "the stream's first message", now: d.want.counts(), when: short(snap.First.At.Sub(snap.Opened)), verdict: "none"})
	return nil
}

// expectPods has the proxy see a cluster's Pods as they are now.
func (d *demo) expectPods(ctx context.Context, name string) error {
	addrs, err := d.shops[name].Ready(ctx, "web")
	if err != nil {
		return err
	}
	d.want[name] = addrs
	return nil
}

// step takes one step and checks what the proxy sees of it.
func (d *demo) step(ctx context.Context, s step) error {
	c := change{from: endpoints{}, began: time.Now()}
	for name, addrs := range d.want {
		c.from[name] = slices.Clone(addrs)
	}
	d.stream.Mark()
	r := row{title: s.title, before: c.from.counts()}
	stop := d.drawLive(r)
	notes, seen, err := d.take(ctx, s, &c)
	stop()
	d.fill(&r)
	r.when, r.verdict = "no change", "none"
	if !c.changed.IsZero() {
		r.when = short(seen.Sub(c.changed))
	}
	switch {
	case ctx.Err() != nil:
		r.when, r.verdict = "", "interrupted"
	case err != nil:
		r.when, r.verdict = "", "FAILED"
	}
	d.screen.finish(r)
	for _, note := range notes {
		if err == nil && note != "" {
			d.screen.note(note)
		}
	}
	return err
}

// take takes a step, notes what has changed, and returns when the proxy saw it.
func (d *demo) take(ctx context.Context, s step, c *change) (notes []string, seen time.Time, err error) {
	last := d.stream.Snapshot().Messages
	changed, note, err := s.do(ctx)
	if err != nil {
		return nil, seen, err
	}
	c.changed, c.to = changed, d.want
	if seen, err = await(ctx, d.stream, d.want, seenLimit); err != nil {
		return nil, seen, err
	}
	if err := hold(ctx, d.stream, d.want, calm); err != nil {
		return nil, seen, err
	}
	if err := d.stream.Flapped(c.from.kept(d.want)...); err != nil || s.check == nil {
		return []string{note}, seen, err
	}
	if c.messages, err = since(d.stream, last); err != nil {
		return nil, seen, err
	}
	more, err := s.check(*c)
	return []string{note, more}, seen, err
}

// fill puts what the stream shows now into a row.
func (d *demo) fill(r *row) {
	now := byCluster(d.stream.Snapshot().Get)
	r.now = now.counts()
	if d.tiers != nil {
		r.tiers = d.tiers(now)
	}
}

// drawLive draws the row as the stream changes, until stop is called.
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

// explain adds to an error the step and the messages that led to it.
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
	return fmt.Errorf("%s: %w\n\n%s\nthe gateway's log ends with:\n%s", title, err, text, d.gateway.Log(15))
}

func (d *demo) scale(name string, from, to int) step {
	title := fmt.Sprintf("scale %s from %d to %d", name, from, to)
	return step{title, func(ctx context.Context) (time.Time, string, error) {
		changed, err := d.shops[name].Scale(ctx, "web", to)
		if err != nil {
			return changed, "", err
		}
		return changed, "", d.expectPods(ctx, name)
	}, nil}
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
