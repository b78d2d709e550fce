// Package floor is what the gateway's speed is compared with: a bare grpc-go server of the Destination service that sends
// ready-made bytes.
//
// It is grpc.NewServer with one option, a codec that hands out the bytes as they are; flow control, buffers and
// everything else are grpc-go's defaults. A call is looked up by its authority in a [Recording] of what another server
// has answered, sends the first messages of that, and waits. Ordered to step, the server sends all streams of a method and authority
// one more message of the recording, each by the goroutine that grpc-go has for it. That is the plain way to stream these
// bytes by grpc-go.
package floor
