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

// checkClock compares clocks.
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

// clockSkew describes how much a clock is off. The server answered at some time between Sent
// and Received, and its time is cut to seconds: so the middle of each is compared.
func clockSkew(v kube.Version) (Level, string) {
	skew := v.Date.Add(time.Second / 2).Sub(v.Sent.Add(v.Received.Sub(v.Sent) / 2)) // how much it is ahead
	margin := v.Received.Sub(v.Sent)/2 + time.Second/2                              // clocks that agree may seem that far apart
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
	case off < margin+time.Second:
		return OK, "its clock agrees"
	}
	return OK, text
}
