package main

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// explainEnd says why a Get stream has ended, and what a proxy makes of that.
func explainEnd(addr string, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s ended the stream without an error: a proxy opens it again", addr)
	}
	s := status.Convert(err)
	return fmt.Errorf("%s: %s\n  %s", s.Code(), s.Message(), meaning(s.Code(), addr))
}

// meaning explains a status code of Get.
func meaning(c codes.Code, addr string) string {
	switch c {
	case codes.InvalidArgument:
		return "This authority can never work: it is no service name of the gateway's cluster domain, or an ExternalName service. A proxy does not ask again."
	case codes.FailedPrecondition:
		return "The Service is a mirror that does not say of which remote Service. A proxy does not ask again."
	case codes.NotFound:
		return "There is no such Service in the gateway's cluster, or it mirrors a cluster that is not linked. A proxy asks again, with a backoff."
	case codes.Unavailable:
		return fmt.Sprintf("Either nothing answers at %s (is the gateway running and ready? --addr says where), or the gateway is shutting down, "+
			"or nothing is known of any cluster that the service is in. A proxy asks again, with a backoff.", addr)
	case codes.Unimplemented:
		return fmt.Sprintf("What answers at %s is no Destination server.", addr)
	case codes.ResourceExhausted:
		return "A message is larger than a proxy takes."
	}
	return "A proxy asks again, with a backoff."
}
