package follow

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"isthmus/clusterstore/decode"
	"isthmus/internal/sleep"
)

// Drift is an object of which something else was kept than the API server has, though its watch had
// brought all that there was. It has been corrected.
type Drift struct {
	Resource string
	Object   string // as [JoinKey] makes it
	Problem  Problem
}

// Problem is how what was kept of an object differed from what the API server has.
type Problem string

// The problems.
const (
	Missing Problem = "it was missing"
	Gone    Problem = "it was kept, and is gone"
	Differs Problem = "another version of it was kept"
)

// Bounds of checks, which count for no budget.
const (
	// maxCandidates is how large the objects together may be that seem to have drifted, in bytes, of all resources
	// of a Group.
	maxCandidates = 1 << 20
	// maxTouched is how many objects may change while it lasts.
	maxTouched = 50_000
	// unknownObjects is how many objects more than are kept a list may have.
	unknownObjects = 10_000
	// checkPatience is how long it waits until the watch has come as far as its list: API servers send
	// bookmarks once a minute.
	checkPatience = 2 * time.Minute
	// checkAgain is when a check follows one that has found more than that, or that still waits.
	checkAgain = time.Minute
)

// What ends the list of a check.
var (
	errEnough = errors.New("the list has many objects that are not kept")
	errEnded  = errors.New("the check has ended")
)

// check compares what is kept with a list that is read while the watch goes on. feed.mu guards it.
type check[T any] struct {
	touched    map[print]struct{} // what the watch has brought since it began
	listed     map[print]struct{}
	candidates []*compacted[T] // !ok: it is not in the list
	objects    int             // of the list, to be kept or refused; one that comes again counts again
	size       int64           // of the candidates
	more       bool            // there are more of them
	version    string          // of the list
	until      time.Time       // when it is over; zero: the list is being read
}

// over reports whether the watch has taken too long to come as far as the list.
func (c *check[T]) over() bool { return !c.until.IsZero() && !time.Now().Before(c.until) }

// checkDrift lists the objects beside the watch. Once that has come as far as the list, run
// corrects what differs and was not changed meanwhile. It reports whether another check is to follow soon: there is more than
// there is room for, or one waits for the watch still. It does nothing until the resource has been listed; the next list ends a check.
func (f *feed[O, T]) checkDrift(ctx context.Context) (again bool) {
	c, again := f.beginCheck()
	if c == nil {
		return again
	}
	_, err := f.resource.pages(ctx, func(ctx context.Context, opts metav1.ListOptions) (metav1.ListMeta, int, error) {
		return f.checkPage(ctx, opts, c)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.check != c:
		return false
	case err == nil:
		f.findGone(c)
	case errors.Is(err, errEnough):
		c.more = true
	default: // whether the objects can be listed is run's to say
		f.endCheck()
		return false
	}
	c.until, c.listed = time.Now().Add(checkPatience), nil
	return c.more
}

// beginCheck returns nil if the resource has not been listed, or, busy, if there is a check.
func (f *feed[O, T]) beginCheck() (c *check[T], busy bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.check != nil && f.check.over() {
		f.endCheck()
	}
	if !f.whole || f.check != nil {
		return nil, f.check != nil
	}
	f.check = &check[T]{touched: make(map[print]struct{}), listed: make(map[print]struct{})}
	return f.check, false
}

// endCheck ends the check that there may be. f.mu is held.
func (f *feed[O, T]) endCheck() {
	if f.check != nil {
		f.resource.group.candidates.Add(-f.check.size)
		f.check = nil
	}
}

// checkPage reads one page, and compares its objects with those in the Store.
func (f *feed[O, T]) checkPage(ctx context.Context, opts metav1.ListOptions, c *check[T]) (metav1.ListMeta, int, error) {
	n := 0
	list, err := f.kind.Source.List(ctx, opts, func(o O, refused *decode.Refused) error {
		n++
		if err := f.resource.pace(ctx); err != nil {
			return err
		}
		one := f.compact(o, refused)
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case f.check != c:
			return errEnded
		case c.objects > int(f.resource.objects.Load())+unknownObjects:
			return errEnough
		case one.refused == "" && !one.ok:
			return nil
		}
		c.objects++
		c.listed[f.prints.of(one.key)] = struct{}{}
		if one.refused == "" && !f.same(f.stored(one.key), one) {
			f.suspect(c, one, sizeOf(one.key, one.value, 0, false))
		}
		return nil
	})
	if opts.Continue == "" {
		f.locked(func() { c.version = list.ResourceVersion })
	}
	return list, n, err
}

// findGone adds what is in the Store and not in the list. f.mu is held.
func (f *feed[O, T]) findGone(c *check[T]) {
	for key := range f.kind.Into.Keys {
		if _, ok := c.listed[f.prints.of(key)]; !ok {
			f.suspect(c, &compacted[T]{key: key}, sizeOf(key, nil, 0, false))
		}
	}
}

// suspect adds a candidate, if there is room. f.mu is held.
func (f *feed[O, T]) suspect(c *check[T], one *compacted[T], size int64) {
	all := &f.resource.group.candidates
	if now := all.Add(size); now > maxCandidates && now > size {
		all.Add(-size)
		c.more = true
		return
	}
	c.size += size
	c.candidates = append(c.candidates, one)
}

// touch notes that the watch has brought something of an object. f.mu is held.
func (f *feed[O, T]) touch(key string) {
	if f.check == nil {
		return
	}
	if f.check.touched[f.prints.of(key)] = struct{}{}; len(f.check.touched) > maxTouched {
		f.endCheck()
	}
}

// reached corrects what has drifted, and returns that, once the watch has come as far as the list of a check. f.mu is
// held.
func (f *feed[O, T]) reached(version string) (corrected []Drift, err error) {
	c := f.check
	switch {
	case c == nil || c.until.IsZero():
		return nil, nil
	case c.over():
		f.endCheck()
		return nil, nil
	}
	switch order, err := resourceversion.CompareResourceVersion(version, c.version); {
	case err != nil: // versions that can't be compared
		f.endCheck()
		return nil, nil
	case order < 0:
		return nil, nil
	}
	defer f.endCheck()
	for _, one := range c.candidates {
		if _, touched := c.touched[f.prints.of(one.key)]; touched {
			continue
		}
		problem := Missing
		if _, had := f.kind.Into.Get(one.key); !one.ok {
			problem = Gone
			f.kind.Into.PrepareDrop(one.key)
		} else if had {
			problem = Differs
		}
		if err := f.store(one); err != nil {
			return corrected, err
		}
		corrected = append(corrected, Drift{f.resource.name, one.key, problem})
	}
	return corrected, nil
}

// reportDrift counts and reports what has been corrected.
func (r *Resource) reportDrift(all []Drift) {
	r.drifted.Add(int64(len(all)))
	if report := r.group.options.Drift; report != nil {
		for _, d := range all {
			report(d)
		}
	}
}

// checkDrift checks each resource once in an interval, one after the other, until ctx ends.
func (g *Group) checkDrift(ctx context.Context, interval time.Duration) {
	each := interval / time.Duration(len(g.resources))
	for {
		for _, r := range g.resources {
			wait := time.Duration((0.8 + 0.4*rand.Float64()) * float64(each))
			for sleep.For(ctx, wait) && r.feed.checkDrift(ctx) {
				wait = checkAgain
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}
