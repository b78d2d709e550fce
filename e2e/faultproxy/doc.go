// Package faultproxy stands between a client and a server and spoils their connections as a network, a load balancer or
// a server that hangs would: it refuses, falls silent, is slow, lets little through, or resets.
//
// A [Proxy] forwards TCP connections to one target. [Proxy.Set] changes what it does with new connections and with those
// that are open, at once; the zero [Mode] heals. [Proxy.ResetAll] ends all connections that are open.
//
// Nothing is ever lost of a connection that lives on: what was held back arrives in order once that is over, as after a
// partition of the network that TCP has outlived. What is held back is bounded, and then fills the sender's windows.
package faultproxy
