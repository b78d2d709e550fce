package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/e2e/harness"
)

// serverFaults returns faults of the API server itself.
func serverFaults() []fault {
	return []fault{{
		name:   "history-forgotten",
		state:  "stale",
		inject: forgetHistory,
		heal:   restore,
	}, {
		name:   "restored-from-a-backup",
		state:  "stale",
		inject: restoreBackup,
		heal:   restore,
	}, {
		name:   "restored-and-written-past",
		state:  "stale",
		inject: restoreAndWrite,
		heal:   restore,
	}, {
		// All certificates and keys are replaced, and the link is rotated to new credentials.
		name:   "another-authority",
		state:  "stale",
		reason: "certificate signed by unknown authority",
		inject: func(ctx context.Context, s *stage) error {
			return s.far.site.renew(ctx, func(dir string) error { return os.RemoveAll(filepath.Join(dir, "pki")) })
		},
		heal: func(ctx context.Context, s *stage) error { return s.relink(ctx) },
	}}
}

func restart(ctx context.Context, s *stage) error { return s.faulty.site.cluster().Restart(ctx) }

// forgetHistory restarts the API server after changes that Isthmus could not watch. The API server
// has lost the earlier events, so it rejects resumed watches with 410 Gone.
func forgetHistory(ctx context.Context, s *stage) error {
	slices := s.faulty.site.client().DiscoveryV1().EndpointSlices(s.name)
	before, err := slices.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := s.cut(harness.Silent); err != nil {
		return err
	}
	if err := s.turns(ctx, 3); err != nil {
		return err
	}
	if err := restart(ctx, s); err != nil {
		return err
	}
	again, err := slices.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if apierrors.IsResourceExpired(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer again.Stop()
	if e := <-again.ResultChan(); e.Type != watch.Error ||
		!apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		return fmt.Errorf("a watch from version %s is not rejected, and begins with %v", before.ResourceVersion, e)
	}
	return nil
}

// restoreAndWrite is like restoreBackup, but lasts longer than the minute for which Isthmus resumes
// watches. In the meantime, it makes more writes than were lost, so that the resource version of
// the watch exists again. A resumed watch would miss all changes up to that version.
func restoreAndWrite(ctx context.Context, s *stage) error {
	if err := restoreBackup(ctx, s); err != nil {
		return err
	}
	cut := time.Now() // slightly later than the actual cut
	slices := s.far.site.client().DiscoveryV1().EndpointSlices(s.name)
	old, err := s.far.site.slice(ctx, s.name, "far", "old", s.far.addr(231))
	if err != nil {
		return err
	}
	for i := range 1500 {
		old.Labels["turn"] = strconv.Itoa(i)
		if old, err = slices.Update(ctx, old, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if err := slices.Delete(ctx, old.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return harness.Pause(ctx, time.Until(cut.Add(resumeWithin)))
}

// resumeWithin is longer than any outage after which Isthmus resumes watches.
const resumeWithin = 75 * time.Second

// restoreBackup restores an older state of the API server's data. Resource versions continue from
// that state, so the versions in Isthmus's cache lie in the future, and objects created since then
// have disappeared without an event. A watch from such a version receives nothing.
func restoreBackup(ctx context.Context, s *stage) error {
	err := s.restartWith(ctx, func(dir string) error {
		return os.CopyFS(filepath.Join(dir, "backup"), os.DirFS(filepath.Join(dir, "etcd")))
	})
	if err != nil {
		return err
	}
	s.awaitState(s.t, s.name, "ready", recovery)
	young, err := s.far.site.slice(ctx, s.name, "far", "young", s.far.addr(230))
	if err != nil {
		return err
	}
	for i := range 500 { // more writes than the API server makes at startup
		young.Labels["turn"] = strconv.Itoa(i)
		if young, err = s.far.site.client().DiscoveryV1().EndpointSlices(s.name).Update(
			ctx,
			young,
			metav1.UpdateOptions{},
		); err != nil {
			return err
		}
	}
	if err := within(ctx, patience, func() error {
		if !s.mirror.Snapshot().Get.Has(s.far.addr(230)) {
			return errors.New("the new slice has not been received")
		}
		return nil
	}); err != nil {
		return err
	}
	if err := s.cut(harness.FaultMode{Refuse: true}); err != nil {
		return err
	}
	return s.restartWith(ctx, func(dir string) error {
		data := filepath.Join(dir, "etcd")
		return errors.Join(os.RemoveAll(data), os.Rename(filepath.Join(dir, "backup"), data))
	})
}
