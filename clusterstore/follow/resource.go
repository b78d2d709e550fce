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

// requestRate and requestBurst limit how often a resource sends requests. After a page with many
// objects, the request for the next page of the list is not rate-limited.
const (
	requestRate  = 1 // per second
	requestBurst = 5
)

const (
	pageSize    = 500
	pageTimeout = 30 * time.Second
	maxListTime = 5 * time.Minute
	slowList    = time.Minute // a slower list is reported to Options.Trouble
	// After a page with at least richPage objects, the next page is requested immediately. API
	// servers normally fill every page of a list except the last.
	richPage = pageSize / 10
	// maxPoorPages is the maximum number of consecutive pages with fewer than richPage objects.
	maxPoorPages = 10
	// maxOutdated is how many times in a row a server may reject a resource version before the
	// rejections count as a failure. Servers reject resource versions that are too old or not yet
	// known.
	maxOutdated = 5
)

var (
	errLongList = fmt.Errorf(
		"the API server did not complete a list of objects within %v: "+
			"check whether the server sends the same objects repeatedly",
		maxListTime,
	)
	errPoorPages = fmt.Errorf(
		"the API server sent %d consecutive list pages with fewer than %d of the %d requested objects each, "+
			"but said that more pages follow",
		maxPoorPages, richPage, pageSize,
	)
	errSlowPage = fmt.Errorf("the API server did not send a page of a list within %v: %w",
		pageTimeout, context.DeadlineExceeded)
)

const (
	steadyWatch = 30 * time.Second // a watch that lasts this long resets the backoff
	// emptyWatch is how long a watch without events must last to show that the server works. A
	// server could hide all changes by closing every watch within this time.
	emptyWatch = time.Second
	// resumeWithin limits the time between the server's last response and the resumption of a
	// watch. If an outage lasts longer than resumeWithin, a comparison of versions might not reveal
	// that the server was restored from a backup, because the restored server's version may already
	// exceed the last version that the watch received.
	resumeWithin = time.Minute
	// lostAfter is the longest time between a server's last response and the detection of a lost
	// connection. Package kube detects lost connections with pings and keep-alive probes.
	lostAfter = 15 * time.Second
)

// backoff limits each pause between attempts to less than 4 s, so that a cluster is watched again
// within 10 s of the end of an outage, however long the outage was.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 10, Jitter: 0.3}

const (
	// optionalPause is the pause before a forbidden or absent optional resource is requested again.
	// The sum of optionalPause and the backoff is less than 30 s.
	optionalPause = 25 * time.Second
	// discoveryPause is the interval at which API discovery is queried for an absent resource.
	discoveryPause = 5 * time.Second

	// The pause of a resource that is over budget is overRest times the duration of its last list,
	// but at least minOverPause and at most maxOverPause.
	overRest     = 4
	minOverPause = 5 * time.Second
	maxOverPause = 30 * time.Second

	// If Isthmus has permission to list a required resource but not to watch it, the resource is
	// listed repeatedly. Because repeated lists are expensive, the third refusal (maxWatchRefusals)
	// and every later refusal double the pause, up to maxUnwatchedPause.
	maxWatchRefusals  = 3
	maxUnwatchedPause = 30 * time.Second

	// maxThrottle limits the pause that a server may request by sending Retry-After with a 429. For
	// all other status codes, maxRetryAfter is the limit, because Isthmus must resume watching a
	// cluster within 10 s of the end of an outage.
	maxThrottle   = 60 * time.Second
	maxRetryAfter = 10 * time.Second
	// throttleJitter is the largest fraction by which a pause may exceed the requested pause. The
	// jitter keeps resources and replicas from sending their next requests at the same time.
	throttleJitter = 0.25
)

const (
	maxRefusedText = 200 // bytes of the cached reason why an object is refused
	shownRefused   = 3   // maximum number of refused objects per resource in Health
)

// Resource lists and watches one kind of object and fills the kind's Store, like a Reflector in
// client-go. A Resource reports failures to its Group.
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
	// This channel is closed once the resource has been listed. If the resource is optional, the
	// channel is also closed once the resource is forbidden, confirmed to be absent, or over
	// budget.
	tried chan struct{}

	triedOnce sync.Once // closes tried
	objects   atomic.Int64
	trouble   trouble
	requests  *rate.Limiter
	wanted    atomic.Int64            // number of calls to ListAgain
	listedFor atomic.Int64            // value of wanted when the last complete list began
	watching  atomic.Pointer[watcher] // current watch, or nil

	state    resourceState     // guarded by group.mu
	unusable map[string]string // guarded by group.mu; why objects are refused, by key

	// The following fields are used only by the goroutine that executes Resource.run.
	version   string        // resource version of the Store
	heard     time.Time     // when the last list ended, or a watch last showed that the server responds
	backoff   wait.Backoff  // remaining steps
	rest      rest          // why the next pause is longer than the backoff
	throttled time.Time     // when the server accepts requests again, according to Retry-After
	took      time.Duration // duration of the last list
	relists   bool          // objects of a list have been received, so further lists are paced
	bookmarks bool          // the API server has sent a bookmark
	outdated  int           // consecutive errors that a version is too old or not known yet
	refusals  int           // consecutive watches refused with 403, each after a list
}

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

// New returns a Resource for [NewGroup]. The Resource does nothing until [Group.Run] is called.
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

func (r *Resource) Name() string { return r.name }

// Feed returns a [Feed], which tests use instead of an API server.
func (r *Resource) Feed() Feed { return r.feed }

// ListAgain requests a new list of the resource's objects, for example because the results of
// Compact have changed. ListAgain does not block, and is safe for concurrent use.
func (r *Resource) ListAgain() {
	r.wanted.Add(1)
	if w := r.watching.Load(); w != nil {
		w.stop(errAgain)
	}
}

// WantsList reports whether ListAgain has been called since the last complete list began. While
// Kind.Applied runs for a list, WantsList already treats this list as complete.
func (r *Resource) WantsList() bool { return r.listedFor.Load() != r.wanted.Load() }

// A step tells listAndWatch what to do first.
type step uint8

const (
	toList   step = iota // list all objects, and watch from the list's version
	toWatch              // watch from the last version
	toResume             // watch from the last version if the server's history is the same; otherwise list
)

func (r *Resource) run(ctx context.Context) {
	r.backoff = backoff
	for next := toList; ctx.Err() == nil; {
		next = r.listAndWatch(ctx, next)
		r.backOff(ctx)
	}
}

// listAndWatch watches the objects until an error occurs or a new list is needed. If the first step
// is toList, or if an earlier watch cannot be resumed, listAndWatch lists the objects before it
// watches them. The result is the step at which the next call to listAndWatch begins. The caller
// pauses before that call.
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

// The pages method reads a list page by page, stages the objects, and returns the list's version.
// The options make the API server read the list from its storage, not from its cache.
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

type pageFunc func(context.Context, metav1.ListOptions) (metav1.ListMeta, int, error)

func readPage(ctx context.Context, opts metav1.ListOptions, read pageFunc) (metav1.ListMeta, int, error) {
	ctx, stop := context.WithTimeoutCause(ctx, pageTimeout, errSlowPage)
	defer stop()
	page, n, err := read(ctx, opts)
	if err != nil && context.Cause(ctx) == errSlowPage {
		err = errSlowPage
	}
	return page, n, err
}

// Resource.late returns an error if reading a list has taken longer than maxListTime. If reading
// the list has taken longer than slowList but not longer than maxListTime, Resource.late reports
// the slow list to Resource.note.
func (r *Resource) late(began time.Time) error {
	switch took := time.Since(began); {
	case took > maxListTime:
		return errLongList
	case took > slowList:
		r.note(longList, nil)
	}
	return nil
}

// sameHistory reports whether a watch from the last version would receive all changes. After a
// restore from a backup, the server's current version is lower than the last version that Isthmus
// has received. To get the current version, sameHistory lists one object.
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

// The watch method reads and applies events until the watch w ends. If ended is true, the watch
// ended normally, and the next watch may begin without a pause.
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
		if err := r.feed.apply(e); err != nil { // the cluster is over budget, so the resource is listed again
			r.failed(ctx, err)
			return toList, false
		}
		r.version = cmp.Or(e.version, r.version)
	}
}

// afterNoAnswer returns the next step after Isthmus has failed to open a watch or to read the
// current version. If the server responds with 429 (too many requests), the failed step is
// repeated. If the server responds with another 4xx code, or with an error about the resource
// version, the objects are listed again, because the server may no longer know the kind or the
// version.
func afterNoAnswer(err error, again step) step {
	switch {
	case apierrors.IsTooManyRequests(err):
		return again
	case answered(err), outdated(err):
		return toList
	}
	return toResume
}

// afterWatch returns the next step after a watch has ended with err. After a silent watch, the
// objects are listed, because a new watch could be silent too. A list shows whether the server
// still responds, and which changes the watch missed.
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
		r.heardAt(time.Now()) // the connection was alive until a moment ago, as pings showed
	}
	return toWatch, true
}

func (r *Resource) heardAt(at time.Time) {
	if at.After(r.heard) {
		r.heard = at
	}
}

func (r *Resource) admit(ctx context.Context) error { return r.requests.Wait(ctx) }

// Resource.pace waits until the rate limit admits one more event from the cluster. During this
// wait, further events remain buffered in the connection and on the server.
func (r *Resource) pace(ctx context.Context) error {
	if r.group.events == nil {
		return nil
	}
	return r.group.events.Wait(ctx)
}

// Resource.failed handles an error from a list, from an attempt to open a watch, or from an event
// that exceeds the memory cap. An error about a resource version that is too old or not yet known
// counts as a failure only after maxOutdated such errors in a row.
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
	// The URL of the request is not shown, because the URL differs between attempts.
	if u, ok := errors.AsType[*url.Error](err); ok {
		shown = u.Err
	}
	r.group.setFailed(&r.state, shown)
	if r.report != nil {
		r.report(err)
	}
}

func (r *Resource) listed() {
	r.group.setListed(&r.state)
	r.reportReadable()
}

func (r *Resource) reportReadable() {
	if r.report != nil {
		r.report(nil)
	}
}

// markTried lets the Group's first sync continue.
func (r *Resource) markTried() { r.triedOnce.Do(func() { close(r.tried) }) }

// If the server sent Retry-After with an error, throttle delays the next request accordingly. The
// delay is at most maxThrottle after a 429, and at most maxRetryAfter after any other status code.
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

// If listing is permitted but watching is not, unwatched adds a hint to the error that the watch
// request returned.
func (r *Resource) unwatched(err error) error {
	if !apierrors.IsForbidden(err) {
		r.refusals = 0
		return err
	}
	r.refusals++
	return fmt.Errorf("listing is permitted, but watching is not: %w: grant the verb watch on %s", err, r.name)
}

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

// pauseOptional pauses an optional resource that is forbidden or was not found. The resource's
// objects are dropped only if API discovery confirms that the resource does not exist. If API
// discovery finds the resource again, the pause ends early.
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

// The note method records unusual behavior of the API server. If the behavior must be reported, the
// note method calls [Options].Trouble.
func (r *Resource) note(c cause, err error) {
	text := string(c)
	if err != nil {
		text += ": " + r.group.options.Printable(err).Error()
	}
	if r.trouble.add(c, text) && r.group.options.Trouble != nil {
		r.group.options.Trouble(r.name, text)
	}
}

func (r *Resource) refusedText(why error) string {
	return text.Truncate(cmp.Or(r.group.options.Printable(why).Error(), "it cannot be decoded"), maxRefusedText)
}

func (r *Resource) setRefused(all map[string]string) (before map[string]string) {
	r.group.mu.Lock()
	defer r.group.mu.Unlock()
	before, r.unusable = r.unusable, all
	return before
}

// noteRefused records why an object is refused. An empty reason means that the object is no longer
// refused.
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

// outdated reports whether an error means that a resource version is too old or not yet known to
// the server.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// answered reports whether an error is a response with a 4xx code other than 429 (too many
// requests).
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != 429
}

// A value of type rest says why the pause after a failed request must be longer than the backoff.
type rest uint8

const (
	noRest    rest = iota
	forbidden      // optional resource that Isthmus has no permission to list, or that does not support lists
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

func isOver(err error) bool { return errors.Is(err, ErrOverBudget) }
