package pace

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Sleep(t.Context(), time.Hour) || time.Since(began) != time.Hour {
			t.Errorf("Sleep returned after %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if Sleep(ctx, time.Hour) || time.Since(began) != time.Hour+time.Minute {
			t.Errorf("Sleep did not return with the context, but after %v", time.Since(began))
		}
	})
}
