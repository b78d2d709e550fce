package fair

import (
	"cmp"
	"container/heap"
	"time"
)

// Queue is the keys to be handled, in a fair order. It does not look for keys that are
// in it twice, and is not safe for concurrent use.
type Queue[K comparable] struct {
	ownerOf func(K) string // fixed
	atOnce  int            // fixed: how many keys of one owner may be under way

	owners map[string]*owner[K]
	turns  turns[K]      // those of the owners that may have a key under way more
	ready  int           // the number of their keys
	open   int           // the number of all keys, and of those under way
	now    time.Duration // what the owner served last had used by then
	turn   uint64
}

// owner is one owner's keys and what their handling has taken.
type owner[K comparable] struct {
	name     string
	keys     []K // in the order in which they came
	underWay int
	used     time.Duration // without what is under way; who comes anew begins with what the others have used
	turn     uint64        // of owners that have used the same, the lowest is next
	at       int           // its place in turns; -1: it is not there
}

// NewQueue returns an empty queue. At most atOnce keys of one owner are under way at the
// same time; the others wait until one is done.
func NewQueue[K comparable](atOnce int, ownerOf func(K) string) *Queue[K] {
	return &Queue[K]{ownerOf: ownerOf, atOnce: atOnce, owners: make(map[string]*owner[K])}
}

// Len returns how many keys there are, but for those of owners with as many keys under
// way as there may be. It is 0 if and only if Pop returns none.
func (q *Queue[K]) Len() int { return q.ready }

// Push adds a key.
func (q *Queue[K]) Push(key K) {
	name := q.ownerOf(key)
	o := q.owners[name]
	if o == nil {
		o = &owner[K]{name: name, at: -1}
		q.owners[name] = o
	}
	if o.isIdle() {
		o.used = max(o.used, q.now)
		q.line(o)
	} else if o.at < 0 && o.underWay < q.atOnce {
		q.line(o)
	}
	o.keys = append(o.keys, key)
	q.open++
	if o.at >= 0 {
		q.ready++
	}
}

// Pop removes the key that is next; ok is false if there is none. The key is under way
// until Done is called.
func (q *Queue[K]) Pop() (key K, ok bool) {
	for len(q.turns) > 0 {
		o := q.turns[0]
		q.now = max(q.now, o.used)
		if len(o.keys) > 0 {
			return q.take(o), true
		}
		heap.Pop(&q.turns)
		if o.isIdle() {
			delete(q.owners, o.name)
		}
	}
	return key, false
}

// take begins the first key of an owner.
func (q *Queue[K]) take(o *owner[K]) (key K) {
	key = o.keys[0]
	clear(o.keys[:1])
	if o.keys = o.keys[1:]; len(o.keys) == 0 {
		o.keys = nil // the room before it
	}
	o.underWay++
	q.ready--
	if o.underWay < q.atOnce {
		q.line(o)
	} else {
		heap.Remove(&q.turns, o.at)
		q.ready -= len(o.keys)
	}
	return key
}

// Done ends what Pop began. took is how long it has kept a worker.
func (q *Queue[K]) Done(key K, took time.Duration) {
	o := q.owners[q.ownerOf(key)]
	o.underWay--
	o.used += max(took, 0)
	if o.at < 0 {
		q.ready += len(o.keys)
	}
	if q.open--; q.open == 0 { // all have been served
		clear(q.owners)
		q.turns, q.now = nil, 0
		return
	}
	q.line(o)
}

// line puts an owner behind those that have used as much.
func (q *Queue[K]) line(o *owner[K]) {
	q.turn++
	o.turn = q.turn
	if o.at < 0 {
		heap.Push(&q.turns, o)
	} else {
		heap.Fix(&q.turns, o.at)
	}
}

func (o *owner[K]) isIdle() bool { return len(o.keys) == 0 && o.underWay == 0 }

// turns is a [heap.Interface] of owners: the first is next.
type turns[K comparable] []*owner[K]

func (t turns[K]) Len() int { return len(t) }

func (t turns[K]) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(t[i].used, t[j].used), cmp.Compare(t[i].turn, t[j].turn)) < 0
}

func (t turns[K]) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].at, t[j].at = i, j
}

// Push implements [heap.Interface].
func (t *turns[K]) Push(o any) {
	last := o.(*owner[K])
	last.at = len(*t)
	*t = append(*t, last)
}

// Pop implements [heap.Interface].
func (t *turns[K]) Pop() any {
	n := len(*t) - 1
	last := (*t)[n]
	last.at = -1
	(*t)[n] = nil
	*t = (*t)[:n]
	return last
}
