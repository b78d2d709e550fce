package admin

import (
	"slices"
	"sync"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// eventsHandler answers /debug/events.
type eventsHandler struct{ *Sources }

// all returns all events, the newest first.
func (h eventsHandler) all() adminapi.Events {
	return adminapi.Events{Most: maxEvents, Events: h.Events.Newest()}
}

// eventLines is how the list of events is searched and sorted.
var eventLines = lineKind[adminapi.Event]{
	text: func(e *adminapi.Event) string { return e.Object + "\n" + e.Text + "\n" + string(e.Kind) },
	parts: choices[func(*adminapi.Event) bool]{
		{"", nil},
		about(adminapi.EventCluster),
		about(adminapi.EventStanding),
		about(adminapi.EventRotation),
		about(adminapi.EventGateway),
		about(adminapi.EventTier),
		about(adminapi.EventStall),
	},
	order: choices[func(a, b *adminapi.Event) int]{{"newest", nil}}, // as they are
}

// about shows events of one kind.
func about(kind adminapi.EventKind) choice[func(*adminapi.Event) bool] {
	return choice[func(*adminapi.Event) bool]{string(kind), func(e *adminapi.Event) bool { return e.Kind == kind }}
}

const (
	maxEvents         = 500 // that an EventLog keeps
	maxEventsOfObject = 40  // of one kind, about one object

	maxObject = 253 // bytes of an event's object; that is how long a name may be in Kubernetes
	maxText   = 400 // bytes of an event's text
)

// EventLog keeps what has happened lately, for people: /debug/events and the page at / show it.
//
//   - It keeps maxEvents events. What happens again, with the same kind, object and text, is
//     one event with a count, at its newest time.
//   - What happens often does not push out what happens rarely: an event that is too much
//     takes the place of the oldest of the kind that has most, and one object has at most
//     maxEventsOfObject of a kind.
//   - Texts are shortened, and everything that is no printable character is replaced: they
//     come from clusters.
//
// An EventLog is safe for concurrent use. Adding looks at each event that is kept, which takes some microseconds, and
// calls nothing: so it may be done under any lock.
type EventLog struct {
	mu   sync.Mutex
	kept []adminapi.Event // the oldest first
}

// NewEventLog returns a log without events.
func NewEventLog() *EventLog { return new(EventLog) }

// Add adds what happens now. Of the event it reads Kind, Object, Text and Problem.
func (l *EventLog) Add(e adminapi.Event) {
	e.Object = text.Clean(e.Object, maxObject)
	e.Text = text.Clean(e.Text, maxText)
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = time.Now() // under the lock, so that the events are in order
	e.First = e.At
	e.Count = 1
	if i := l.outgoing(&e); i >= 0 {
		if old := &l.kept[i]; sameEvent(old, &e) && old.Text == e.Text {
			e.First = old.First
			e.Count = old.Count + 1
		}
		l.kept = slices.Delete(l.kept, i, i+1)
	}
	l.kept = append(l.kept, e)
}

// sameEvent reports whether two events are of one kind and about one object.
func sameEvent(a, b *adminapi.Event) bool { return a.Kind == b.Kind && a.Object == b.Object }

// outgoing returns which event goes for a new one: the one that happens again, or else the oldest where one object,
// or the log, has as many as it may; -1: none.
func (l *EventLog) outgoing(e *adminapi.Event) int {
	ofObject := 0
	oldest := -1
	for i := range l.kept {
		old := &l.kept[i]
		if !sameEvent(old, e) {
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
	case ofObject == maxEventsOfObject:
		return oldest
	case len(l.kept) == maxEvents:
		return l.oldestOfMany()
	}
	return -1
}

// oldestOfMany returns the oldest event of the kind with most events; of equals, the oldest of all.
func (l *EventLog) oldestOfMany() int {
	count := make(map[adminapi.EventKind]int)
	most := 0
	for i := range l.kept {
		count[l.kept[i].Kind]++
		most = max(most, count[l.kept[i].Kind])
	}
	return slices.IndexFunc(l.kept, func(e adminapi.Event) bool { return count[e.Kind] == most })
}

// Newest returns all events, the newest first.
func (l *EventLog) Newest() []adminapi.Event {
	l.mu.Lock()
	all := append([]adminapi.Event{}, l.kept...)
	l.mu.Unlock()
	slices.Reverse(all)
	return all
}
