package check

import (
	"fmt"
	"time"

	"isthmus/clusterstore/kube"
)

// What a clock may be off. Tokens and certificates are refused by clocks that differ by
// minutes; a few seconds are within what the check can see.
const (
	skewWarning = 30 * time.Second
	skewFailure = 5 * time.Minute
)

// checkClock compares clocks. The server answered at some time between Sent and Received, and
// its time is cut to seconds.
func (l *look) checkClock(v kube.Version) {
	if v.Date.IsZero() {
		l.add(sectionAPI, ClockSkew, Unchecked, "its API server sends no Date", "")
		return
	}
	level, text := clockSkew(v)
	hint := ""
	if level != OK {
		hint = "synchronize the clocks of both clusters' nodes (NTP): tokens and certificates are good or not by them"
	}
	l.add(sectionAPI, ClockSkew, level, text, hint)
}

func clockSkew(v kube.Version) (Level, string) {
	var skew time.Duration // how much it is ahead, at least
	switch earliest, latest := v.Sent.Add(-time.Second), v.Received; {
	case v.Date.Before(earliest):
		skew = v.Date.Sub(earliest)
	case v.Date.After(latest):
		skew = v.Date.Sub(latest)
	}
	off, way := skew.Abs(), "ahead"
	if skew < 0 {
		way = "behind"
	}
	text := fmt.Sprintf("its clock is %s %s", roughly(off), way)
	switch {
	case off >= skewFailure:
		return Failure, text
	case off >= skewWarning:
		return Warning, text
	case off < time.Second:
		return OK, "its clock agrees"
	}
	return OK, text
}
