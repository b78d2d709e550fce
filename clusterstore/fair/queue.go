package fair

// Queue is the keys to be handled, by owners in turn. It does not look for keys that are in
// it twice, and is not safe for concurrent use.
type Queue[K comparable] struct {
	atOnce int                  // fixed: how many keys of one owner may be under way
	owners map[string]*owner[K] // those with keys, waiting or under way
	turns  []*owner[K]          // those with a waiting key and less than atOnce under way; the first is next
}

// owner is one owner's keys.
type owner[K comparable] struct {
	name     string
	waiting  []K // in the order in which they came
	underWay int
}

// NewQueue returns an empty queue. At most atOnce keys of one owner are under way at the
// same time; the others wait until one is done.
func NewQueue[K comparable](atOnce int) *Queue[K] {
	return &Queue[K]{atOnce: atOnce, owners: make(map[string]*owner[K])}
}

// Len returns how many owners may begin a key. It is 0 if and only if Pop returns none.
func (q *Queue[K]) Len() int { return len(q.turns) }

// Push adds a key of an owner.
func (q *Queue[K]) Push(name string, key K) {
	o := q.owners[name]
	if o == nil {
		o = &owner[K]{name: name}
		q.owners[name] = o
	}
	if len(o.waiting) == 0 && o.underWay < q.atOnce {
		q.turns = append(q.turns, o)
	}
	o.waiting = append(o.waiting, key)
}

// Pop removes the key that is next, and returns its owner too; ok is false if there is
// none. The key is under way until Done is called.
func (q *Queue[K]) Pop() (name string, key K, ok bool) {
	if len(q.turns) == 0 {
		return name, key, false
	}
	o := q.turns[0]
	q.turns[0], q.turns = nil, q.turns[1:]
	key, o.waiting = o.waiting[0], o.waiting[1:]
	if o.underWay++; len(o.waiting) > 0 && o.underWay < q.atOnce {
		q.turns = append(q.turns, o)
	}
	return o.name, key, true
}

// Done ends what Pop began for that owner.
func (q *Queue[K]) Done(name string) {
	o := q.owners[name]
	if len(o.waiting) > 0 && o.underWay == q.atOnce {
		q.turns = append(q.turns, o)
	}
	if o.underWay--; len(o.waiting)+o.underWay == 0 {
		delete(q.owners, name)
	}
}
