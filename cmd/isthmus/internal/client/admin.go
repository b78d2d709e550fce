package client

import (
	"context"
	"errors"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"isthmus/cmd/isthmus/internal/cli"
)

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

// readOne reads a page of one gateway.
func readOne[T any](ctx context.Context, p cli.Process, t *Target, path string) (Answer[T], error) {
	answers, err := ask(ctx, p, t, pageOf(path), 1, pageReader[T](path))
	if err != nil {
		return Answer[T]{}, err
	}
	t.gateway = answers[0].Gateway
	return answers[0], answers[0].Err
}

// ReadAll reads a page of every gateway. Those that fail are answers too; there is an error if none
// could be asked at all. It prints on standard error what it waits for.
func ReadAll[T any](ctx context.Context, p cli.Process, t *Target, path string) ([]Answer[T], error) {
	return ask(ctx, p, t, pageOf(path), math.MaxInt, pageReader[T](path))
}

func pageReader[T any](path string) func(context.Context, replica, *T) (time.Time, error) {
	return func(ctx context.Context, r replica, into *T) (time.Time, error) { return r.fetch(ctx, path, into) }
}

// ask asks so many gateways for something, which what describes.
func ask[T any](ctx context.Context, p cli.Process, t *Target, what string, limit int, one func(context.Context, replica, *T) (time.Time, error)) ([]Answer[T], error) {
	var answers []Answer[T]
	err := t.await(ctx, p, func(ctx context.Context, w *waiting) error {
		replicas, release, err := t.find(ctx, w, adminPort)
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
				if a.At, a.Err = one(ctx, r, a.Value); ctx.Err() != nil && a.Err != nil {
					a.Err = late(r.name, t.Timeout)
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
