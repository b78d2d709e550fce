package grpcapi

import "runtime"

// turnsPerProcessor is how many streams may produce updates at a time, for each processor.
const turnsPerProcessor = 8

// turns is a semaphore, with a value for each stream that is producing an update. First
// messages need no turn. Go runs goroutines roughly in the order in which they become
// runnable. A change of a service that most proxies use makes tens of thousands of streams
// runnable. The goroutines that read watches and publish sets would wait behind all of
// them, several times for each event, until each has produced its update. With turns they
// wait only until each has begun to wait for its turn, and a stream that waits for its
// turn skips sets that are replaced meanwhile.
//
// A stream has its turn while it looks up its set and encodes the messages, or waits for
// another stream that encodes the same ones. It may also switch to another view.
type turns chan struct{}

// newTurns returns turns for the processors that there are now.
func newTurns() turns { return make(turns, turnsPerProcessor*runtime.GOMAXPROCS(0)) }

// takeTurn waits for a turn, which endTurn gives back. It returns false if the stream ends
// before that. A turn is given back before the messages are sent: a proxy that takes its
// time delays no other.
func (st *stream) takeTurn() (ok bool) {
	select {
	case st.server.turns <- struct{}{}:
		return true
	default:
	}
	select {
	case <-st.done:
		return false
	case st.server.turns <- struct{}{}:
		st.now = st.server.now()
		return true
	}
}

func (st *stream) endTurn() { <-st.server.turns }
