package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"isthmus/clusterstore/guard"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
)

// maxPage is how much of a page is read, in bytes: what a gateway has to show of 50,000
// federated services of three clusters.
const maxPage = 32 << 20

// pageLimits are how many elements and fields a page may have. One of maxPage bytes about
// services has fewer.
var pageLimits = guard.Limits{Elements: 500_000, Fields: 3_000_000}

// fetch reads a page of a gateway into a value, and returns when the gateway sent it.
func fetch(ctx context.Context, g reach.Gateway, path string, into any) (at time.Time, err error) {
	if g.NotReady != "" {
		//lint:ignore ST1005 Pod is the name of a kind
		return at, fmt.Errorf("Pod %s is not ready: %s\n  kubectl describe pod -n %s %s shows why; --pod %[4]s asks it all the same",
			g, g.NotReady, Printable(g.Namespace), Printable(g.Name))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cmp.Or(g.Address, "gateway")+path, nil)
	if err != nil {
		return at, cli.Usagef("--admin is %q: give HOST:PORT", g.Address)
	}
	conn, err := g.Dial(ctx, g.AdminPort)
	switch {
	case err != nil && g.Address != "":
		return at, unanswered(g, err)
	case err != nil:
		return at, err
	}
	defer conn.Close()
	client := http.Client{ // without redirects
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return at, unanswered(g, errors.Unwrap(err))
	}
	defer answer.Body.Close()
	return decode(g, answer, pageOf(path), into)
}

// unanswered returns the error for a request that has no answer.
func unanswered(g reach.Gateway, err error) error {
	broken, ok := errors.AsType[*reach.BrokenError](err)
	switch {
	case g.Address != "":
		return fmt.Errorf("%s\n  Is the gateway running? --admin is the address of its admin server (--metrics-addr of the gateway)", Printable(err.Error()))
	case ok:
		return broken
	}
	return fmt.Errorf("%s: %s", g, Printable(strings.TrimPrefix(err.Error(), "net/http: ")))
}

// decode reads an answer into a value.
func decode(g reach.Gateway, answer *http.Response, page string, into any) (at time.Time, err error) {
	another := "is it an Isthmus gateway? (-n and --pod choose another)"
	if g.Address != "" {
		another = "is it the admin server of an Isthmus gateway? (--admin)"
	}
	body := http.MaxBytesReader(nil, answer.Body, maxPage)
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return at, fmt.Errorf("%s is busy: %s", g, refusal(body))
	case http.StatusBadRequest:
		return at, cli.Usagef("%s", refusal(body))
	default:
		return at, statusError{answer.StatusCode, fmt.Sprintf("%s answers %s for %s: %s", g, Printable(answer.Status), page, another)}
	}
	if err := json.NewDecoder(guard.JSON(body, pageLimits)).Decode(into); err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return at, fmt.Errorf("%s of %s has more than %d bytes", page, g, tooLarge.Limit)
		}
		return at, fmt.Errorf("%s of %s can't be read: %s: %s", page, g, Printable(err.Error()), another)
	}
	if at, err = http.ParseTime(answer.Header.Get("Date")); err != nil {
		at = time.Now()
	}
	return at.Local(), nil
}

// statusError is that a gateway answers otherwise than by a page.
type statusError struct {
	code int
	text string
}

func (e statusError) Error() string { return e.text }

// pageOf returns a path without the query, for messages.
func pageOf(path string) string {
	page, _, _ := strings.Cut(path, "?")
	return page
}

// refusal is the text in place of a page.
func refusal(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, 1000))
	return Printable(strings.TrimSpace(string(text)))
}
