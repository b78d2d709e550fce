package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// meanings explain status codes that mean something else for each RPC.
type meanings map[codes.Code]string

// explainEnd says why a stream has ended, and what a proxy makes of that.
func (m meanings) explainEnd(addr string, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s ended the stream without an error: a proxy opens it again", addr)
	}
	s := status.Convert(err)
	return fmt.Errorf("%s: %s\n  %s", s.Code(), plain(s.Message()), m.of(s.Code(), addr))
}

// of explains a status code.
func (m meanings) of(c codes.Code, addr string) string {
	if text, ok := m[c]; ok {
		return text
	}
	switch c {
	case codes.Unavailable:
		return unavailable(addr)
	case codes.Unimplemented:
		return fmt.Sprintf("What answers at %s is no Destination server.", addr)
	case codes.ResourceExhausted:
		return "A message is larger than a proxy takes."
	}
	return "A proxy asks again, with a backoff."
}

// unavailable explains codes.Unavailable, with what else it may mean.
func unavailable(addr string, or ...string) string {
	may := append([]string{
		fmt.Sprintf("Either nothing answers at %s (is the gateway running and ready? --addr says where)", addr), "the gateway is shutting down",
	}, or...)
	return strings.Join(may, ", or ") + ". A proxy asks again, with a backoff."
}
