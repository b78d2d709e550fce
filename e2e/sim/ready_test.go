package sim

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadiness: a gateway that was not ready for a moment is found out, however well it is before and after.
func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		refusal, began := errors.New("not ready"), time.Now()
		ask := func(context.Context) error {
			if at := time.Since(began); at >= time.Second && at < time.Second+readyEvery {
				return refusal
			}
			return nil
		}
		var r readiness
		go r.run(ctx, ask)
		time.Sleep(time.Second - 1)
		if err := r.err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := r.err(); !errors.Is(err, refusal) {
			t.Errorf("the gateway was refused, but %v", err)
		}
		stop()
		synctest.Wait()
	})
}

// TestReadinessEnds: a question that is cut short by the end of the run is no refusal.
func TestReadinessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var r readiness
		go r.run(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		synctest.Wait()
		stop()
		synctest.Wait()
		if err := r.err(); err != nil {
			t.Error(err)
		}
	})
}
