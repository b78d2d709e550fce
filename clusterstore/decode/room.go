package decode

import "unsafe"

// room is the memory of one decoder that is used again for each object, so that decoding
// leaves no garbage. What it keeps is bounded: an object that needs more gets memory of its
// own.
type room struct {
	clears []func()
}

// clear forgets the last object. Nothing may refer to it after that, nor to the bytes that it came in.
func (r *room) clear() {
	for _, c := range r.clears {
		c()
	}
}

const (
	keptShelf = 32 << 10 // bytes of a shelf
	maxMap    = 64       // entries of a map
)

// shelf has the values of one field, all of one object. A list is in one piece: it is complete
// before the next one begins.
type shelf[E any] struct {
	all  []E // those on the shelf
	more int // those that had no place there
}

func newShelf[E any](r *room) *shelf[E] {
	s := &shelf[E]{}
	r.clears = append(r.clears, s.clear)
	return s
}

func (s *shelf[E]) clear() {
	clear(s.all)
	if s.more > 0 { // the next object may be as large
		var e E
		wanted := min(s.used(), keptShelf/max(1, int(unsafe.Sizeof(e))))
		if wanted > cap(s.all) {
			s.all = make([]E, 0, wanted)
		}
	}
	s.all, s.more = s.all[:0], 0
}

// used is how many values there are.
func (s *shelf[E]) used() int { return len(s.all) + s.more }

// grow adds a zero value to a list; nil: it begins a new one.
func (s *shelf[E]) grow(list []E) []E {
	var zero E
	if cap(list) == 0 {
		list = s.all[len(s.all):]
	}
	if s.next(list) {
		s.all = s.all[:len(s.all)+1]
	} else {
		s.more++
	}
	return append(list, zero)
}

// next reports whether the place after the list is the next one of the shelf.
func (s *shelf[E]) next(list []E) bool {
	return len(list) < cap(list) && len(s.all) < cap(s.all) && &list[:len(list)+1][len(list)] == &s.all[:len(s.all)+1][len(s.all)]
}

// one returns a zero value.
func (s *shelf[E]) one() *E { return &s.grow(nil)[0] }
