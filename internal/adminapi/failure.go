package adminapi

import (
	"fmt"
	"time"
)

// Failure is work that has panicked because of a bug in Isthmus, and has not succeeded since. What clients were sent
// before stays in use.
type Failure struct {
	Where  string    `json:"where"`   // the kind of work, as in isthmus_panics_total
	Since  time.Time `json:"since"`   // the first panic
	Panics int       `json:"panics"`  // since then
	Panic  string    `json:"panic"`   // the newest one
	Next   time.Time `json:"nextTry"` // when the work is retried; in the past while the retry is under way
}

// String describes the failure for people.
func (f Failure) String() string {
	times := "once"
	if f.Panics != 1 {
		times = fmt.Sprintf("%d times", f.Panics)
	}
	return fmt.Sprintf("Isthmus can't update it, because of a bug: it has panicked %s since %s (%s: %s); "+
		"clients keep what they were sent before",
		times, f.Since.UTC().Format(time.RFC3339), f.Where, f.Panic)
}
