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

// Limits of requests. Only a page after a page with many objects may exceed them.
const (
	requestRate  = 1 // per second
	requestBurst = 5
)

// Limits of lists.
const (
	// pageSize is the maximum number of objects of a page.
	pageSize = 500
	// pageTimeout limits the duration of one page.
	pageTimeout = 30 * time.Second
	// maxListTime limits the duration of a whole list.
	maxListTime = 5 * time.Minute
	// slowList is the duration after which a list is shown as a trouble.
	slowList = time.Minute
	// richPage is the number of objects that a page must have so that the next page is requested at
	// once. API servers fill their pages.
	richPage = pageSize / 10
	// maxPoorPages is how many pages in a row may have fewer objects.
	maxPoorPages = 10
	// maxOutdated is how many times in a row a server may report that a version is too old, or not
	// known yet, before that is a failure.
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
	// emptyWatch is how long a watch without events must last to show that the server responds. A
	// server that ends each watch earlier could hide all changes.
	emptyWatch = time.Second
	// resumeWithin is how long after the last sign of the server a watch may be resumed. After a
	// longer outage, a server that was restored from a backup may have passed the last version
	// again. A comparison of versions would not detect that.
	resumeWithin = time.Minute
	// lostAfter is the longest time that a server may have been silent when its connection is found
	// to be lost. Pings and keep-alive probes detect lost connections; see package kube.
	lostAfter = 15 * time.Second
)

// backoff is the pause between attempts. The pause is always less than 4 s, so that a returning
// cluster is watched within 10 s, however long the outage was. Each resource uses a copy.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 10, Jitter: 0.3}

// Pauses that are longer than the backoff.
const (
	// optionalPause is the pause of an optional resource that is forbidden or absent. Together with
	// the backoff, the pause is less than 30 s.
	optionalPause = 25 * time.Second
	// discoveryPause is how often API discovery is asked during that pause whether an absent
	// resource exists.
	discoveryPause = 5 * time.Second

	// A resource that is over budget pauses for overRest times the duration of its newest list,
	// within these limits.
	overRest     = 4
	minOverPause = 5 * time.Second
	maxOverPause = 30 * time.Second

	// A needed resource that may be listed but not watched is listed repeatedly. Each list is as
	// expensive as the first one, so the pause doubles after maxWatchRefusals in a row, up to
	// maxUnwatchedPause.
	maxWatchRefusals  = 3
	maxUnwatchedPause = 30 * time.Second

	// maxThrottle limits the pause that a server may request by 429 with Retry-After. maxRetryAfter
	// limits the pause for other codes: a load balancer may ask for minutes, but a returning
	// cluster must be watched within 10 s.
	maxThrottle   = 60 * time.Second
	maxRetryAfter = 10 * time.Second
	// throttleJitter is the fraction by which such a pause may exceed the requested pause, so that
	// resources and replicas don't return at the same time.
	throttleJitter = 0.25
)

const (
	// maxRefusedText limits the cached reason why an object is refused, in bytes.
	maxRefusedText = 200
	// shownRefused is how many refused objects of a resource the health names.
	shownRefused = 3
)

// Resource lists and watches one kind of object and fills the kind's Store, as client-go's
// Reflector does. A Resource reports failures to its Group.
type Resource struct {
	// fixed
	name   string
	needed bool
	aside  bool
	later  bool                                // set by Kind.Unawaited
	serves func(context.Context) (bool, error) // may be nil
	fields string
	report func(error) // may be nil
	feed   feeder
	group  *Group
	lag    *lag // nil if the lag is not measured
	// tried is closed once the resource is listed. For an optional resource, it is also closed once
	// the resource is refused, confirmed to be absent, or over budget.
	tried chan struct{}

	triedOnce sync.Once // closes tried
	objects   atomic.Int64
	trouble   trouble
	requests  *rate.Limiter
	wanted    atomic.Int64            // number of calls of ListAgain
	listedFor atomic.Int64            // value of wanted when the newest complete list began
	watching  atomic.Pointer[watcher] // present watch, or nil

	state    resourceState     // guarded by group.mu
	unusable map[string]string // guarded by group.mu; why objects are refused, by key

	// The following fields belong to the goroutine of run.
	version   string        // resource version of the Store
	heard     time.Time     // when the last list ended, or a watch last showed that the server responds
	backoff   wait.Backoff  // remaining steps
	rest      rest          // why the next pause is longer than the backoff
	throttled time.Time     // when the server accepts requests again, by Retry-After
	took      time.Duration // duration of the newest list
	relists   bool          // objects of a list have been received, so further lists are paced
	bookmarks bool          // the API server has sent a bookmark
	outdated  int           // consecutive errors that a version is too old or not known yet
	refusals  int           // consecutive watches refused with 403, each after a list
}

// feeder decodes the responses for a Resource, and fills its Store.
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

// New returns a Resource for a kind of object. Pass it to [NewGroup]. The Group starts it.
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

// Name returns the name of the kind.
func (r *Resource) Name() string { return r.name }

// Feed returns the Feed, for tests.
func (r *Resource) Feed() Feed { return r.feed }

// ListAgain makes the resource list its objects again soon, for example because the results of
// Compact have changed. ListAgain does not block, and is safe for concurrent use.
func (r *Resource) ListAgain() {
	r.wanted.Add(1)
	if w := r.watching.Load(); w != nil {
		w.stop(errAgain)
	}
}

// WantsList reports whether ListAgain has been called since the newest complete list began. Within
// Kind.Applied, the newest list is the one that has just been applied, if any.
func (r *Resource) WantsList() bool { return r.listedFor.Load() != r.wanted.Load() }

// step is the first step of listAndWatch.
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

// listAndWatch lists the objects unless a watch can be resumed, and watches until a failure. If a
// watch has merely ended, the next watch follows without a pause. listAndWatch returns the step to
// begin with after the pause.
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
	began := time.Now()
	wanted := r.wanted.Load()
	r.feed.beginList()
	version, err := r.pages(ctx)
	r.took = time.Since(began)
	if err != nil {
		r.feed.abandonList()
		return err
	}
	r.version = version
	r.heard = time.Now()
	r.listedFor.Store(wanted)
	r.feed.commit()
	return nil
}

// pages stages all pages of a list and returns the list's version. The list is consistent with the
// API server's storage, not its cache. A page is requested at once if the previous page had many
// objects. Other pages wait for the request rate.
func (r *Resource) pages(ctx context.Context) (version string, err error) {
	began := time.Now()
	poor := 0
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

// late returns an error if a list has taken too long. late shows a slow list as a trouble.
func (r *Resource) late(began time.Time) error {
	switch took := time.Since(began); {
	case took > maxListTime:
		return errLongList
	case took > slowList:
		r.note(longList, nil)
	}
	return nil
}

// sameHistory reports whether a watch from the last version would miss nothing. sameHistory lists
// one object to get the server's present version. After a restore from a backup, that version is
// lower than the last one.
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
	r.outdated = 0
	r.refusals = 0
	r.group.setHealthy(&r.state)
	r.reportReadable()
	return w, nil
}

// watch applies the events of a watch until the watch ends. If ended is true, the watch has merely
// ended, and the next watch may follow without a pause. Otherwise, next is the step to begin with
// after a pause.
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
		if err := r.feed.apply(e); err != nil { // over budget; a list reads the rest
			r.failed(ctx, err)
			return toList, false
		}
		r.version = cmp.Or(e.version, r.version)
	}
}

// afterNoAnswer returns the step after a failure to open a watch or to read the present version. If
// the server only requests a pause, the result is again. If the server rejects the request itself,
// it may have lost the kind or no longer know the version, so the objects are listed.
func afterNoAnswer(err error, again step) step {
	switch {
	case apierrors.IsTooManyRequests(err):
		return again
	case answered(err), outdated(err):
		return toList
	}
	return toResume
}

// afterWatch returns the step after a watch that ended with err. If ended is true, the watch has
// merely ended, and the next watch may follow without a pause. After a silent watch, the objects
// are listed. The list shows whether the server still responds, and what the watch has missed. A
// new watch could be silent too.
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
		r.heardAt(time.Now()) // pings showed until a moment ago that the connection was alive
	}
	return toWatch, true
}

// heardAt records that the server responded at a time. An earlier time than the recorded one is
// ignored.
func (r *Resource) heardAt(at time.Time) {
	if at.After(r.heard) {
		r.heard = at
	}
}

// admit waits until another request may be sent.
func (r *Resource) admit(ctx context.Context) error { return r.requests.Wait(ctx) }

// pace waits until the cluster may handle one more event. Further events wait in the connection,
// and so at the server.
func (r *Resource) pace(ctx context.Context) error {
	if r.group.events == nil {
		return nil
	}
	return r.group.events.Wait(ctx)
}

// failed records why a list, or the start of a watch, has failed. The Store stays as it is. An
// error that a version is too old, or not known yet, only counts as a failure after maxOutdated
// such errors in a row.
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
	// Leave out the request's URL, which differs between attempts.
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

// reportReadable reports that the objects can be read.
func (r *Resource) reportReadable() {
	if r.report != nil {
		r.report(nil)
	}
}

// markTried lets the Group's first sync continue.
func (r *Resource) markTried() { r.triedOnce.Do(func() { close(r.tried) }) }

// throttle delays the next request by the Retry-After of an error, within the maximum.
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

// unwatched counts a watch that was refused after a list because the permission is missing. For
// such an error, it returns the error with a hint.
func (r *Resource) unwatched(err error) error {
	if !apierrors.IsForbidden(err) {
		r.refusals = 0
		return err
	}
	r.refusals++
	return fmt.Errorf("it may be listed, but not watched: %w: grant the verb watch of %s", err, r.name)
}

// backOff pauses before the next attempt. The pause is the longest of three: the next step of the
// backoff, the pause that the last failure requires, and the pause that the server requests.
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
	if r.needed { // pauseOptional is long enough for optional resources
		for n := maxWatchRefusals; n <= r.refusals && pause < maxUnwatchedPause; n++ {
			pause *= 2
		}
		pause = min(pause, maxUnwatchedPause)
	}
	pace.Sleep(ctx, max(pause, time.Until(r.throttled)))
}

// pauseOptional pauses an optional resource that was denied. If the resource was not found and API
// discovery confirms that, its objects are dropped. The pause then ends as soon as discovery finds
// the resource. Otherwise the objects stay.
func (r *Resource) pauseOptional(ctx context.Context, notFound bool) {
	ctx, stop := context.WithTimeout(ctx, optionalPause)
	defer stop()
	if notFound && r.serves == nil { // nothing can confirm that the resource is absent
		r.markTried()
	}
	if !notFound || r.serves == nil {
		<-ctx.Done()
		return
	}
	for first := true; r.admit(ctx) == nil; first = false {
		there, err := r.serves(ctx)
		switch {
		case err != nil: // unknown, so the resource is requested again
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

// note shows a trouble in the health, and reports it once. err is the server's error, or nil.
func (r *Resource) note(c cause, err error) {
	text := string(c)
	if err != nil {
		text += ": " + r.group.options.Printable(err).Error()
	}
	if r.trouble.add(c, text) && r.group.options.Trouble != nil {
		r.group.options.Trouble(r.name, text)
	}
}

// refusedText returns the cached reason why an object is refused. The text is never empty.
func (r *Resource) refusedText(why error) string {
	return text.Truncate(cmp.Or(r.group.options.Printable(why).Error(), "it can't be decoded"), maxRefusedText)
}

// setRefused records the refused objects of a list, and returns the previous ones.
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

// refusedObjects returns the number of refused objects, and the first few of them. The caller holds
// group.mu.
func (r *Resource) refusedObjects() (n int, some []RefusedObject) {
	var keys []string // the first keys in order
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

// outdated reports whether the version of a watch or a list is too old for the server, or not known
// to it yet.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// answered reports whether a server has rejected the request itself with a code 4xx. Otherwise, the
// server is unreachable or overloaded.
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
	forbidden      // optional resource that may not be listed, or that nobody may list
	notFound       // optional resource
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
