package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"

	"isthmus/clusterstore/decode"
	"isthmus/internal/pace"
	"isthmus/internal/text"
)

// Limits of requests. Only pages of a list that bring many objects exceed them.
const (
	requestRate  = 1 // a second
	requestBurst = 5
)

// Limits of lists.
const (
	// pageSize is the number of objects that a page may have.
	pageSize = 500
	// pageTimeout limits the time that one page may take.
	pageTimeout = 30 * time.Second
	// maxListTime limits the time that a whole list may take.
	maxListTime = 5 * time.Minute
	// slowList is the duration after which a list is shown as a trouble.
	slowList = time.Minute
	// richPage is the number of objects that a page must have so that the next page is requested at once. API servers
	// fill their pages.
	richPage = pageSize / 10
	// maxPoorPages is how many pages in a row may have fewer objects.
	maxPoorPages = 10
	// maxOutdated is how many times in a row a server may answer that a version is too old, or not known yet, before
	// that is a failure.
	maxOutdated = 5
)

var (
	errLongList = fmt.Errorf("the API server has sent a list for %v, without an end: "+
		"check whether it sends objects again and again", maxListTime)
	errPoorPages = fmt.Errorf("the API server sent %d pages of a list in a row with fewer than %d of the %d objects "+
		"requested, and announced more", maxPoorPages, richPage, pageSize)
	errSlowPage = fmt.Errorf("the API server did not send a page of a list within %v: %w",
		pageTimeout, context.DeadlineExceeded)
)

const (
	// steadyWatch is how long a watch must last before the backoff starts over.
	steadyWatch = 30 * time.Second
	// emptyWatch is how long a watch without events must last to show that the server is there. A server that ends
	// each watch before that hides all changes.
	emptyWatch = time.Second
	// resumeWithin is how long after the last sign of the server a watch may be resumed. After a longer outage the
	// server may have been restored from a backup and have counted past the last version again. A comparison of
	// versions would not show that.
	resumeWithin = time.Minute
	// lostAfter is how long a server may have been silent, at most, when its connection is found to be lost. Pings
	// and keep-alive probes find that: see package kube.
	lostAfter = 15 * time.Second
)

// backoff is the pause between attempts. The pause is always less than 4 s, so that a cluster that is back is watched
// within 10 s, however long it was away. Each resource works on a copy.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 10, Jitter: 0.3}

// Pauses that are longer than the backoff.
const (
	// optionalPause is how long an optional resource is left alone that is forbidden or absent. With the backoff
	// that is less than 30 s.
	optionalPause = 25 * time.Second
	// discoveryPause is how often API discovery is asked meanwhile whether an absent resource exists.
	discoveryPause = 5 * time.Second

	// A resource that is over budget is left alone for overRest times as long as its newest list took, within limits.
	overRest     = 4
	minOverPause = 5 * time.Second
	maxOverPause = 30 * time.Second

	// A needed resource that may be listed but not watched is listed repeatedly. Every list is as expensive as the
	// first one, so the pause doubles after maxWatchRefusals in a row, up to maxUnwatchedPause.
	maxWatchRefusals  = 3
	maxUnwatchedPause = 30 * time.Second

	// maxThrottle limits the pause that a server may request by 429 with Retry-After, and maxRetryAfter the pause
	// with other codes: a load balancer may ask for minutes, and a cluster that is back must be watched within 10 s.
	maxThrottle   = 60 * time.Second
	maxRetryAfter = 10 * time.Second
	// throttleJitter is the fraction by which such a pause may be longer than requested. It keeps resources and
	// replicas from returning at the same time.
	throttleJitter = 0.25
)

const (
	// maxRefusedText limits the cached reason why an object is refused, in bytes.
	maxRefusedText = 200
	// shownRefused is how many refused objects of a resource its health names.
	shownRefused = 3
)

// Resource lists and watches one kind of object and fills the kind's Store, as client-go's Reflector does. It reports
// failures to its Group.
type Resource struct {
	// fixed
	name   string
	needed bool
	aside  bool
	later  bool                                // Kind.Unawaited
	serves func(context.Context) (bool, error) // may be nil
	fields string
	report func(error) // may be nil
	feed   feeder
	group  *Group
	lag    *lag // If nil, the lag is not measured.
	// tried is closed once the resource is listed or, if it is optional, once it is refused,
	// confirmed to be absent, or over budget.
	tried chan struct{}

	triedOnce sync.Once // closes tried
	objects   atomic.Int64
	trouble   trouble
	requests  *rate.Limiter
	wanted    atomic.Int64            // how often ListAgain was called
	listedFor atomic.Int64            // wanted, as the newest whole list began
	watching  atomic.Pointer[watcher] // the present watch, or nil

	state    resourceState     // under group.mu
	unusable map[string]string // under group.mu: why objects are refused, by key

	// of the goroutine of run
	version   string        // the resource version of the Store
	heard     time.Time     // when the last list ended, or a watch last showed that the server was there
	backoff   wait.Backoff  // the remaining steps
	rest      rest          // why the next pause is longer than the backoff
	throttled time.Time     // until when the server wants no request, by Retry-After
	took      time.Duration // duration of the newest list
	relists   bool          // objects of a list have come, so further lists are paced
	bookmarks bool          // the API server has shown that it sends bookmarks
	outdated  int           // answers in a row that a version is too old or not known yet
	refusals  int           // watches in a row that were refused by 403, each after a list
}

// feeder decodes what a Resource requests, and fills its Store.
type feeder interface {
	Feed
	open(context.Context, metav1.ListOptions) (events, error)
	apply(event) error
	beginList()
	stagePage(context.Context, metav1.ListOptions) (metav1.ListMeta, int, error)
	skipPage(context.Context, metav1.ListOptions) (metav1.ListMeta, int, error)
	abandonList()
	commit()
	clear()
	useMemoryCap()
}

// New returns a Resource for a kind of object. Pass it to [NewGroup]: the Group starts
// it.
func New[O decode.Object, T any](k Kind[O, T]) *Resource {
	r := &Resource{
		name:   k.Name,
		needed: k.Needed,
		aside:  k.Aside,
		later:  k.Unawaited,
		serves: k.Serves,
		fields: k.Fields,
		report: k.Report,
		tried:  make(chan struct{}),

		requests: rate.NewLimiter(requestRate, requestBurst),
	}
	if k.Lag != nil {
		r.lag = &lag{seconds: k.Lag}
	}
	r.feed = newFeed(k, r)
	return r
}

// Name is the kind's.
func (r *Resource) Name() string { return r.name }

// Feed returns the Feed, for tests.
func (r *Resource) Feed() Feed { return r.feed }

// ListAgain makes the resource be listed again soon, because the kind's Compact now returns something else. It does
// not block, and may be called at any time.
func (r *Resource) ListAgain() {
	r.wanted.Add(1)
	if w := r.watching.Load(); w != nil {
		w.stop(errAgain)
	}
}

// WantsList reports whether ListAgain has been called since the newest whole list began. In the kind's Applied, that is
// the list that has just been put into the Store, if one has.
func (r *Resource) WantsList() bool { return r.listedFor.Load() != r.wanted.Load() }

// step is how listAndWatch begins.
type step uint8

const (
	toList   step = iota // list all objects, and watch from the list's version
	toWatch              // watch from the last version
	toResume             // watch from the last version if the server's history is the same, or else list
)

// run lists and watches until ctx ends, and backs off after each failure.
func (r *Resource) run(ctx context.Context) {
	r.backoff = backoff
	for next := toList; ctx.Err() == nil; {
		next = r.listAndWatch(ctx, next)
		r.backOff(ctx)
	}
}

// listAndWatch lists the objects unless a watch can be resumed, and watches until a failure. If a watch has only ended,
// the next watch follows without a pause. listAndWatch returns the step to begin with after a pause.
func (r *Resource) listAndWatch(ctx context.Context, begin step) step {
	if begin == toResume {
		same, err := r.sameHistory(ctx)
		if err != nil {
			r.failed(ctx, err)
			return afterNoAnswer(err, toResume)
		}
		if !same {
			begin = toList
		}
	}
	if begin == toList {
		if err := r.list(ctx); err != nil {
			r.refusals = 0
			r.failed(ctx, err)
			return toList
		}
	}
	for listed := begin == toList; ; listed = false {
		w, err := r.open(ctx)
		if err != nil {
			if listed {
				err = r.unwatched(err)
			}
			r.failed(ctx, err)
			return afterNoAnswer(err, toWatch)
		}
		next, ended := r.watch(ctx, w)
		if !ended {
			return next
		}
	}
}

// list reads all objects in pages, and puts them into the Store.
func (r *Resource) list(ctx context.Context) error {
	began, wanted := time.Now(), r.wanted.Load()
	r.feed.beginList()
	version, err := r.pages(ctx)
	r.took = time.Since(began)
	if err != nil {
		r.feed.abandonList()
		return err
	}
	r.version, r.heard = version, time.Now()
	r.listedFor.Store(wanted)
	r.feed.commit()
	return nil
}

// pages stages all pages of a list and returns the list's version. The list is as new as the API server's storage. A
// page is requested at once if the previous page had many objects. Other pages wait for the request rate.
func (r *Resource) pages(ctx context.Context) (version string, err error) {
	began, poor := time.Now(), 0
	for opts := (metav1.ListOptions{Limit: pageSize, FieldSelector: r.fields}); ; {
		if err := r.late(began); err != nil {
			return "", err
		}
		if opts.Continue == "" || poor > 0 {
			if err := r.admit(ctx); err != nil {
				return "", err
			}
		}
		page, n, err := readPage(ctx, opts, r.feed.stagePage)
		if err != nil {
			return "", err
		}
		r.group.event()
		if opts.Continue == "" {
			version = page.ResourceVersion
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return version, nil
		}
		if n >= richPage {
			poor = 0
			continue
		}
		if poor++; poor > maxPoorPages {
			return "", errPoorPages
		}
		r.note(poorPages, nil)
	}
}

// pageFunc reads one page, and returns the number of its objects.
type pageFunc func(context.Context, metav1.ListOptions) (metav1.ListMeta, int, error)

// readPage reads one page within pageTimeout.
func readPage(ctx context.Context, opts metav1.ListOptions, read pageFunc) (metav1.ListMeta, int, error) {
	ctx, stop := context.WithTimeoutCause(ctx, pageTimeout, errSlowPage)
	defer stop()
	page, n, err := read(ctx, opts)
	if err != nil && context.Cause(ctx) == errSlowPage {
		err = errSlowPage
	}
	return page, n, err
}

// late returns an error if a list has lasted too long, and shows a list that lasts long.
func (r *Resource) late(began time.Time) error {
	switch took := time.Since(began); {
	case took > maxListTime:
		return errLongList
	case took > slowList:
		r.note(longList, nil)
	}
	return nil
}

// sameHistory reports whether a watch from the last version would miss nothing. The server's present version is lower
// than the last one after a restore from a backup. A list of one object has the present version.
func (r *Resource) sameHistory(ctx context.Context) (bool, error) {
	if time.Since(r.heard) > resumeWithin {
		return false, nil
	}
	if err := r.admit(ctx); err != nil {
		return false, err
	}
	page, _, err := readPage(ctx, metav1.ListOptions{Limit: 1, FieldSelector: r.fields}, r.feed.skipPage)
	if err != nil {
		return false, err
	}
	order, err := resourceversion.CompareResourceVersion(page.ResourceVersion, r.version)
	return err == nil && order >= 0, nil
}

// open requests a watch from the last version.
func (r *Resource) open(ctx context.Context) (*watcher, error) {
	if err := r.admit(ctx); err != nil {
		return nil, err
	}
	w, err := newWatcher(ctx, r)
	if err != nil {
		return nil, err
	}
	r.outdated, r.refusals = 0, 0
	r.group.setHealthy(&r.state)
	r.reportReadable()
	return w, nil
}

// watch applies the events of a watch until the watch ends. If ended is true, the watch has only ended, and the next
// watch may follow without a pause. Otherwise, next is the step to begin with after a pause.
func (r *Resource) watch(ctx context.Context, w *watcher) (next step, ended bool) {
	defer w.close()
	r.watching.Store(w)
	defer r.watching.Store(nil)
	began := time.Now()
	for {
		if r.WantsList() {
			return toList, false
		}
		e, err := w.next()
		if err == nil {
			r.heard = time.Now()
			err = r.pace(ctx)
		}
		if err != nil {
			if time.Since(began) >= steadyWatch {
				r.backoff = backoff
			}
			r.throttle(err)
			return r.afterWatch(w, err)
		}
		if err := r.feed.apply(e); err != nil { // over budget: a list reads the rest
			r.failed(ctx, err)
			return toList, false
		}
		r.version = cmp.Or(e.version, r.version)
	}
}

// afterNoAnswer returns the step after a watch that could not be opened, or a version that could
// not be read. again is the step to repeat if the server only asks for a pause. If the server
// refuses the request itself, the server may have lost the kind or may no longer know the version.
// Then the objects are listed.
func afterNoAnswer(err error, again step) step {
	switch {
	case apierrors.IsTooManyRequests(err):
		return again
	case answered(err), outdated(err):
		return toList
	}
	return toResume
}

// afterWatch returns the step after a watch that err has ended. If ended is true, the watch has only ended,
// and the next watch may follow without a pause. After a silent watch, the objects are listed. The list
// shows whether the server still answers, and what the watch has missed. A new watch could be silent too.
func (r *Resource) afterWatch(w *watcher, err error) (next step, ended bool) {
	lost := utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err)
	empty := !w.brought && time.Since(w.began) < emptyWatch
	switch {
	case apierrors.IsTooManyRequests(err):
		return toWatch, false
	case !broken(err) && !lost, empty && err == io.EOF:
		return toList, false
	case empty:
		return toResume, false
	case lost:
		r.heardAt(time.Now().Add(-lostAfter))
		return toResume, false
	case err != errOverdue:
		r.heardAt(time.Now()) // pings have shown until a moment ago that the connection was alive
	}
	return toWatch, true
}

// heardAt records that the server was there at a time. A later time that is known already stays.
func (r *Resource) heardAt(at time.Time) {
	if at.After(r.heard) {
		r.heard = at
	}
}

// admit waits until another request may be sent.
func (r *Resource) admit(ctx context.Context) error { return r.requests.Wait(ctx) }

// pace waits until the cluster may have one more event handled. Further events wait in the connection, and so at the
// server.
func (r *Resource) pace(ctx context.Context) error {
	if r.group.events == nil {
		return nil
	}
	return r.group.events.Wait(ctx)
}

// failed records why a list, or the start of a watch, has failed. The Store stays as it is. An answer that a version is
// too old, or not known yet, is only a failure after maxOutdated such answers in a row.
func (r *Resource) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.throttle(err)
	if outdated(err) {
		r.note(expiredAtOnce, nil)
		if r.outdated++; r.outdated <= maxOutdated {
			return
		}
	}
	r.rest = restAfter(err, r.needed)
	if r.rest == forbidden || r.rest == overBudget && !r.needed {
		r.markTried()
	}
	shown := err
	// Leave out the request's URL: it differs from attempt to attempt.
	if u, ok := errors.AsType[*url.Error](err); ok {
		shown = u.Err
	}
	r.group.setFailed(&r.state, shown)
	if r.report != nil {
		r.report(err)
	}
}

// listed records that all objects are in the Store.
func (r *Resource) listed() {
	r.group.setListed(&r.state)
	r.reportReadable()
}

// reportReadable calls the kind's Report.
func (r *Resource) reportReadable() {
	if r.report != nil {
		r.report(nil)
	}
}

// markTried lets the Group's first sync continue.
func (r *Resource) markTried() { r.triedOnce.Do(func() { close(r.tried) }) }

// throttle makes the next request wait for the Retry-After of an error, within the maximum.
func (r *Resource) throttle(err error) {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return
	}
	longest := maxRetryAfter
	if apierrors.IsTooManyRequests(err) {
		longest = maxThrottle
	}
	shortest := min(time.Duration(seconds)*time.Second, time.Duration(float64(longest)/(1+throttleJitter)))
	r.throttled = time.Now().Add(wait.Jitter(shortest, throttleJitter))
	r.group.setThrottled(&r.state, r.throttled)
}

// unwatched counts a watch that could not be opened after a list, if the permission is missing. In
// this case it returns the error with a hint.
func (r *Resource) unwatched(err error) error {
	if !apierrors.IsForbidden(err) {
		r.refusals = 0
		return err
	}
	r.refusals++
	return fmt.Errorf("it may be listed, but not watched: %w: grant the verb watch of %s", err, r.name)
}

// backOff pauses before the next attempt: at least for the next step of the backoff, for as long as the last failure
// requires, and for as long as the server asks for.
func (r *Resource) backOff(ctx context.Context) {
	why := r.rest
	r.rest = noRest
	switch why {
	case overBudget:
		pace.Sleep(ctx, min(max(minOverPause, overRest*r.took), maxOverPause))
	case forbidden, notFound:
		r.pauseOptional(ctx, why == notFound)
	}
	pause := r.backoff.Step()
	if r.needed { // pauseOptional is long enough for others
		for n := maxWatchRefusals; n <= r.refusals && pause < maxUnwatchedPause; n++ {
			pause *= 2
		}
		pause = min(pause, maxUnwatchedPause)
	}
	pace.Sleep(ctx, max(pause, time.Until(r.throttled)))
}

// pauseOptional leaves an optional resource alone that was denied. If it was not found, and API discovery confirms
// that, there are no objects, and the pause ends as soon as discovery has the resource. Otherwise the objects stay.
func (r *Resource) pauseOptional(ctx context.Context, notFound bool) {
	ctx, stop := context.WithTimeout(ctx, optionalPause)
	defer stop()
	if notFound && r.serves == nil { // nothing can confirm that it is absent
		r.markTried()
	}
	if !notFound || r.serves == nil {
		<-ctx.Done()
		return
	}
	for first := true; r.admit(ctx) == nil; first = false {
		there, err := r.serves(ctx)
		switch {
		case err != nil: // not known: the resource is requested again
			r.throttle(err)
		case !there:
			r.feed.clear()
			r.group.setAbsent(&r.state, true)
			r.markTried()
		default:
			r.group.setAbsent(&r.state, false)
			if !first {
				return // the resource exists again
			}
		}
		if !pace.Sleep(ctx, max(discoveryPause, time.Until(r.throttled))) || err != nil || there {
			return
		}
	}
}

// note shows, and once logs, something that a server does. The error, if any, is the
// server's.
func (r *Resource) note(c cause, err error) {
	text := string(c)
	if err != nil {
		text += ": " + r.group.options.Printable(err).Error()
	}
	if r.trouble.add(c, text) && r.group.options.Trouble != nil {
		r.group.options.Trouble(r.name, text)
	}
}

// refusedText returns the reason to cache why an object is refused. It is not empty.
func (r *Resource) refusedText(why error) string {
	return text.Truncate(cmp.Or(r.group.options.Printable(why).Error(), "it can't be decoded"), maxRefusedText)
}

// setRefused records which objects of a list are refused, and returns those of the list before.
func (r *Resource) setRefused(all map[string]string) (before map[string]string) {
	r.group.mu.Lock()
	defer r.group.mu.Unlock()
	before, r.unusable = r.unusable, all
	return before
}

// noteRefused records why an object is refused. If why is empty, the object is not refused.
func (r *Resource) noteRefused(key, why string) {
	r.group.mu.Lock()
	defer r.group.mu.Unlock()
	if why == "" {
		delete(r.unusable, key)
		return
	}
	if r.unusable == nil {
		r.unusable = make(map[string]string)
	}
	r.unusable[key] = why
}

// refusedObjects returns the number of refused objects, and the first few of them. The caller holds group.mu.
func (r *Resource) refusedObjects() (n int, some []RefusedObject) {
	var keys []string // the first ones, in order
	for key := range r.unusable {
		if at, _ := slices.BinarySearch(keys, key); at < shownRefused {
			keys = slices.Insert(keys, at, key)
			keys = keys[:min(len(keys), shownRefused)]
		}
	}
	for _, key := range keys {
		some = append(some, RefusedObject{r.name, key, r.unusable[key]})
	}
	return len(r.unusable), some
}

// outdated reports whether the server no longer, or not yet, knows the version from
// which a watch was to go on, or a list.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// answered reports whether a server has refused the request itself (a code 4xx), as
// opposed to being unreachable or overloaded.
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != 429
}

// rest is why the pause after a failure is longer than the backoff.
type rest uint8

const (
	noRest    rest = iota
	forbidden      // of an optional resource, which may also not be listed by anybody
	notFound       // of an optional resource
	overBudget
)

func restAfter(err error, needed bool) rest {
	switch {
	case isOver(err):
		return overBudget
	case needed:
	case apierrors.IsNotFound(err):
		return notFound
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
		return forbidden
	}
	return noRest
}

// isOver reports whether the memory cap has refused something.
func isOver(err error) bool { return errors.Is(err, ErrOverBudget) }
