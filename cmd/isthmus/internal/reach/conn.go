package reach

import (
	"errors"
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
		return nil, c.explain(err)
	}
	return c, nil
}

func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.data.Read(b)
	if err != nil {
		err = c.explain(err)
	}
	return n, err
}

func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.data.Write(b)
	if err != nil {
		err = c.explain(err)
	}
	return n, err
}

// explain returns why the connection has ended: the port can't be reached, or the API
// server has gone, or err, which is the other side's wish.
func (c *Conn) explain(err error) error {
	if failure := c.Failure(); failure != nil {
		return failure
	}
	return err
}

// refusedError is the word of a Pod's node about a port.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// closing is how long after its streams a connection that is lost may end.
const closing = 100 * time.Millisecond

// errLost is the end of the connection to the API server.
var errLost = errors.New("the connection through the API server is lost")

// Failure returns why the connection has failed; nil means that the other side has ended it. It waits for the word of the Pod's node, and may be called once Read or Write
// has failed.
func (c *Conn) Failure() error {
	select {
	case <-c.ended:
	case <-c.connection.CloseChan():
	case <-time.After(time.Second): // a node that sends none
	}
	select {
	case <-c.ended:
		if c.message != "" {
			return &refusedError{fmt.Sprintf("port %d of Pod %s can't be reached: %s\n  Does the gateway listen there? Its container declares ports of other numbers by name (admin, grpc)", c.port, c.to, legible.Quoted(c.message))}
		}
	default:
	}
	select {
	case <-c.connection.CloseChan():
		return fmt.Errorf("to Pod %s: %w", c.to, errLost)
	case <-time.After(closing):
		return nil
	}
}

// Close ends the connection. Reads and writes that wait end too.
func (c *Conn) Close() error {
	err := c.connection.Close()
	<-c.ended
	return err
}
