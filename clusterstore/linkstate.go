package clusterstore

import (
	"time"

	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
)

// updateState sets the state that follows from the clusters' health, and logs
// if a rotation begins to fail.
func (l *link) updateState() {
	var problem error // of next
	if l.next != nil {
		problem = l.next.problem()
	}
	switch {
	case l.serving == nil && l.next == nil:
		l.setState(cluster.Rejected, nil)
		return
	case l.serving == nil:
		if problem != nil { // without one it stays as start has set it, or unreachable until it has synced
			l.setState(cluster.Unreachable, problem)
		}
		return
	}
	if h := l.serving.health(); h.StaleSince.IsZero() {
		l.setState(cluster.Ready, nil)
	} else {
		l.setState(cluster.Stale, h.Err)
	}
	if l.next == nil {
		return
	}
	failedBefore := l.next.failed
	l.next.failed = problem != nil && !l.replacing()
	if l.next.failed && !failedBefore {
		l.log.Warn("new credentials do not work; the old ones stay in use",
			zap.String("secret", l.next.creds.secret), zap.Error(problem))
		l.report(cluster.CredentialsChanged, because("new credentials do not work; the old ones stay in use", problem), true)
	}
}

// setState sets the state, and logs and reports a change of it; why is what is behind it, or nil.
func (l *link) setState(s cluster.State, why error) {
	before := l.state
	if before == s {
		return
	}
	l.state, l.since = s, time.Now()
	if s != cluster.Rejected { // unlink has reported that
		l.report(cluster.StateChanged, because(string(s), why), s == cluster.Unreachable || s == cluster.Stale)
	}
	switch {
	case s == cluster.Unreachable:
		l.log.Log(l.level, "cluster unreachable; it is retried", zap.Error(why))
	case s == cluster.Stale:
		l.log.Log(l.level, "cluster is stale: its API is not followed, and its endpoints stay as they were", zap.Error(why))
	case s == cluster.Ready && before == cluster.Stale:
		l.log.Info("cluster is back")
	case s == cluster.Ready:
		l.log.Info("cluster ready")
	}
}

// because appends an error to a text for people; nil: none.
func because(text string, why error) string {
	if why == nil {
		return text
	}
	return text + ": " + why.Error()
}
