package cluster

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"isthmus/federation"
)

// Life has the state of a cluster, linked or own, from when it is first connected to: whoever
// runs its Clusters tells it what has become of them, and Life logs and reports what that
// changes. It is safe for concurrent use.
type Life struct {
	// fixed
	name   federation.ClusterName
	log    *zap.Logger
	level  zapcore.Level // of lines about problems
	report func(Change)

	mu    sync.Mutex
	state State
	since time.Time
}

// NewLife returns a Life without a state. Problems are logged at that level; report is called for
// each change of the state but to [Rejected], and must not block.
func NewLife(name federation.ClusterName, log *zap.Logger, level zapcore.Level, report func(Change)) *Life {
	return &Life{name: name, log: log, level: level, report: report}
}

// State returns the present state, and since when it has been that. The zero values: there has
// been none.
func (l *Life) State() (State, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.since
}

// Follow sets the state that follows from a cluster's health: of the one that is served or, if
// there is none yet, of the one that is to be; err is why that does not work.
func (l *Life) Follow(served bool, h Health, err error) {
	switch {
	case served && h.StaleSince.IsZero():
		l.Set(Ready, nil)
	case served:
		l.Set(Stale, h.Err)
	case err != nil:
		l.Set(Unreachable, err)
	}
}

// Set sets the state; why is what is behind it, or nil.
func (l *Life) Set(s State, why error) {
	l.mu.Lock()
	before := l.state
	if before != s {
		l.state, l.since = s, time.Now()
	}
	l.mu.Unlock()
	if before == s {
		return
	}
	problem := s == Unreachable || s == Stale
	if s != Rejected {
		l.report(Change{Cluster: l.name, Kind: StateChanged, Text: Because(string(s), why), Problem: problem})
	}
	switch {
	case s == Unreachable:
		l.log.Log(l.level, "cluster unreachable; it is retried", zap.Error(why))
	case s == Stale:
		l.log.Log(l.level, "cluster is stale: its API is not followed, and its endpoints stay as they were", zap.Error(why))
	case s == Ready && before == Stale:
		l.log.Info("cluster is back")
	case s == Ready:
		l.log.Info("cluster ready")
	}
}

// Because appends an error to a text for people; nil: none.
func Because(text string, why error) string {
	if why == nil {
		return text
	}
	return text + ": " + why.Error()
}
