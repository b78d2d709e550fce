// Package load holds many streams open to a Destination server, as many proxies would, and notes when each message
// comes.
//
// It is made to cost little, since it shares the machine with the server that is measured: one goroutine for a
// connection, none for a stream, HTTP/2 frames read as they come, messages counted by their length and never decoded.
// Towards the server it is a proxy: plain text, windows of 64 KiB a stream and 1 MiB a connection, no pings.
package load
