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

// serverFaults are those of the API server itself.
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
		// Certificates and keys are all made anew; new credentials are rotated in.
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

// forgetHistory keeps the gateway away from the API server while that changes and is restarted. It knows no event of
// before then, so that the watches that the gateway wants to go on with are answered by 410 Gone.
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
		return fmt.Errorf("a watch from version %s is not refused but begins with %v", before.ResourceVersion, e)
	}
	return nil
}

// restoreAndWrite is like restoreBackup, but lasts longer than the minute within which a watch is
// resumed. Meanwhile it writes more than was lost. So the version at which a watch would resume
// exists again, and a resumed watch would miss everything older.
func restoreAndWrite(ctx context.Context, s *stage) error {
	if err := restoreBackup(ctx, s); err != nil {
		return err
	}
	cut := time.Now() // or a moment before
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

// resumeWithin is longer than an outage may be after which watches are resumed.
const resumeWithin = 75 * time.Second

// restoreBackup takes the API server back to an older state of its data. Versions of objects begin
// to count from there again, so that those that the gateway knows lie in the future, and what has
// been made since is gone without a trace. A watch that goes on from such a version is silent.
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
	for i := range 500 { // more than a start of the API server writes
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
			return errors.New("the young slice has not arrived")
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
