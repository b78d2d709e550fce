package events

import (
	"slices"
	"sync"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

const (
	// Most is how many events a Log keeps.
	Most = 500
	// MostOfObject is how many of one kind are about one object.
	MostOfObject = 40

	maxObject = 253 // bytes of an event's object; that is how long a name may be in Kubernetes
	maxText   = 400 // bytes of an event's text
)

// Log has the last events.
type Log struct {
	mu   sync.Mutex
	kept []adminapi.Event // the oldest first
}

// NewLog returns a log without events.
func NewLog() *Log { return new(Log) }

// Add adds what happens now. Of the event it reads Kind, Object, Text and Problem.
func (l *Log) Add(e adminapi.Event) {
	e.Object, e.Text = text.Clean(e.Object, maxObject), text.Clean(e.Text, maxText)
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = time.Now() // under the lock, so that the events are in order
	e.First, e.Count = e.At, 1
	if i := l.outgoing(&e); i >= 0 {
		if old := &l.kept[i]; same(old, &e) && old.Text == e.Text {
			e.First, e.Count = old.First, old.Count+1
		}
		l.kept = slices.Delete(l.kept, i, i+1)
	}
	l.kept = append(l.kept, e)
}

// same reports whether two events are of one kind and about one object.
func same(a, b *adminapi.Event) bool { return a.Kind == b.Kind && a.Object == b.Object }

// outgoing returns which event goes for a new one: the one that happens again, or else the oldest where one object, or the log,
// has as many as it may; -1: none.
func (l *Log) outgoing(e *adminapi.Event) int {
	ofObject, oldest := 0, -1
	for i := range l.kept {
		old := &l.kept[i]
		if !same(old, e) {
			continue
		}
		if old.Text == e.Text {
			return i
		}
		if ofObject++; oldest < 0 {
			oldest = i
		}
	}
	switch {
	case ofObject == MostOfObject:
		return oldest
	case len(l.kept) == Most:
		return l.oldestOfMany()
	}
	return -1
}

// oldestOfMany returns the oldest event of the kind with most events; of equals, the oldest of all.
func (l *Log) oldestOfMany() int {
	count, most := make(map[adminapi.EventKind]int), 0
	for i := range l.kept {
		count[l.kept[i].Kind]++
		most = max(most, count[l.kept[i].Kind])
	}
	return slices.IndexFunc(l.kept, func(e adminapi.Event) bool { return count[e.Kind] == most })
}

// Newest returns all events, the newest first.
func (l *Log) Newest() []adminapi.Event {
	l.mu.Lock()
	all := append([]adminapi.Event{}, l.kept...)
	l.mu.Unlock()
	slices.Reverse(all)
	return all
}
