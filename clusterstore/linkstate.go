package clusterstore

import (
	"time"

	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
)

// updateState sets the state that follows from the clusters' health, and decides whether a successor may replace the
// serving cluster.
func (l *link) updateState() {
	switch {
	case l.serving == nil && l.next == nil:
		l.setState(cluster.Rejected, nil)
		return
	case l.serving == nil:
		// Without a problem the state stays as start has set it, or unreachable until the cluster has synced.
		if problem := l.next.problem(l.next.health()); problem != nil {
			l.setState(cluster.Unreachable, problem)
		}
		return
	}
	serving := l.serving.health()
	if serving.StaleSince.IsZero() {
		l.setState(cluster.Ready, nil)
	} else {
		l.setState(cluster.Stale, serving.Err)
	}
	if l.next != nil {
		next := l.next.health()
		l.admitSuccessor(serving, next)
		l.noteProblem(l.next.problem(next))
	}
}

// noteProblem records why a successor can't replace the serving cluster, and logs and reports when that begins.
func (l *link) noteProblem(problem error) {
	if l.replacing() { // the credentials are the same
		return
	}
	before := l.next.failed
	l.next.failed = problem
	if problem == nil || before != nil {
		return
	}
	const text = "new credentials do not work; the old ones stay in use"
	l.log.Warn(text, zap.String("secret", l.next.creds.secret), zap.Error(problem))
	l.report(cluster.CredentialsChanged, because(text, problem), true)
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
