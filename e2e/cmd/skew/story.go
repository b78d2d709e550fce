package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"isthmus/e2e/harness"
)

const limit = time.Minute

// The names of the Leases.
const (
	slicesLease  = "linkerd-destination-endpoint-write"
	exportsLease = "isthmus-exports-write"
)

type story struct {
	*world
	*replicas
	streams *streams
	number  int      // number of the newest change
	usual   []string // objects that the first leader wrote for a change
	failed  bool
}

// step changes the set of replicas. Afterwards, both Leases have a leader of the given version.
type step struct {
	title  string
	do     func(ctx context.Context) error
	leader string
}

// tell plays all steps and prints the differences after each.
func (s *story) tell(ctx context.Context) error {
	if err := errors.Join(s.replicas.start(ctx, older), s.replicas.start(ctx, older)); err != nil {
		return err
	}
	if err := s.await(ctx, "the previous version has written", s.hasWritten); err != nil {
		return err
	}
	s.streams = openStreams(ctx, s.addresses, s.exports)
	start := func(version string) func(context.Context) error {
		return func(ctx context.Context) error { return s.replicas.start(ctx, version) }
	}
	stop := func(version string) func(context.Context) error {
		return func(context.Context) error { return s.replicas.stop(version) }
	}
	for _, one := range []step{
		{"the previous version alone", func(context.Context) error { return nil }, older},
		{"the new version beside the previous one", start(newer), older},
		{"the new version alone", stop(older), newer},
		{"the previous version beside the new one", start(older), newer},
		{"the previous version alone again", stop(newer), older},
	} {
		if err := s.play(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one.title, err)
		}
	}
	if s.failed {
		return harness.ErrPrinted
	}
	return nil
}

func (s *story) end() error {
	if s.streams != nil {
		s.streams.stop()
	}
	return s.replicas.end()
}

// play plays a step. It checks that the new replicas change nothing, and that the leader writes the
// same objects for a change as the first leader.
func (s *story) play(ctx context.Context, one step) error {
	fmt.Printf("%s\n", one.title)
	if err := s.settled(ctx, one, s.number == 0); err != nil {
		return err
	}
	told, err := s.streams.contents()
	if err != nil {
		return err
	}
	if err := told.compareMeshed(); err != nil {
		return err
	}
	before, err := readObjects(ctx, s.west)
	if err != nil {
		return err
	}

	s.streams.mark()
	if err := one.do(ctx); err != nil {
		return err
	}
	if err := s.settled(ctx, one, true); err != nil {
		return err
	}
	s.report("endpoint", s.streams.lost(s.number))
	toldNow, err := s.streams.contents()
	if err != nil {
		return err
	}
	s.report("metadata", told.differences(toldNow))
	after, err := readObjects(ctx, s.west)
	if err != nil {
		return err
	}
	_, lines := before.changed(after)
	s.report("write", lines)
	return s.changes(ctx, one, after)
}

// changes makes one change to everything and compares the objects that the leader writes.
func (s *story) changes(ctx context.Context, one step, before objects) error {
	s.number++
	s.streams.mark()
	if err := s.world.change(ctx, s.number); err != nil {
		return err
	}
	if err := s.settled(ctx, one, true); err != nil {
		return err
	}
	s.report("endpoint", s.streams.lost(s.number))
	after, err := readObjects(ctx, s.west)
	if err != nil {
		return err
	}
	names, _ := before.changed(after)
	if s.usual == nil {
		s.usual = names
		fmt.Printf("  written for a change, by the leader or by this command: %s\n", strings.Join(names, ", "))
	}
	if !slices.Equal(names, s.usual) {
		now, first := strings.Join(names, ", "), strings.Join(s.usual, ", ")
		s.report("write", []string{fmt.Sprintf("for a change, %s, want %s", now, first)})
	}
	return nil
}

// settled waits until all streams and objects reflect the newest change. If led is set, both Leases
// must have a leader of the step's version.
func (s *story) settled(ctx context.Context, one step, led bool) error {
	return s.await(ctx, "streams, Leases and written objects are up to date", func(ctx context.Context) error {
		if err := s.streams.have(s.number); err != nil {
			return err
		}
		leases := []string{slicesLease}
		if s.exports {
			leases = append(leases, exportsLease)
		}
		for _, lease := range leases {
			name, err := holder(ctx, s.west, lease)
			if err != nil {
				return err
			}
			if led && !strings.HasPrefix(name, one.leader) {
				return fmt.Errorf("the Lease %s is held by %s", lease, name)
			}
		}
		return s.hasWritten(ctx)
	})
}

// hasWritten returns an error unless the leader has written the newest change and has no more
// pending writes.
func (s *story) hasWritten(ctx context.Context) error {
	if !s.exports {
		return nil
	}
	led := false
	for _, g := range s.all() {
		page, err := harness.ReadClusters(ctx, g.MetricsAddr())
		if err != nil {
			return err
		}
		exports := page.Exports
		if exports == nil || !exports.Leading {
			continue // another version may have different pending writes
		}
		led = true
		if exports.Unread != "" || exports.Pending > 0 {
			return fmt.Errorf("replica %s still has to write: %+v", exports.Identity, exports)
		}
	}
	if !led {
		return errors.New("no replica writes exports")
	}
	all, err := readObjects(ctx, s.west)
	if err != nil {
		return err
	}
	mirror := all["Service web-east"]
	if team := mirror.GetLabels()["team"]; team != fmt.Sprint("team-", s.number) {
		return fmt.Errorf("the mirror has the label team=%s", team)
	}
	for _, name := range []string{"Service web-federated", "Service web-clusterset", "ServiceImport web"} {
		if all[name].Object == nil {
			return fmt.Errorf("%s does not exist", name)
		}
	}
	return nil
}

func (s *story) await(ctx context.Context, what string, check func(context.Context) error) error {
	if err := harness.Poll(ctx, limit, 200*time.Millisecond, func() error { return check(ctx) }); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// report prints differences. Unlisted differences are failures.
func (s *story) report(what string, lines []string) {
	for _, line := range lines {
		if isListed(line) {
			fmt.Printf("  %s, listed: %s\n", what, line)
			continue
		}
		fmt.Printf("  %s, NOT LISTED: %s\n", what, line)
		s.failed = true
	}
}
