package exports

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
	"isthmus/local/exports/plan"
	"isthmus/local/lease"
)

const (
	// writeRate limits how many writes begin per second, and writeBurst limits how many may begin
	// at the same time.
	writeRate, writeBurst = 50, 10
	// maxPause is the longest pause between writes to an object that keeps changing.
	maxPause = time.Minute
	// failuresDelay is the number of failures after which a failing write no longer delays
	// deletions for the same exports. Five failures take about 15 s in total. Without a limit, a
	// failing write for one cluster could delay deletions for another cluster forever.
	failuresDelay = 5
)

type leadership struct {
	*Writer
	lease lease.Lease
	loop  *lease.Loop[Object] // ends after it was idle for idleTime

	mu     sync.Mutex
	memory plan.Memory
}

func newLeadership(w *Writer, held lease.Lease) *leadership {
	t := &leadership{Writer: w, lease: held}
	t.loop = lease.NewLoop(lease.Options[Object]{
		Changed:  w.Changed,
		Pass:     t.pass,
		Limiter:  rate.NewLimiter(writeRate, writeBurst),
		MaxPause: maxPause,
		IdleTime: idleTime,
	})
	return t
}

func (t *leadership) pass() lease.Pass[Object] {
	world, ok := t.World()
	if !ok {
		return lease.Pass[Object]{Unknown: true}
	}
	world.Attempt = t.attempt
	p, memory := plan.Make(world, t.memory)
	t.mu.Lock()
	t.memory = memory
	t.mu.Unlock()
	pass := lease.Pass[Object]{Due: p.Due, Idle: idle(p)}
	failing := make(map[exportsFor]bool)
	for _, c := range Changes(world, p) {
		o := t.loop.History(c.Object)
		of := exportsFor{c.Of, c.For == plan.Import}
		failing[of] = failing[of] || c.Verb != Delete && 0 < o.Failures && o.Failures < failuresDelay
		one := lease.Task[Object]{Key: c.Object, Turn: c.turn, Within: c.Namespace, Passing: c.Verb == Delete}
		waits := c.waits || c.Verb == Delete && failing[of] // create replacements before deletes
		if !waits && !isLeft(&o, &c) && !yields(&o, &c) {
			one.Do = func(context.Context) lease.Outcome { return t.write(&c, &o) }
		}
		pass.Tasks = append(pass.Tasks, one)
	}
	return pass
}

func (t *leadership) attempt(kind string, id plan.ID) plan.Attempt {
	h := t.loop.History(Object{Kind: kind, ID: id})
	return plan.Attempt{Made: h.Ended, Problem: h.Problem}
}

// exportsFor is a map key for all exports that share a namespace and a name. Exports by label and
// exports by ServiceExport have different keys, so that a failed write for one kind of export does
// not delay deletions for the other kind.
type exportsFor struct {
	plan.ID
	imports bool
}

// isLeft reports whether an object still differs from the plan only because the API server does not
// store some of the written fields.
func isLeft(o *lease.History, c *Change) bool {
	return o.Left != "" && c.known != nil && o.Left == c.known() && o.Content == c.content()
}

// yields reports whether another controller has reverted the same conditions of a ServiceExport
// twice. Several controllers, such as two installations of Isthmus, may set conditions on a
// ServiceExport. Without this check, the controllers would overwrite each other's conditions
// forever.
func yields(o *lease.History, c *Change) bool {
	return c.Kind == ServiceExport && o.Reverts > 0 && o.Content == c.content()
}

func (t *leadership) trouble(c *Change) (state, detail string) {
	switch o := t.loop.History(c.Object); {
	case isLeft(&o, c), yields(&o, c):
		return "", ""
	case o.Problem != "":
		return adminapi.ExportFailed, o.Problem
	case o.ChangedBack():
		return adminapi.ExportChangedBack, "by " + cmp.Or(o.Managers, "somebody who deletes it")
	}
	return adminapi.ExportBeingWritten, ""
}

func (t *leadership) write(c *Change, of *lease.History) (r lease.Outcome) {
	v := none
	err := t.lease.Write(func(ctx context.Context) (err error) {
		ctx, stop := context.WithTimeout(ctx, writeTimeout)
		defer stop()
		v, err = c.do(ctx, t.Writer, c, of, &r)
		return err
	})
	if v != none {
		t.count(c, v, err)
	}
	switch {
	case err == nil:
		r.Nothing = v == none
		r.Later = true
		return r
	// If an update of the status returns "not found", this version of the kind has no status
	// subresource.
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) &&
		(v == Update || v == Delete):
		return lease.Outcome{Again: true} // another writer was faster
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return lease.Outcome{Nothing: true, Later: true} // the namespace is being deleted with all its objects
	case errors.Is(err, context.Canceled):
		return lease.Outcome{Again: true} // the Lease is lost
	}
	t.Log.Warn(
		"an object for exports cannot be written; still trying",
		zap.Stringer("object", c.Object),
		zap.String("verb", string(v)),
		zap.Error(err),
	)
	return lease.Outcome{Problem: strings.ToValidUTF8(text.Truncate(err.Error(), maxProblem), "")}
}
