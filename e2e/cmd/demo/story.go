package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// outage is the minimum duration of the outage of east's API server.
	outage = 3 * time.Second

	secondToken = "remote-access-token-2"
)

// story is the act about changes that one proxy should see, and about outages that it should not.
type story struct{ *demo }

func (s story) play(ctx context.Context) error {
	s.screen.print("\n%s, as one proxy in west sees it on one stream:\n\n", federated)
	s.screen.head()
	if err := s.first(ctx); err != nil {
		return s.explain("the first message", err)
	}
	return s.steps(ctx, []step{
		s.scale(east, 2, 5),
		s.scale(east, 5, 1),
		{"unlink north", s.unlinkNorth},
		{"link north again", s.relinkNorth},
		{"kill east's API server", s.killEast},
		s.scale(west, 3, 4),
		{"start east's API server again", s.startEast},
		s.scale(east, 1, 3),
		{"rotate the credentials of north's link", s.rotateNorth},
		{"restart north's API server", s.restartNorth},
		s.scale(north, 2, 4),
	})
}

// first checks that the first message contains the endpoints of all clusters.
func (s story) first(ctx context.Context) error {
	for _, name := range names {
		if err := s.expectPods(ctx, name); err != nil {
			return err
		}
	}
	if _, err := await(ctx, s.stream, s.want, seenLimit); err != nil {
		return err
	}
	snap := s.stream.Snapshot()
	if n := len(snap.First.Addrs); snap.First.Kind != "add" || n != len(s.want.all()) {
		return fmt.Errorf("the first message was %s, not an add of all %d endpoints", snap.First, len(s.want.all()))
	}
	if err := hold(ctx, s.stream, s.want, calm); err != nil {
		return err
	}
	s.screen.finish(row{
		title:   "the stream's first message",
		now:     s.want.counts(),
		when:    short(snap.First.At.Sub(snap.Opened)),
		verdict: "none",
	})
	return nil
}

func (s story) unlinkNorth(ctx context.Context) (time.Time, string, error) {
	delete(s.want, north)
	now := time.Now()
	return now, "", s.shops[west].Unlink(ctx, north)
}

func (s story) relinkNorth(ctx context.Context) (time.Time, string, error) {
	if err := s.expectPods(ctx, north); err != nil {
		return time.Time{}, "", err
	}
	linked, err := s.linkBy(ctx, north, firstToken)
	return linked, "", err
}

func (s story) killEast(ctx context.Context) (none time.Time, note string, err error) {
	if note, err = s.kill(ctx, east); err != nil {
		return none, "", err
	}
	return none, note, hold(ctx, s.stream, s.want, outage)
}

func (s story) startEast(ctx context.Context) (none time.Time, note string, err error) {
	started, err := s.restart(ctx, east)
	return none, fmt.Sprintf("%s later Isthmus reports the cluster as ready", short(time.Since(started))), err
}

func (s story) rotateNorth(ctx context.Context) (none time.Time, note string, err error) {
	linked, err := s.linkBy(ctx, north, secondToken)
	if err != nil {
		return none, "", err
	}
	if err := s.shops[north].Revoke(ctx, firstToken); err != nil {
		return none, "", err
	}
	return none, fmt.Sprintf(
		"the link has a new token; the deleted old token is rejected %s later",
		short(time.Since(linked)),
	), nil
}

// restartNorth restarts north's API server to check that Isthmus uses the new credentials, because
// the restart ends all connections that used the old ones.
func (s story) restartNorth(ctx context.Context) (none time.Time, note string, err error) {
	if _, err := s.kill(ctx, north); err != nil {
		return none, "", err
	}
	_, err = s.restart(ctx, north)
	return none, "Isthmus must authenticate again, and only the new token is still valid", err
}
