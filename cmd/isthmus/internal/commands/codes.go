package commands

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/cmd/isthmus/internal/reach"
)

// codeMeanings explain the status codes that an RPC has a meaning of its own for; of
// codes.Unavailable they are one more cause.
type codeMeanings map[codes.Code]string

// explainEnd returns an error with why a stream has ended, and what a proxy does
// then.
func (m codeMeanings) explainEnd(from reach.Replica, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s ended the stream without an error: a proxy opens it again", from)
	}
	s := status.Convert(err)
	return fmt.Errorf("%s: %s\n  %s", s.Code(), Printable(s.Message()), m.explain(s.Code(), from))
}

func (m codeMeanings) explain(c codes.Code, from reach.Replica) string {
	const again = " A proxy asks again, with a backoff."
	text, ok := m[c]
	switch {
	case c == codes.Unavailable:
		running := "is the gateway running and ready?"
		if from.Address != "" {
			running += " --addr is its address"
		}
		if ok {
			text = ", or " + text
		}
		return fmt.Sprintf("Either nothing answers at %s (%s), or the gateway is shutting down or ends connections of this age (--max-connection-age)%s.", from, running, text) + again
	case ok:
		return text
	case c == codes.Unimplemented:
		return fmt.Sprintf("What answers at %s is not a Destination server.", from)
	case c == codes.ResourceExhausted:
		text = "A message is larger than a proxy accepts, or a limit is reached. " +
			"If clients use too many undeclared ports, declare the port in the Service. " +
			"If --max-streams or --view-memory is reached, add replicas, or raise the memory limit and the flag."
	}
	return strings.TrimSpace(text + again)
}
