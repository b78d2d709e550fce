package client

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
)

// Gateway is a gateway, or its replicas, whose pages verbs of other packages read.
type Gateway struct{ admin adminOptions }

// Flags adds the flags by which users name the gateway.
func (g *Gateway) Flags(s *pflag.FlagSet) {
	g.admin.flag = "--admin"
	s.StringVar(&g.admin.address, "admin", "", "`HOST:PORT` of the gateway's admin server, which is its --metrics-addr. Without it: all that are ready in Pods, reached through the API server.")
	s.StringVar(&g.admin.pods.Pod, "pod", "", "`NAME` of the gateway's Pod. Without it: those that are ready.")
}

// Check returns a usage error unless the flags are good. Without --admin, gateways are
// found by pods, and --pod chooses among them.
func (g *Gateway) Check(pods reach.Options) error {
	g.admin.output, g.admin.timeout = "json", time.Minute
	if err := g.admin.check(); err != nil {
		return err
	}
	pods.Pod, pods.AddressFlag = g.admin.pods.Pod, g.admin.flag
	g.admin.pods = pods
	return nil
}

// ReadAll reads a page of every gateway that is ready. It waits no longer than limit, and reports on standard
// error what it waits for. It returns an error if none could be asked at all.
func ReadAll[T any](ctx context.Context, p cli.Process, g *Gateway, limit time.Duration, path string) ([]Answer[T], error) {
	once := g.admin
	once.timeout = limit
	return readAll[T](ctx, p, &once, path)
}

// Printable returns a text of a server as one that a terminal obeys nothing of, quoted
// if need be, and "-" if it is empty.
func Printable(text string) string { return printable(text) }

// JSONLine returns a value as a line of JSON that a terminal obeys nothing of.
func JSONLine(v any) ([]byte, error) { return jsonLine(v) }
