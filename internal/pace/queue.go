package pace

// Queue is the keys to be handled, by tenants in turn. It does not look for keys that are in
// it twice, and is not safe for concurrent use.
type Queue[K comparable] struct {
	atOnce  int                   // fixed: how many keys of one tenant may be under way
	tenants map[string]*tenant[K] // those with keys, waiting or under way
	turns   []*tenant[K]          // those with a waiting key and less than atOnce under way; the first is next
}

// tenant is one tenant's keys.
type tenant[K comparable] struct {
	name     string
	waiting  []K // in the order in which they came
	underWay int
}

// NewQueue returns an empty queue. At most atOnce keys of one tenant are under way at the
// same time; the others wait until one is done.
func NewQueue[K comparable](atOnce int) *Queue[K] {
	return &Queue[K]{atOnce: atOnce, tenants: make(map[string]*tenant[K])}
}

// Len returns how many tenants may begin a key. It is 0 if and only if Pop returns none.
func (q *Queue[K]) Len() int { return len(q.turns) }

// Push adds a key of a tenant.
func (q *Queue[K]) Push(name string, key K) {
	o := q.tenants[name]
	if o == nil {
		o = &tenant[K]{name: name}
		q.tenants[name] = o
	}
	if len(o.waiting) == 0 && o.underWay < q.atOnce {
		q.turns = append(q.turns, o)
	}
	o.waiting = append(o.waiting, key)
}

// Pop removes the key that is next, and returns its tenant too; ok is false if there is
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

// Done ends what Pop began for that tenant.
func (q *Queue[K]) Done(name string) {
	o := q.tenants[name]
	if len(o.waiting) > 0 && o.underWay == q.atOnce {
		q.turns = append(q.turns, o)
	}
	if o.underWay--; len(o.waiting)+o.underWay == 0 {
		delete(q.tenants, name)
	}
}
