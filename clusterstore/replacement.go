package clusterstore

import (
	"time"

	"go.uber.org/zap"

	"isthmus/internal/panics"
)

// A panic in the lists or watches of a linked cluster ends all of them for good, and may leave the
// cache half changed. The link then starts another cluster with the same credentials, as a rotation
// does. Until that cluster has synced, the failed cluster's cache is served as stale.

// noteFailures schedules the replacement of clusters that have failed. The pauses are those of a
// Supervisor. They start over if the cluster ran for MaxPause.
func (l *link) noteFailures() {
	now := time.Now()
	for _, r := range [...]*runningCluster{l.next, l.serving} {
		if r == nil || !r.broken || !r.replaceAt.IsZero() {
			continue
		}
		if now.Sub(r.started) >= panics.MaxPause {
			l.failures = 0
		}
		l.failures++
		r.replaceAt = now.Add(panics.PauseAfter(l.failures))
		l.log.Warn("a panic ended the lists and watches of a cluster: "+
			"a successor is started, and the cache is served until then", zap.Time("at", r.replaceAt))
	}
}

// newest returns the newest cluster that was made from these credentials. If there is none, it returns nil.
func (l *link) newest(creds *credentials) *runningCluster {
	for _, r := range [...]*runningCluster{l.next, l.serving} {
		if r != nil && creds != nil && r.creds.hash == creds.hash {
			return r
		}
	}
	return nil
}

// untilReplaced returns a channel that gets the time when the newest cluster is replaced. If it has not failed, the
// channel is nil.
func (l *link) untilReplaced() <-chan time.Time {
	r := l.newest(l.accepted)
	if r == nil || r.replaceAt.IsZero() {
		return nil
	}
	return time.After(time.Until(r.replaceAt))
}

// mustReplace reports whether the newest cluster of these credentials has failed, and is to be replaced now.
func (l *link) mustReplace(creds *credentials) bool {
	r := l.newest(creds)
	return r != nil && !r.replaceAt.IsZero() && !time.Now().Before(r.replaceAt)
}

// replacing reports whether next is to replace a failed cluster with the same credentials.
func (l *linkState) replacing() bool {
	return l.serving != nil && l.next != nil && l.serving.creds.hash == l.next.creds.hash
}
