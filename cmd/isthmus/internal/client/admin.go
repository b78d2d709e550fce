package client

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"isthmus/cmd/isthmus/internal/cli"
)

// adminOptions are those of the verbs that read pages of the admin server.
type adminOptions struct {
	printing
	targeting
	gateway string // the one whose page read has returned: HOST:PORT, or NAMESPACE/POD
}

func (o *adminOptions) flags(s *pflag.FlagSet) {
	o.targeting.flags(s, "admin", "`HOST:PORT` of the gateway's admin server, which is its --metrics-addr.")
	o.printing.flags(s, "The gateway must have answered within this `DURATION`.")
}

func (o *adminOptions) check() error {
	if err := o.targeting.check(); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(o.address); o.address != "" && err != nil {
		return cli.Usagef("--admin is %q: give HOST:PORT", o.address)
	}
	return o.printing.check()
}

// read reads a page of one gateway into a value, and returns when the gateway sent it,
// by the gateway's clock. It tells what it waits for.
func (o *adminOptions) read(ctx context.Context, p cli.Process, path string, into any) (at time.Time, err error) {
	var gateway string
	var sent time.Time
	err = o.await(ctx, p, func(ctx context.Context, w *waiting) error {
		targets, release, err := o.find(ctx, w, adminPort)
		if err != nil {
			return err
		}
		defer release()
		first := targets[0]
		gateway = first.name
		w.on(pageOf(path)+" of "+gateway, gateway)
		sent, err = first.fetch(ctx, path, into)
		return err
	})
	if err != nil {
		return at, err
	}
	o.gateway = gateway
	return sent, nil
}

// answer is what one gateway has sent.
type answer struct {
	gateway string // HOST:PORT, or NAMESPACE/POD
	value   any
	at      time.Time
	err     error // why there is no value
}

// askedAtOnce is how many gateways are asked at a time: each may answer 32 MiB.
const askedAtOnce = 4

// readAll reads a page of every gateway, each into a value that newValue returns. Those
// that fail are answers too; there is an error if no gateway could be asked at all.
func (o *adminOptions) readAll(ctx context.Context, p cli.Process, path string, newValue func() any) ([]answer, error) {
	return o.askAll(ctx, p, pageOf(path), func(ctx context.Context, t target) (any, time.Time, error) {
		value := newValue()
		at, err := t.fetch(ctx, path, value)
		return value, at, err
	})
}

// askAll is readAll for whatever is asked; what describes that.
func (o *adminOptions) askAll(ctx context.Context, p cli.Process, what string, ask func(context.Context, target) (any, time.Time, error)) ([]answer, error) {
	var answers []answer
	err := o.await(ctx, p, func(ctx context.Context, w *waiting) error {
		targets, release, err := o.find(ctx, w, adminPort)
		if err != nil {
			return err
		}
		defer release()
		w.on(what+" of "+names(targets), names(targets))
		list := make([]answer, len(targets))
		var asking errgroup.Group
		asking.SetLimit(askedAtOnce)
		for i, t := range targets {
			asking.Go(func() error {
				a := answer{gateway: t.name}
				if a.value, a.at, a.err = ask(ctx, t); ctx.Err() != nil && a.err != nil {
					a.err = late(t.name, o.timeout)
				}
				list[i] = a
				return nil
			})
		}
		_ = asking.Wait() // each has its own error
		if err := ctx.Err(); errors.Is(err, context.Canceled) {
			return err
		}
		answers = list
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}
