package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
)

// Problem is how what is kept of an object differs from the API.
type Problem string

// The problems.
const (
	MissingHere  Problem = "missing in the gateway"
	MissingInAPI Problem = "not in the API"
	Differs      Problem = "differs"
)

// Difference is an object of which something else is kept than the API has.
type Difference struct {
	Object  string // namespace/name, fit to be shown
	Problem Problem

	ID      uint64 // of the object, within its kind
	Version uint64 // of what the API has
	Kept    any    // comparable: another one after each change of what is kept
}

// Same reports whether it is about the same object, and neither what the API has nor what
// is kept has changed in between.
func (d Difference) Same(o Difference) bool { return d == o }

// About reports whether it is about the same object.
func (d Difference) About(o Difference) bool { return d.ID == o.ID }

// Looked is what a [Cluster.Look] has found out about the objects of one resource.
type Looked struct {
	Resource    string
	Compared    int // objects
	Differences []Difference
	More        int   // differences that are not in the list
	Err         error // why not all have been compared; fit to be shown
}

// Bounds of one look, since a cluster decides what it answers.
const (
	maxDifferences = 20
	maxLookPages   = 100
	maxLookObjects = 50_000
	maxSingles     = 10  // objects that are requested one by one
	maxShown       = 200 // bytes of an object's name

	lookPage    = 500 // objects
	lookTimeout = 30 * time.Second
)

// look compares the objects of one kind behind a Service with what is kept of them.
type look[O runtime.Object, T comparable] struct {
	*looking
	Looked
	kind follow.Kind[O, T]
	list func(context.Context, metav1.ListOptions) (runtime.Object, error)
	// kept returns what is kept of an object, and same compares that. state.mu is held.
	kept func(key string) (T, bool)
	same func(a, b T) bool
	// listed, if set, gets each object that the API has.
	listed func(O, T)

	only string              // the key of what is requested; empty: whatever is selected
	seen map[uint64]struct{} // ids of the objects that the API has
}

// looking is one [Cluster.Look].
type looking struct {
	cluster   *Cluster
	namespace string
	admit     func(context.Context) error // waits until a request may be sent
}

// idSeed makes ids of objects and versions. A cluster can't choose names that have the same.
var idSeed = maphash.MakeSeed()

func newLook[O runtime.Object, T comparable](from *looking, k follow.Kind[O, T]) *look[O, T] {
	return &look[O, T]{looking: from, Looked: Looked{Resource: k.Name}, kind: k, seen: make(map[uint64]struct{})}
}

// all compares the objects that the options select. It reports whether that worked out.
func (l *look[O, T]) all(ctx context.Context, opts metav1.ListOptions) bool {
	opts.Limit = lookPage
	for range maxLookPages {
		var err error
		if opts.Continue, err = l.page(ctx, opts); err != nil {
			l.fail(err)
			return false
		}
		if opts.Continue == "" {
			return true
		}
	}
	l.fail(fmt.Errorf("the API server sent %d pages and announced more", maxLookPages))
	return false
}

// page requests one page, which is the newest state of the API's storage: no version is
// asked for. It is compared before the next one is requested.
func (l *look[O, T]) page(ctx context.Context, opts metav1.ListOptions) (next string, err error) {
	if err := l.admit(ctx); err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeout(ctx, lookTimeout)
	defer stop()
	ctx, request := l.cluster.cfg.Budget.Begin(ctx, "an audit of "+l.kind.Name, nil)
	defer request.End()
	list, err := l.list(ctx, opts)
	if err != nil {
		return "", err
	}
	from, err := meta.ListAccessor(list)
	if err != nil {
		return "", fmt.Errorf("the API server sent an object of unexpected type %T", list)
	}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		object, ok := o.(O)
		if !ok {
			return fmt.Errorf("the API server sent an object of unexpected type %T", o)
		}
		return l.compare(object)
	})
	return from.GetContinue(), err
}

// compare compares one object of the API with what is kept of it.
func (l *look[O, T]) compare(o O) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return nil
	}
	key := follow.JoinKey(m.GetNamespace(), m.GetName())
	if m.GetNamespace() != l.namespace || l.only != "" && key != l.only {
		return nil // from a server that ignores selectors
	}
	id := idOf(key)
	if _, again := l.seen[id]; again {
		return nil
	}
	if len(l.seen) >= maxLookObjects {
		return fmt.Errorf("the API server sent more than %d objects", maxLookObjects)
	}
	value, keep := l.kind.Compact(o)
	if keep && l.listed != nil {
		l.listed(o, value)
	}
	l.seen[id] = struct{}{}
	l.Compared++
	d := Difference{ID: id, Version: idOf(string(m.GetUID()) + " " + m.GetResourceVersion())}
	mu := &l.cluster.state.mu
	mu.RLock()
	kept, has := l.kept(key)
	equal := keep == has && (!has || l.same(value, kept))
	mu.RUnlock()
	switch {
	case equal:
		return nil
	case has:
		d.Problem, d.Kept = Differs, kept
	default:
		d.Problem = MissingHere
	}
	l.add(key, d)
	return nil
}

// absent looks for objects of which something is kept and that were not listed: they may
// be gone, or not be selected any more. It requests a few of them, one by one.
func (l *look[O, T]) absent(ctx context.Context, keys []string) {
	asked := 0
	for _, key := range keys {
		namespace, name := follow.SplitKey(key)
		if _, listed := l.seen[idOf(key)]; listed || namespace != l.namespace || asked == maxSingles {
			continue
		}
		asked++
		if !l.one(ctx, name) {
			return
		}
	}
}

// one compares one object. It reports whether that worked out.
func (l *look[O, T]) one(ctx context.Context, name string) bool {
	l.only = follow.JoinKey(l.namespace, name)
	defer func() { l.only = "" }()
	if _, err := l.page(ctx, metav1.ListOptions{Limit: lookPage, FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}); err != nil {
		l.fail(err)
		return false
	}
	id := idOf(l.only)
	if _, found := l.seen[id]; found {
		return true
	}
	l.Compared++
	l.cluster.state.mu.RLock()
	kept, has := l.kept(l.only)
	l.cluster.state.mu.RUnlock()
	if has {
		l.add(l.only, Difference{Problem: MissingInAPI, ID: id, Kept: kept})
	}
	return true
}

func (l *look[O, T]) add(key string, d Difference) {
	if len(l.Differences) >= maxDifferences {
		l.More++
		return
	}
	if len(key) > maxShown {
		key = key[:maxShown] + "…"
	}
	d.Object = kube.Printable(errors.New(strings.ToValidUTF8(key, "\uFFFD"))).Error()
	l.Differences = append(l.Differences, d)
}

func (l *look[O, T]) fail(err error) {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	l.Err = l.cluster.cfg.Client.Printable(err)
}

func idOf(text string) uint64 { return maphash.String(idSeed, text) }
