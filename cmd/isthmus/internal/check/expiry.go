package check

import (
	"fmt"
	"time"

	"isthmus/internal/text"
)

// Before what expires does so, there is a warning: credentials can be renewed by one command;
// a mesh's trust anchors take weeks.
const (
	soonCredentials = 7 * 24 * time.Hour
	soonAnchors     = 30 * 24 * time.Hour
)

// checkExpiry reports for how long a link's credentials are good. Where the API server has refused them, how long they
// would be says little, unless that time is over.
func (l *clusterCheck) checkExpiry() {
	level, text := OK, "its credentials do not expire"
	if e := l.API.Expiry; e != nil {
		level, text = expiry(l.now, e.At, soonCredentials)
		text = "its " + e.What + " " + text
	}
	if l.unauthorized() && level != Failure {
		level, text = Unchecked, "the API server refuses its credentials"
	}
	hint := ""
	if level != OK {
		hint = "renew the link: isthmus link " + l.Cluster.Cluster + " --context CONTEXT --apply"
	}
	l.about(sectionLinks, LinkExpiry, l.Cluster.Cluster)(level, text, hint)
}

// expiry describes when something expires, and how bad that is.
func expiry(now, at time.Time, soon time.Duration) (level Level, text string) {
	left := at.Sub(now)
	when := at.UTC().Format("2006-01-02 15:04 MST")
	switch {
	case left <= 0:
		return Failure, "has expired, at " + when
	case left < soon:
		return Warning, fmt.Sprintf("expires in %s, at %s", roughly(left), when)
	}
	return OK, "is good until " + when
}

// roughly is a duration in words: rounded, in the largest unit that it has nearly two of.
func roughly(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if d >= u.size*19/10 {
			return fmt.Sprintf("%d %s", d.Round(u.size)/u.size, u.name)
		}
	}
	return text.Count(int(d.Round(time.Second)/time.Second), "second", "seconds")
}
