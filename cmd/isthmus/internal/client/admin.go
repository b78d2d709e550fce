package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
)

// maxPage is how much of a page is read, in bytes: more than a gateway with 10,000
// services in 250 clusters has to show.
const maxPage = 256 << 20

// adminOptions are those of the verbs that read a page of the admin server.
type adminOptions struct {
	printing
	admin string
}

func (o *adminOptions) flags(s *pflag.FlagSet) {
	s.StringVar(&o.admin, "admin", "localhost:9996", "`HOST:PORT` of the gateway's admin server, which is its --metrics-addr.")
	o.printing.flags(s, "The gateway must have answered within this `DURATION`.")
}

func (o *adminOptions) check() error {
	if _, _, err := net.SplitHostPort(o.admin); err != nil {
		return cli.Usagef("--admin is %q: give HOST:PORT", o.admin)
	}
	return o.printing.check()
}

// read reads a page into a value, and returns when the gateway sent it, by the
// gateway's clock. It tells what it waits for.
func (o *adminOptions) read(ctx context.Context, p cli.Process, path string, into any) (at time.Time, err error) {
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		var err error
		at, err = o.fetch(limited, path, into)
		done <- err
	}()
	slow := time.After(slowAfter)
	for {
		select {
		case <-slow:
			fmt.Fprintf(p.Stderr, "%s: waiting for %s of %s, for %v at most\n", p.Name, path, o.admin, o.timeout)
		case err := <-done:
			switch {
			case err == nil:
			case ctx.Err() != nil:
				err = errors.New("interrupted")
			case limited.Err() != nil:
				err = fmt.Errorf("%s has not answered within %v (--timeout)", o.admin, o.timeout)
			}
			return at, err
		}
	}
}

// fetch reads a page into a value.
func (o *adminOptions) fetch(ctx context.Context, path string, into any) (at time.Time, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.admin+path, nil)
	if err != nil {
		return at, cli.Usagef("--admin is %q: give HOST:PORT", o.admin)
	}
	client := http.Client{ // straight there, without proxy and redirects
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return at, fmt.Errorf("%s\n  Is the gateway running? --admin is the address of its admin server (--metrics-addr of the gateway)", printable(errors.Unwrap(err).Error()))
	}
	defer answer.Body.Close()
	body := http.MaxBytesReader(nil, answer.Body, maxPage)
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		text, _ := io.ReadAll(io.LimitReader(body, 500))
		return at, fmt.Errorf("%s is busy: %s", o.admin, printable(string(text)))
	default:
		return at, fmt.Errorf("%s answers %s for %s: is it the admin server of an Isthmus gateway? (--admin)", o.admin, printable(answer.Status), path)
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return at, fmt.Errorf("%s of %s has more than %d bytes", path, o.admin, tooLarge.Limit)
		}
		return at, fmt.Errorf("%s of %s can't be read: %s: is it the admin server of an Isthmus gateway? (--admin)", path, o.admin, printable(err.Error()))
	}
	if at, err = http.ParseTime(answer.Header.Get("Date")); err != nil {
		at = time.Now()
	}
	return at.Local(), nil
}
