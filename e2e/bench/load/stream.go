package load

import (
	"encoding/binary"
	"slices"
	"time"
)

// prefix is how many bytes stand before each message: whether it is compressed, and its length.
const prefix = 5

// stream is one call: where the next message ends, and when the others came.
type stream struct {
	target   Target
	newest   bool
	count    int // of messages
	arrivals []time.Time
	kept     [][]byte

	head    []byte // of the next message, as far as it has come
	left    int    // bytes of the message that are still to come, once head is whole
	message []byte // the message so far, if messages are kept
	unacked int    // bytes since the last window update
}

// take reads the next bytes of the stream, and returns how many messages they completed.
func (s *stream) take(data []byte, now time.Time) (done int) {
	for len(data) > 0 || len(s.head) == prefix && s.left == 0 {
		if n := min(prefix-len(s.head), len(data)); n > 0 {
			s.head, data = append(s.head, data[:n]...), data[n:]
			if len(s.head) < prefix {
				return done
			}
			s.left = int(binary.BigEndian.Uint32(s.head[1:]))
		}
		n := min(s.left, len(data))
		if s.target.Keep {
			s.message = append(s.message, data[:n]...)
		}
		s.left, data = s.left-n, data[n:]
		if s.left > 0 {
			return done
		}
		if s.newest {
			s.arrivals = s.arrivals[:0]
		}
		s.arrivals = append(s.arrivals, now)
		s.count++
		if s.target.Keep {
			s.kept = append(s.kept, slices.Clone(s.message))
		}
		s.head, s.message = s.head[:0], s.message[:0]
		done++
	}
	return done
}

// appendMessage appends a message with its prefix.
func appendMessage(b, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(append(b, 0), uint32(len(message))), message...)
}
