package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

// Answer is what one gateway has sent.
type Answer[T any] struct {
	Replica  string // HOST:PORT, or NAMESPACE/POD
	NotReady bool   // it has not been asked, since its Pod is not ready: Err has why
	Value    *T
	Err      error // why there is no value
	Origin
}

// Origin is what an answer of a gateway says of itself.
type Origin struct {
	At     time.Time      // by the gateway's clock
	Format string         // of the page; empty: the gateway does not say
	Build  adminapi.Build // of the gateway; empty: not known
}

// Unchecked returns why a program of this build can't judge the page: it does not know the format.
// It is empty if the program does.
func (o Origin) Unchecked(own adminapi.Build) string {
	known := strconv.Itoa(adminapi.Format)
	if o.Format == known {
		return ""
	}
	why := fmt.Sprintf("its pages have the format %s, and this program knows the format %s",
		text.Quoted(o.Format), known)
	if o.Format == "" {
		why = "it is older than this program, and its pages have no format number"
	}
	return fmt.Sprintf("%s: its version is %s, that of this program %s",
		why, describeBuild(o.Build), describeBuild(own))
}

// OtherFormat returns an error if the page has a format number that a program of this build does
// not know: the page may mean something else. The page of an older gateway, which has no number, at
// most lacks fields.
func (o Origin) OtherFormat(own adminapi.Build) error {
	if unchecked := o.Unchecked(own); o.Format != "" && unchecked != "" {
		return fmt.Errorf("the page can't be judged: %s", unchecked)
	}
	return nil
}

// writeUnchecked writes a line that says why the program can't judge a page. It writes nothing if
// the program can.
func writeUnchecked(w io.Writer, unchecked string) {
	if unchecked != "" {
		fmt.Fprintf(w, "Not checked: %s\n", unchecked)
	}
}

// describeBuild returns the version, and the commit if the version does not name a release.
func describeBuild(b adminapi.Build) string {
	commit, _, _ := strings.Cut(b.Commit, " ") // without its time
	if b.Version == "(devel)" && commit != "" {
		return fmt.Sprintf("%s of commit %s", b.Version, Printable(commit))
	}
	return Printable(cmp.Or(b.Version, "not known"))
}

// askedAtOnce is how many gateways are asked at a time: each may answer 32 MiB.
const askedAtOnce = 4

// ReadAll reads a page of every gateway that the flags choose. Those that fail are answers too;
// there is an error if none could be asked at all. It prints on standard error what it waits for.
func ReadAll[T any](ctx context.Context, p cli.Process, t *Target, path string) ([]Answer[T], error) {
	return ask(ctx, p, t, pageOf(path), func(ctx context.Context, g reach.Replica, into *T) (Origin, error) {
		return fetch(ctx, g, path, into)
	})
}

// ask asks gateways for something, which what describes.
func ask[T any](
	ctx context.Context, p cli.Process, t *Target, what string,
	one func(context.Context, reach.Replica, *T) (Origin, error),
) ([]Answer[T], error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	gateways, release, err := t.find(ctx, p)
	if err != nil {
		return nil, err
	}
	defer release()
	if t.first {
		gateways = gateways[:1]
	}
	list := make([]Answer[T], len(gateways)) // those who are late write to it, whatever is returned
	err = t.await(ctx, p, what+" of "+names(gateways), names(gateways), func() error {
		var asking errgroup.Group
		asking.SetLimit(askedAtOnce)
		for i, g := range gateways {
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
		return asking.Wait() // each has its own error
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// find returns the gateways that the flags choose: at least one that can be asked, and after
// those the replicas that are not ready. The function that it returns must be called once none
// of them is in use.
func (t *Target) find(ctx context.Context, p cli.Process) (list []reach.Replica, release func(), err error) {
	if t.Address != "" {
		return []reach.Replica{{Address: t.Address}}, func() {}, nil
	}
	cluster, err := t.Open()
	if err != nil {
		return nil, nil, err
	}
	err = t.await(ctx, p, cluster.String(), cluster.String(), func() (err error) {
		list, err = cluster.Replicas(ctx)
		return err
	})
	if err != nil {
		cluster.Close()
		return nil, nil, err
	}
	return list, cluster.Close, nil
}

// await does work that somebody has to answer within the timeout, and prints what it waits for if
// that takes long.
func (t *Target) await(ctx context.Context, p cli.Process, what, who string, work func() error) error {
	err := p.Await(ctx, fmt.Sprintf(" for %s, for %v at most", what, t.Timeout), work)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return errors.New("interrupted")
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return t.late(who)
	}
	return err
}

func (t *Target) late(who string) error {
	return fmt.Errorf("%s has not answered within %v (--timeout)", who, t.Timeout)
}

// names returns the names of those that are asked, for messages.
func names(gateways []reach.Replica) string {
	list := make([]string, 0, len(gateways))
	for _, g := range gateways {
		if g.NotReady == "" {
			list = append(list, g.String())
		}
	}
	return strings.Join(list, " and ")
}
