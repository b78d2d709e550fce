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
	"isthmus/internal/adminapi"
)

// askChecks requests the page once.
func askChecks(t *testing.T, h http.Handler, ctx context.Context) (code int, page adminapi.Check) {
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

// TestChecker: API servers are asked once for all who ask meanwhile and within ten seconds of
// that, also by clients that leave at once, but what the gateway knows is new each time.
func TestChecker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, cut, pages atomic.Int64
		c := newChecker(func(ctx context.Context) []check.Result {
			text := fmt.Sprint(asked.Add(1))
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
				cut.Add(1)
			}
			return []check.Result{{Check: check.API, Text: text}}
		}, func(r []check.Result) adminapi.Check {
			return adminapi.Check{Replica: fmt.Sprint(pages.Add(1)), Results: r}
		})
		h, began := c.handler(), time.Now()
		for range 100 { // for two seconds in all
			gone, goes := context.WithTimeout(t.Context(), 20*time.Millisecond)
			askChecks(t, h, gone)
			goes()
		}
		if asked.Load() != 1 || pages.Load() != 0 {
			t.Errorf("asked %d times, %d pages for clients that left", asked.Load(), pages.Load())
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if code, page := askChecks(t, h, t.Context()); code != 200 || page.Results[0].Text != "1" || !page.At.Equal(began) {
					t.Errorf("%d, %+v", code, page)
				}
			})
		}
		all.Wait()
		time.Sleep(checkKept - time.Since(began) - time.Millisecond)
		if _, page := askChecks(t, h, t.Context()); page.Results[0].Text != "1" || pages.Load() != 5 {
			t.Errorf("%+v, %d pages", page, pages.Load())
		}
		time.Sleep(time.Millisecond)
		began = time.Now()
		if _, page := askChecks(t, h, t.Context()); page.Results[0].Text != "2" || !page.At.Equal(began) || time.Since(began) != 3*time.Second {
			t.Errorf("%+v after %v", page, time.Since(began))
		}
		if cut.Load() != 0 {
			t.Errorf("%d were cut short", cut.Load())
		}
		time.Sleep(checkKept)
		go askChecks(t, h, t.Context())
		synctest.Wait()
		if c.end(); asked.Load() != 3 {
			t.Errorf("asked %d times", asked.Load())
		}
		synctest.Wait()
		if cut.Load() != 1 {
			t.Error("the gateway's end does not end it")
		}
	})
}
