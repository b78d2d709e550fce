package decode

import (
	"net/http"
	"testing"
	"time"
)

// TestRetryAfter: a header Retry-After is a number of seconds or a date. Anything else counts as none.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]int32{
		"": 0, "0": 0, "7": 7, " 7 ": 7, "3600": 3600, "3601": 3600, "99999999999999999999": 3600,
		"-1": 0, "1.5": 0, "soon": 0,
		now.Add(30 * time.Second).Format(http.TimeFormat): 31, now.Add(-time.Hour).Format(http.TimeFormat): 0,
		now.AddDate(1000, 0, 0).Format(http.TimeFormat): 3600,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// FuzzRetryAfter: no header makes a client wait for longer than the maximum.
func FuzzRetryAfter(f *testing.F) {
	f.Add("10")
	f.Add("Fri, 02 Jan 2026 03:04:05 GMT")
	f.Fuzz(func(t *testing.T, text string) {
		if seconds := retryAfter(text, time.Now()); seconds < 0 || seconds > maxRetryAfter {
			t.Errorf("%q: %d", text, seconds)
		}
	})
}
