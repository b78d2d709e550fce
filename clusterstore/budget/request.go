package budget

import (
	"context"
	"sync"
)

// Factor is how much memory an ordinary answer takes while it is decoded, in multiples of
// its decompressed size: its bytes are read into buffers that grow, and objects of Go are
// larger than those that are encoded. [Beyond] has what others take.
const (
	Factor = 4
	// buffers is the part of Factor that is not for objects.
	buffers = 3
)

// Beyond returns what an answer takes in addition to [Factor] times its size, if its
// objects take so many bytes.
func Beyond(size, objects int64) int64 { return max(0, objects-(Factor-buffers)*size) }

// Request is one answer under way, a list or a watch. It counts for its Budget until End.
type Request struct {
	// fixed
	budget *Budget // may be nil
	what   string
	over   func(error) // may be nil

	mu    sync.Mutex
	taken int64 // of the budget
	turn  bool  // it has one of the pool's turns
	ended bool
	err   error
}

type contextKey struct{}

// Begin returns a Request for what is named, and a context by which [From] finds it. over,
// if set, gets the first error of it, at once and in the goroutine that reads the answer.
func (b *Budget) Begin(ctx context.Context, what string, over func(error)) (context.Context, *Request) {
	r := &Request{budget: b, what: what, over: over}
	return context.WithValue(ctx, contextKey{}, r), r
}

// Another returns a Request of the same Budget and name for one more answer, and a context
// by which [From] finds it.
func (r *Request) Another(ctx context.Context) (context.Context, *Request) {
	if r == nil {
		return ctx, nil
	}
	return r.budget.Begin(ctx, r.what, r.over)
}

// From returns the Request of a context; nil: it has none. All methods of a nil Request do
// nothing.
func From(ctx context.Context) *Request {
	r, _ := ctx.Value(contextKey{}).(*Request)
	return r
}

// What names what is requested, for errors. Without a Request it is empty.
func (r *Request) What() string {
	if r == nil {
		return ""
	}
	return r.what
}

// Took charges n more bytes of the answer, [Factor] times. The error ends the answer.
func (r *Request) Took(n int64) error { return r.Charge(Factor * n) }

// Charge charges n bytes that the answer takes besides. The error ends the answer.
func (r *Request) Charge(n int64) error {
	if r == nil || r.budget == nil {
		return nil
	}
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return nil
	}
	err := r.budget.Keep(n, n, r.what)
	if err == nil {
		r.taken += n
	}
	r.mu.Unlock()
	r.Fail(err)
	return err
}

// Fail records that the answer is refused; nil: it is not.
func (r *Request) Fail(err error) {
	if r == nil || err == nil {
		return
	}
	r.mu.Lock()
	first := r.err == nil
	if first {
		r.err = err
	}
	r.mu.Unlock()
	if first && r.over != nil {
		r.over(err)
	}
}

// Err returns the first error of the answer that was refused; nil: it was not.
func (r *Request) Err() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// AwaitTurn waits until at most one other list is being decoded. The turn is kept until End. The
// caller has the whole list, and nothing that it waits for until End depends on a server.
func (r *Request) AwaitTurn(ctx context.Context) error {
	if r == nil || r.budget == nil {
		return nil
	}
	r.mu.Lock()
	has := r.turn || r.ended
	r.mu.Unlock()
	if has {
		return nil
	}
	select {
	case r.budget.pool.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.mu.Lock()
	r.turn = true
	r.mu.Unlock()
	return nil
}

// End gives back all that the answer has. It may be called several times.
func (r *Request) End() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.taken > 0 {
		r.budget.Change(-r.taken, -r.taken)
		r.taken = 0
	}
	if r.turn {
		r.turn = false
		<-r.budget.pool.turn
	}
}
