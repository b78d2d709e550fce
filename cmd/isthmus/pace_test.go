package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/status"

	"isthmus/grpcapi"
)

// TestPace: work rests for nine times as long as it has taken, but not for long, and not once its client has gone.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPace(ctx)
		for _, x := range []struct{ work, rest time.Duration }{
			{0, 0},
			{paceWork / 2, 0},
			{paceWork / 2, 9 * paceWork}, // both pieces
			{2 * paceWork, 18 * paceWork},
			{paceWork / 2, 0},
			{time.Minute, paceMost},
		} {
			time.Sleep(x.work)
			began := time.Now()
			if p.rest(); time.Since(began) != x.rest {
				t.Errorf("%v of work, then %v of rest, not %v", x.work, time.Since(began), x.rest)
			}
		}
		cancel()
		time.Sleep(paceWork)
		began := time.Now()
		if p.rest(); time.Since(began) != 0 {
			t.Errorf("%v of rest, though nobody waits for the work", time.Since(began))
		}
	})
}

// TestExplainsArePaced: who explains can rest.
func TestExplainsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&explainer{authorities: *someAuthorities(), explain: func(_ context.Context, q grpcapi.Question) (*grpcapi.Explanation, error) {
			time.Sleep(paceWork)
			q.Rest()
			return nil, status.Error(13, "done")
		}}).handler()
		began := time.Now()
		if w := getExplain(h, url.Values{"authority": {"web.shop.svc.cluster.local:80"}}); w.Code != http.StatusServiceUnavailable || time.Since(began) != 10*paceWork {
			t.Errorf("%d after %v", w.Code, time.Since(began))
		}
	})
}

// TestPageRests: a page rests after each element of a list, also of one whose elements are made then.
func TestPageRests(t *testing.T) {
	rests := 0
	page := struct {
		Some []string `json:"some"`
		More twiceTwo `json:"more"`
	}{Some: []string{"a", "b", "c"}}
	var w strings.Builder
	if err := writePage(&w, page, func() { rests++ }); err != nil || rests != 5 || !strings.HasSuffix(w.String(), "\"more\": [\n    2,\n    2\n  ]\n}\n") {
		t.Errorf("%d rests, %v, in %s", rests, err, w.String())
	}
}

// twiceTwo is a pageList.
type twiceTwo struct{}

// Len implements pageList.
func (twiceTwo) Len() int { return 2 }

// At implements pageList.
func (twiceTwo) At(int) any { return 2 }
