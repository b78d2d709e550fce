package grpcapi

import (
	"runtime"
	"time"
)

// turnsPerProcessor is how many streams may be at producing messages, for each processor.
const turnsPerProcessor = 8

// turns has a value for each stream that is producing messages. Go runs goroutines in the
// order in which they become able to run. A change of a service that most proxies use makes tens of thousands
// of streams able to run, and what reads the watches would wait behind them, again for
// each step that an event takes. So the streams wait for a turn instead: the next events
// come in time, and a stream whose turn is late skips what has been replaced meanwhile.
type turns chan struct{}

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
		st.now = time.Now()
		return true
	}
}

func (st *stream) endTurn() { <-st.server.turns }
