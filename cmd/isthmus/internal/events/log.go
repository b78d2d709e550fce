package events

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/legible"
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
	mu      sync.Mutex
	version uint64
	kept    map[key]*list.Element             // of one of the lists in kinds, whose values are *adminapi.Event
	kinds   map[adminapi.EventKind]*list.List // the oldest first
	objects map[key]int                       // how many are kept, by kind and object; the key has no text
}

// key is what makes two events one.
type key struct {
	kind         adminapi.EventKind
	object, text string
}

// NewLog returns a log without events.
func NewLog() *Log {
	return &Log{kept: make(map[key]*list.Element), kinds: make(map[adminapi.EventKind]*list.List), objects: make(map[key]int)}
}

// Add adds what happens now. Of the event it reads Kind, Object, Text and Problem.
func (l *Log) Add(e adminapi.Event) {
	e.Object, e.Text = legible.Text(e.Object, maxObject), legible.Text(e.Text, maxText)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	now := time.Now() // under the lock, so that the lists are in order
	k := key{e.Kind, e.Object, e.Text}
	if at, again := l.kept[k]; again {
		old := at.Value.(*adminapi.Event)
		old.At, old.Count, old.Problem = now, old.Count+1, e.Problem
		l.kinds[e.Kind].MoveToBack(at)
		return
	}
	e.At, e.First, e.Count = now, now, 1
	if l.kinds[e.Kind] == nil {
		l.kinds[e.Kind] = list.New()
	}
	l.kept[k] = l.kinds[e.Kind].PushBack(&e)
	l.objects[key{e.Kind, e.Object, ""}]++
	switch {
	case l.objects[key{e.Kind, e.Object, ""}] > MostOfObject:
		l.remove(l.oldestOf(e.Kind, e.Object))
	case len(l.kept) > Most:
		l.remove(l.longest().Front())
	}
}

// oldestOf returns the oldest event of the kind that is about an object, of which there is
// one.
func (l *Log) oldestOf(kind adminapi.EventKind, object string) *list.Element {
	at := l.kinds[kind].Front()
	for at.Value.(*adminapi.Event).Object != object {
		at = at.Next()
	}
	return at
}

// longest returns the kind with most events; of equals, that whose oldest is older.
func (l *Log) longest() *list.List {
	var longest *list.List
	for _, one := range l.kinds {
		if longest == nil || one.Len() > longest.Len() ||
			one.Len() == longest.Len() && one.Len() > 0 && one.Front().Value.(*adminapi.Event).At.Before(longest.Front().Value.(*adminapi.Event).At) {
			longest = one
		}
	}
	return longest
}

func (l *Log) remove(at *list.Element) {
	e := at.Value.(*adminapi.Event)
	l.kinds[e.Kind].Remove(at)
	delete(l.kept, key{e.Kind, e.Object, e.Text})
	object := key{e.Kind, e.Object, ""}
	if l.objects[object]--; l.objects[object] == 0 {
		delete(l.objects, object)
	}
}

// Version changes with every Add.
func (l *Log) Version() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// Newest returns all events, the newest first.
func (l *Log) Newest() []adminapi.Event {
	l.mu.Lock()
	all := make([]adminapi.Event, 0, len(l.kept))
	for _, one := range l.kinds {
		for at := one.Front(); at != nil; at = at.Next() {
			all = append(all, *at.Value.(*adminapi.Event))
		}
	}
	l.mu.Unlock()
	slices.SortFunc(all, func(a, b adminapi.Event) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Text, b.Text))
	})
	return all
}
