package commands

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

	"golang.org/x/sync/errgroup"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/adminapi"
	"isthmus/internal/guard"
)

// Answer is the response of one replica.
type Answer[T any] struct {
	Replica  string // HOST:PORT or NAMESPACE/POD
	NotReady bool   // not queried because its Pod is not ready; Err holds the reason
	Value    *T
	Err      error // the reason why Value is missing
	Origin
}

// askedAtOnce limits how many replicas are queried in parallel. Each response may be up to 32 MiB
// in size.
const askedAtOnce = 4

// ReadAll reads a page from each replica that the flags select. If the request to a replica fails,
// the Answer for this replica contains the error. ReadAll returns an error only if no replica could
// be queried at all. If the requests take more than a second, ReadAll prints to standard error that
// the command is still waiting.
func ReadAll[T any](ctx context.Context, p cli.Process, t *Target, path string) ([]Answer[T], error) {
	return ask(ctx, p, t, pageOf(path), func(ctx context.Context, g reach.Replica, into *T) (Origin, error) {
		return fetch(ctx, g, path, into)
	})
}

// ask calls a function for each replica. Messages use the description, such as "/debug/services",
// to name the requested pages.
func ask[T any](
	ctx context.Context, p cli.Process, t *Target, description string,
	one func(context.Context, reach.Replica, *T) (Origin, error),
) ([]Answer[T], error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	replicas, release, err := t.find(ctx, p)
	if err != nil {
		return nil, err
	}
	defer release()
	if t.first {
		replicas = replicas[:1]
	}
	list := make([]Answer[T], len(replicas)) // late calls of one still write to list after ask returned
	err = t.await(ctx, p, description+" of "+replicaNames(replicas), replicaNames(replicas), func() error {
		var asking errgroup.Group
		asking.SetLimit(askedAtOnce)
		for i, g := range replicas {
			asking.Go(func() error {
				a := Answer[T]{Replica: g.String(), NotReady: g.NotReady != "", Value: new(T)}
				a.Origin, a.Err = one(ctx, g, a.Value)
				a.Err = byVersion(a.Err, a.Origin, p.Build)
				if ctx.Err() != nil && a.Err != nil {
					a.Err = t.late(a.Replica)
				}
				list[i] = a
				return nil
			})
		}
		return asking.Wait() // every Answer has its own error
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func replicaNames(replicas []reach.Replica) string {
	list := make([]string, 0, len(replicas))
	for _, g := range replicas {
		if g.NotReady == "" {
			list = append(list, g.String())
		}
	}
	return strings.Join(list, " and ")
}

// maxPage is the maximum size of a page, in bytes. maxPage is enough for a page with 50,000
// federated services in three clusters.
const maxPage = 32 << 20

// pageLimits contains the maximum number of array elements and the maximum number of fields in a
// page. Even the largest /debug/services page that maxPage allows stays within pageLimits.
var pageLimits = guard.Limits{Elements: 500_000, Fields: 3_000_000}

// versionPage is the page that every version of Isthmus serves.
const versionPage = "/debug/version"

func fetch(ctx context.Context, g reach.Replica, path string, into any) (Origin, error) {
	from, err := fetchPage(ctx, g, path, into)
	_, answered := errors.AsType[pageError](err)
	if from.Format != "" || err != nil && !answered || path == versionPage {
		return from, err
	}
	var build adminapi.Build
	if _, failed := fetchPage(ctx, g, versionPage, &build); failed == nil {
		from.Build = build
	}
	return from, err
}

func fetchPage(ctx context.Context, g reach.Replica, path string, into any) (from Origin, err error) {
	if g.NotReady != "" {
		//lint:ignore ST1005 Pod is the name of a kind
		return from, fmt.Errorf("Pod %s is not ready: %s\n  kubectl describe pod -n %s %s shows why; "+
			"--pod %[4]s queries it nevertheless",
			g, g.NotReady, Printable(g.Namespace), Printable(g.Name))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cmp.Or(g.Address, "gateway")+path, nil)
	if err != nil {
		return from, cli.Usagef("--admin is %q: use HOST:PORT", g.Address)
	}
	conn, err := g.Dial(ctx, g.AdminPort)
	switch {
	case err != nil && g.Address != "":
		return from, unanswered(g, err)
	case err != nil:
		return from, err
	}
	defer conn.Close()
	client := http.Client{ // follows no redirects
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return from, unanswered(g, errors.Unwrap(err))
	}
	defer answer.Body.Close()
	return decodePage(g, answer, pageOf(path), into)
}

// unanswered returns the error for a request without a response.
func unanswered(g reach.Replica, err error) error {
	broken, ok := errors.AsType[*reach.BrokenError](err)
	switch {
	case g.Address != "":
		return fmt.Errorf("%s\n  Check that Isthmus is running, and that --admin is the address of its admin server "+
			"(isthmus gateway --metrics-addr)", Printable(err.Error()))
	case ok:
		return broken
	}
	return fmt.Errorf("%s: %s", g, Printable(strings.TrimPrefix(err.Error(), "net/http: ")))
}

func decodePage(g reach.Replica, answer *http.Response, page string, into any) (from Origin, err error) {
	from = originOf(answer.Header)
	another := "is it an Isthmus replica? (choose another with -n or --pod)"
	if g.Address != "" {
		another = "is it the admin server of an Isthmus replica? (--admin)"
	}
	body := http.MaxBytesReader(nil, answer.Body, maxPage)
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return from, fmt.Errorf("%s is busy: %s", g, refusal(body))
	case http.StatusInsufficientStorage:
		return from, fmt.Errorf("%s: %s", g, refusal(body))
	case http.StatusBadRequest:
		return from, cli.Usagef("%s", refusal(body))
	default:
		what := fmt.Sprintf("%s answers %s for %s", g, Printable(answer.Status), page)
		return from, pageError{answer.StatusCode, what, another}
	}
	if err := json.NewDecoder(guard.JSON(body, pageLimits)).Decode(into); err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return from, fmt.Errorf("%s of %s has more than %d bytes", page, g, tooLarge.Limit)
		}
		what := fmt.Sprintf("%s of %s cannot be read: %s", page, g, Printable(err.Error()))
		return from, pageError{answer.StatusCode, what, another}
	}
	return from, nil
}

// refusal returns the message that a replica sent instead of a page.
func refusal(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, 1000))
	return Printable(strings.TrimSpace(string(text)))
}

func pageOf(path string) string {
	page, _, _ := strings.Cut(path, "?")
	return page
}

// pageError reports that a response has a status other than OK, or that the page cannot be decoded.
type pageError struct {
	status  int
	what    string // the problem
	another string // asks whether the server is a replica at all
}

func (e pageError) Error() string { return e.what + ": " + e.another }
