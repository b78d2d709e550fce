// Package proxy is a model of linkerd2-proxy as a client of the Destination API: what it makes of the messages it is
// sent, and what it would hold against the sender.
//
// GetState and ProfileState are the folds. They are plain values without goroutines, locks or clocks: Apply takes one
// message and returns the faults in it. Stream is a subscription around a fold: it opens a call, folds what arrives,
// keeps the state over reconnections as a proxy does, and can stop reading.
//
// What a proxy does that a reader of the protocol may not expect, and that the folds therefore do:
//
//   - The first add with addresses after each (re)connection replaces everything that was known.
//   - A remove before it is ignored, and an add without addresses changes nothing. Both are faults of the sender: the
//     proxy would go on with stale endpoints.
//   - A profile in which messages are nested more than 100 deep cannot be read at all.
//   - A first message that takes longer than FirstMessageLimit is a fault too: the proxy has given up by then.
//
// Subscriber is a proxy that keeps a Stream open although replicas of the server come and go: it
// tries again after a pause that doubles from 0.1 s up to a minute and starts over with any
// message; and it takes any replica that connects, of those that it knows by DNS, which its user
// plays or asks.
//
// A Stream's memory does not grow with the number of messages: it keeps the state, the first message since it was last
// opened, a bounded number of recent messages, and, from a Mark on, which addresses have been missing.
package proxy
