package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/clusterstore/check"
)

// askChecks requests the page once.
func askChecks(t *testing.T, h http.Handler, ctx context.Context) (code int, page checkPage) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/debug/check", nil))
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Error(err)
		}
	}
	return w.Code, page
}

// TestChecker: API servers are asked once for all who ask meanwhile and within ten seconds, but
// what the gateway knows is new each time. A request that goes away spoils nothing.
func TestChecker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, pages atomic.Int64
		c := &checker{slot: make(chan struct{}, 1), ask: func(ctx context.Context) []check.Result {
			asked.Add(1)
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
			}
			return []check.Result{{Check: check.API, Text: fmt.Sprint(asked.Load())}}
		}, page: func(r []check.Result) checkPage {
			return checkPage{Replica: fmt.Sprint(pages.Add(1)), Results: r}
		}}
		h := c.handler()
		gone, goes := context.WithTimeout(t.Context(), time.Second)
		defer goes()
		if code, _ := askChecks(t, h, gone); code != http.StatusServiceUnavailable || asked.Load() != 1 {
			t.Errorf("%d for a request that went away, asked %d times", code, asked.Load())
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if code, page := askChecks(t, h, t.Context()); code != 200 || page.Results[0].Text != "2" {
					t.Errorf("%d, %+v", code, page)
				}
			})
		}
		all.Wait()
		if asked.Load() != 2 || pages.Load() != 4 {
			t.Errorf("asked %d times, %d pages", asked.Load(), pages.Load())
		}
		time.Sleep(checkKept)
		if _, page := askChecks(t, h, t.Context()); page.Results[0].Text != "3" || !page.At.Equal(time.Now()) {
			t.Errorf("%+v", page)
		}
	})
}
