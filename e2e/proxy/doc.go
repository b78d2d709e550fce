// Package proxy models linkerd2-proxy as a client of the Destination API. It derives the state of a
// proxy from the received messages, and detects violations of the protocol (faults).
//
// GetState and ProfileState contain the state of a proxy. They are plain values without goroutines,
// locks or clocks. Apply folds one message into the state and returns the faults in that message. A
// Stream makes a call and folds the received messages. Like a proxy, it keeps the state across
// reconnections. A Stream can also stop reading.
//
// Some behavior of a proxy is not obvious from the protocol:
//
//   - The first add with addresses after each connection replaces the previous state.
//   - A remove before that add is ignored, and an add without addresses has no effect. Both are
//     faults, because a proxy would keep stale endpoints.
//   - A proxy cannot read a profile whose messages are nested more than 100 levels deep.
//   - A first message after FirstMessageLimit is a fault too, because the proxy has already given
//     up.
//
// A Subscriber is a proxy that keeps a Stream open although servers stop and start. It reconnects
// after a pause that doubles from 0.1 s up to a minute. Any message resets the pause. The
// Subscriber uses any server that accepts a connection. A real proxy finds the servers with DNS,
// but the user of the Subscriber provides their addresses.
//
// The memory of a Stream does not grow with the number of messages. A Stream stores the state, the
// first message of the current call, a limited number of recent messages, and the addresses that
// have been absent since the last Mark.
package proxy
