package admin

import (
	"slices"
	"sync"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// eventsHandler serves /debug/events.
type eventsHandler struct{ *Sources }

func (h eventsHandler) all() adminapi.Events {
	return adminapi.Events{Most: maxEvents, Events: h.Events.Newest()}
}

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
	order: choices[func(a, b *adminapi.Event) int]{{"newest", nil}}, // the events are already in this order
}

func about(kind adminapi.EventKind) choice[func(*adminapi.Event) bool] {
	return choice[func(*adminapi.Event) bool]{string(kind), func(e *adminapi.Event) bool { return e.Kind == kind }}
}

const (
	maxEvents         = 500 // size of an EventLog
	maxEventsOfObject = 40  // of one kind

	maxObject = 253 // bytes of an event's object: the maximum length of a name in Kubernetes
	maxText   = 400 // bytes of an event's text
)

// EventLog stores recent events for /debug/events and the page at /.
//
//   - The log stores at most maxEvents events. The log merges events with the same kind, object and
//     text into one event with a count and the latest time.
//   - Frequent events do not displace rare events. If the log is full, a new event replaces the
//     oldest event of the kind that has the most events.
//   - The log stores at most maxEventsOfObject events per kind and object.
//   - The text of an event can contain untrusted data from a cluster. The log therefore truncates
//     the text and replaces unprintable characters.
//
// An EventLog is safe for concurrent use. Callers may hold any lock while they call Add.
type EventLog struct {
	mu   sync.Mutex
	kept []adminapi.Event // oldest first
}

// NewEventLog returns an empty log.
func NewEventLog() *EventLog { return new(EventLog) }

// Add adds an event with the current time. The caller sets the fields Kind, Object, Text and
// Problem.
func (l *EventLog) Add(e adminapi.Event) {
	e.Object = text.Clean(e.Object, maxObject)
	e.Text = text.Clean(e.Text, maxText)
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = time.Now() // set while holding the lock, to keep the events in order
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

func sameEvent(a, b *adminapi.Event) bool { return a.Kind == b.Kind && a.Object == b.Object }

// outgoing returns the index of the event that the new event e replaces, or -1 if there is room for
// e. If the object already has maxEventsOfObject events of this kind, the new event replaces the
// oldest of these events. If the log is full, the new event replaces the event that oldestOfMany
// returns.
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

// oldestOfMany returns the index of the oldest event of the kind with the most events.
func (l *EventLog) oldestOfMany() int {
	count := make(map[adminapi.EventKind]int)
	most := 0
	for i := range l.kept {
		count[l.kept[i].Kind]++
		most = max(most, count[l.kept[i].Kind])
	}
	return slices.IndexFunc(l.kept, func(e adminapi.Event) bool { return count[e.Kind] == most })
}

// Newest returns all events, newest first.
func (l *EventLog) Newest() []adminapi.Event {
	l.mu.Lock()
	all := append([]adminapi.Event{}, l.kept...)
	l.mu.Unlock()
	slices.Reverse(all)
	return all
}
