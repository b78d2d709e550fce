// Package gateway runs the isthmus binary as a process, as a cluster would: by its flags, its sockets and its signals.
//
// A Gateway keeps its addresses over restarts, so that clients find it again. Its log goes to a bounded buffer, of
// which the end is shown when something fails, and where wished to a writer too. The process never outlives its
// starter on Linux; elsewhere it does if the starter is killed before it could call Stop.
package gateway
