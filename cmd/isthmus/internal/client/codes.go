package client

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// codeMeanings explain the status codes that an RPC has a meaning of its own for; of
// codes.Unavailable they are one more cause.
type codeMeanings map[codes.Code]string

// explainEnd returns an error with why a stream has ended, and what a proxy does
// then.
func (m codeMeanings) explainEnd(from replica, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s ended the stream without an error: a proxy opens it again", from.name)
	}
	s := status.Convert(err)
	return fmt.Errorf("%s: %s\n  %s", s.Code(), printable(s.Message()), m.explain(s.Code(), from))
}

func (m codeMeanings) explain(c codes.Code, from replica) string {
	if c == codes.Unavailable {
		return unavailable(from, m[c])
	}
	if text, ok := m[c]; ok {
		return text
	}
	switch c {
	case codes.Unimplemented:
		return fmt.Sprintf("What answers at %s is not a Destination server.", from.name)
	case codes.ResourceExhausted:
		return "Either a message is larger than a proxy accepts, or what proxies have asked for takes all memory that the gateway has for it (--view-memory). A proxy asks again, with a backoff."
	}
	return "A proxy asks again, with a backoff."
}

// unavailable explains codes.Unavailable, with what else it may mean, if anything.
func unavailable(from replica, other string) string {
	running := "is the gateway running and ready?"
	if from.dial == nil {
		running += " --addr is its address"
	}
	causes := []string{
		fmt.Sprintf("Either nothing answers at %s (%s)", from.name, running), "the gateway is shutting down or ends connections of this age (--max-connection-age)",
	}
	if other != "" {
		causes = append(causes, other)
	}
	return strings.Join(causes, ", or ") + ". A proxy asks again, with a backoff."
}
