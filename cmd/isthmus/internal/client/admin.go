package client

import (
	"context"
	"errors"
	"math"
	"net"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"isthmus/cmd/isthmus/internal/cli"
)

// adminOptions are those of the verbs that read pages of the admin server.
type adminOptions struct {
	printing
	replicaOptions
	gateway string // the one whose page read has returned: HOST:PORT, or NAMESPACE/POD
}

func (o *adminOptions) flags(s *pflag.FlagSet) {
	o.replicaOptions.flags(s, "admin", "`HOST:PORT` of the gateway's admin server, which is its --metrics-addr.")
	o.printing.flags(s, "The gateway must have answered within this `DURATION`.")
}

func (o *adminOptions) check() error {
	if err := o.replicaOptions.check(); err != nil {
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
	answers, err := askSome(ctx, p, o, pageOf(path), 1, func(ctx context.Context, r replica, _ *struct{}) (time.Time, error) { return r.fetch(ctx, path, into) })
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return at, err
	}
	o.gateway = answers[0].Gateway
	return answers[0].At, nil
}

// Answer is what one gateway has sent.
type Answer[T any] struct {
	Gateway string // HOST:PORT, or NAMESPACE/POD
	Value   *T
	At      time.Time // by the gateway's clock
	Err     error     // why there is no value
}

// NotReady reports whether the gateway has not been asked, since its Pod is not ready: Err has why.
func (a *Answer[T]) NotReady() bool {
	_, notReady := errors.AsType[*notReadyError](a.Err)
	return notReady
}

// askedAtOnce is how many gateways are asked at a time: each may answer 32 MiB.
const askedAtOnce = 4

// readAll reads a page of every gateway. Those that fail are answers too; there is an error if no gateway
// could be asked at all.
func readAll[T any](ctx context.Context, p cli.Process, o *adminOptions, path string) ([]Answer[T], error) {
	return askSome(ctx, p, o, pageOf(path), allReplicas, func(ctx context.Context, r replica, into *T) (time.Time, error) { return r.fetch(ctx, path, into) })
}

const allReplicas = math.MaxInt

// askSome is readAll for the first gateways, and for whatever is asked; what describes that.
func askSome[T any](ctx context.Context, p cli.Process, o *adminOptions, what string, limit int, ask func(context.Context, replica, *T) (time.Time, error)) ([]Answer[T], error) {
	var answers []Answer[T]
	err := o.await(ctx, p, func(ctx context.Context, w *waiting) error {
		replicas, release, err := o.find(ctx, w, adminPort)
		if err != nil {
			return err
		}
		defer release()
		replicas = replicas[:min(len(replicas), limit)]
		w.on(what+" of "+names(replicas), names(replicas))
		list := make([]Answer[T], len(replicas))
		var asking errgroup.Group
		asking.SetLimit(askedAtOnce)
		for i, r := range replicas {
			asking.Go(func() error {
				a := Answer[T]{Gateway: r.name, Value: new(T)}
				if a.At, a.Err = ask(ctx, r, a.Value); ctx.Err() != nil && a.Err != nil {
					a.Err = late(r.name, o.timeout)
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
