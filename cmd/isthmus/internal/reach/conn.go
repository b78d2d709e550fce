package reach

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"

	"isthmus/internal/legible"
)

// maxFailure is how much is read of why a port can't be reached, in bytes.
const maxFailure = 1 << 10

// Conn is a connection to a port of a Pod. Close it, instead of setting deadlines: there may be none, or they end it.
type Conn struct {
	net.Conn   // to the API server
	connection httpstream.Connection
	data       httpstream.Stream
	to         Gateway
	port       int
	ended      chan struct{} // closed once nothing more comes from the error stream
	message    string        // from it; read after ended
}

// newConn opens the streams of one forwarded connection. The Conn owns connection, which is that of the
// tunnel, from then on. After an error it must be closed, which ends what has been opened.
func newConn(tunnel net.Conn, connection httpstream.Connection, to Gateway, port int) (*Conn, error) {
	headers := http.Header{}
	headers.Set(v1.PortHeader, strconv.Itoa(port))
	headers.Set(v1.PortForwardRequestIDHeader, "0")
	headers.Set(v1.StreamType, v1.StreamTypeError)
	failures, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	failures.Close() // nothing is sent on it
	c := &Conn{Conn: tunnel, connection: connection, to: to, port: port, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		text, _ := io.ReadAll(io.LimitReader(failures, maxFailure)) // what has come before an error counts
		c.message = string(text)
	}()
	headers.Set(v1.StreamType, v1.StreamTypeData)
	if c.data, err = connection.CreateStream(headers); err != nil { // a node may be quick to refuse it
		return nil, c.why(err)
	}
	return c, nil
}

func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.data.Read(b)
	if err != nil {
		err = c.why(err)
	}
	return n, err
}

func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.data.Write(b)
	if err != nil {
		err = c.why(err)
	}
	return n, err
}

// BrokenError is why a connection to a Pod has failed, printable.
type BrokenError struct{ text string }

func (e *BrokenError) Error() string { return e.text }

// closing is how long after its streams a connection that is lost may end.
const closing = 100 * time.Millisecond

// why returns why the connection has ended: the port can't be reached, or the API server has gone, as a [BrokenError]; or err, which is
// the other side's wish. It waits for the word of the Pod's node.
func (c *Conn) why(err error) error {
	select {
	case <-c.ended: // also once the connection is lost
		if c.message != "" {
			return &BrokenError{fmt.Sprintf("port %d of Pod %s can't be reached: %s\n  Does the gateway listen there? Its container declares ports of other numbers by name (admin, grpc)", c.port, c.to, legible.Quoted(c.message))}
		}
	case <-time.After(time.Second): // a node that sends none
	}
	select {
	case <-c.connection.CloseChan():
		return &BrokenError{fmt.Sprintf("to Pod %s: the connection through the API server is lost", c.to)}
	case <-time.After(closing):
		return err
	}
}

// Close ends the connection. Reads and writes that wait end too.
func (c *Conn) Close() error {
	err := c.connection.Close()
	<-c.ended
	return err
}
