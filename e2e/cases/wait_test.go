package cases

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// phase is a condition that changes at a given time.
type phase struct {
	from time.Duration
	ok   bool
}

func TestEventually(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name   string
		hold   time.Duration
		phases []phase
		want   bool
		took   time.Duration
	}{
		{"immediately true", 0, []phase{{0, true}}, true, 0},
		{"true later", 0, []phase{{700 * ms, true}}, true, 700 * ms},
		{"never true", 0, nil, false, 1000 * ms},
		{"held", 300 * ms, []phase{{0, true}}, true, 300 * ms},
		{"held beyond the limit", 300 * ms, []phase{{900 * ms, true}}, true, 1200 * ms},
		{"true again", 300 * ms, []phase{{0, true}, {200 * ms, false}, {500 * ms, true}}, true, 800 * ms},
		{"lost within the limit", 300 * ms, []phase{{800 * ms, true}, {990 * ms, false}}, false, 1000 * ms},
		{
			"lost beyond the limit",
			300 * ms,
			[]phase{{900 * ms, true}, {1100 * ms, false}, {1110 * ms, true}},
			false,
			1100 * ms,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := eventually(
					t.Context(),
					wait{limit: 1000 * ms, hold: test.hold, poll: 10 * ms},
					func() (int64, error) {
						ok := false
						for _, p := range test.phases {
							if time.Since(start) >= p.from {
								ok = p.ok
							}
						}
						if ok {
							return 0, nil
						}
						return 0, errors.New("not yet")
					},
				)
				if (err == nil) != test.want || time.Since(start) != test.took {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(start), test.want, test.took)
				}
			})
		})
	}
}

func TestEventuallyHoldsAnewAfterAnUnseenState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := eventually(
			t.Context(),
			wait{limit: time.Second, hold: 300 * time.Millisecond, poll: 10 * time.Millisecond},
			func() (int64, error) {
				if time.Since(start) < 200*time.Millisecond {
					return 1, nil
				}
				return 3, nil // a second message was missed, so the condition may have changed twice
			},
		)
		if took := time.Since(start); err != nil || took != 500*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestEventuallyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := eventually(
			t.Context(),
			wait{limit: time.Second},
			func() (int64, error) { return 0, final{errors.New("hopeless")} },
		)
		if err == nil || err.Error() != "hopeless" || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = eventually(ctx, wait{limit: time.Minute}, func() (int64, error) { return 0, errors.New("not yet") })
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not yet") {
			t.Errorf("%v", err)
		}
	})
}
