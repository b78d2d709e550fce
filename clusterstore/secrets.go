package clusterstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"isthmus/clusterstore/kube"
)

// snapshot is what link Secrets there are. It is immutable.
type snapshot struct {
	listed  bool           // false: not known yet
	secrets []*credentials // oldest first
}

// watchSecrets publishes what link Secrets there are, until ctx ends. They are
// selected by type only, so that one without label can be reported. While they
// can't be read, what was known of them stays. It drives the reflector itself, as
// resources do.
func (s *Store) watchSecrets(ctx context.Context) {
	quiet := logr.Discard()
	ctx = klog.NewContext(ctx, quiet)
	lw := &secretLister{store: s, log: s.opts.Log.With(zap.String("namespace", s.opts.Namespace))}
	reflector := cache.NewReflectorWithOptions(
		cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: lw.list, WatchFuncWithContext: lw.watch}, lw),
		&corev1.Secret{},
		&secretStore{publish: s.secrets.Set, read: make(map[string]*credentials)},
		cache.ReflectorOptions{Name: "links", Logger: &quiet, Backoff: &backoff},
	)
	_ = backoff.DelayWithReset(clock.RealClock{}, backoffReset).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if err := reflector.ListAndWatchWithContext(ctx); err != nil {
			lw.report(ctx, err)
		}
		return false, nil
	}) // which returns when ctx ends, and says so
}

// secretLister lists and watches link Secrets, and logs when that begins and
// ceases to fail. A reflector calls it from one goroutine.
type secretLister struct {
	store   *Store
	log     *zap.Logger
	failing bool
}

// IsWatchListSemanticsUnSupported is what reflectors ask, by this name.
func (l *secretLister) IsWatchListSemanticsUnSupported() bool { return l.store.client.NoWatchList }

func (l *secretLister) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.FieldSelector = "type=" + secretType
	list, err := l.store.client.Core.Secrets(l.store.opts.Namespace).List(ctx, o)
	l.report(ctx, err)
	return list, err
}

func (l *secretLister) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.FieldSelector = "type=" + secretType
	w, err := l.store.client.Core.Secrets(l.store.opts.Namespace).Watch(ctx, o)
	switch {
	case err == nil:
		l.report(ctx, nil)
	case o.SendInitialEvents == nil:
		l.report(ctx, err)
		return nil, anew(err)
	case !outdated(err) && !answered(err): // as resources do it
		l.report(ctx, err)
		return nil, hidden{err}
	}
	return w, err // if it was an answer, the reflector lists next
}

func (l *secretLister) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil || err != nil && outdated(err):
		// The end, or what a reflector gets over by itself.
	case err == nil && l.failing:
		l.failing = false
		l.store.unread.Store(nil)
		l.log.Info("link Secrets can be read again")
	case err != nil && !l.failing:
		l.failing = true
		err = kube.Printable(err)
		l.store.unread.Store(&err)
		l.log.Error("link Secrets can't be read; links stay as they are", zap.Error(err))
	}
}

// secretStore is what the reflector fills. It keeps what was read from the
// Secrets, not the Secrets, and publishes each change as a whole.
type secretStore struct {
	publish func(snapshot)
	read    map[string]*credentials // by Secret's name
}

func (s *secretStore) Add(obj any) error {
	s.put(s.read, obj)
	s.show()
	return nil
}

func (s *secretStore) Update(obj any) error { return s.Add(obj) }

func (s *secretStore) Delete(obj any) error {
	if secret, ok := obj.(*corev1.Secret); ok {
		delete(s.read, secret.Name)
		s.show()
	}
	return nil
}

func (s *secretStore) Replace(list []any, _ string) error {
	read := make(map[string]*credentials, len(list))
	for _, obj := range list {
		s.put(read, obj)
	}
	s.read = read
	s.show()
	return nil
}

func (s *secretStore) Resync() error { return nil }

// put reads a Secret, unless it is the version that has been read already.
func (s *secretStore) put(into map[string]*credentials, obj any) {
	secret, ok := obj.(*corev1.Secret)
	if !ok || secret.Type != secretType {
		return
	}
	c := s.read[secret.Name]
	if c == nil || c.version != secret.ResourceVersion || c.version == "" {
		c = readSecret(secret, time.Now())
	}
	into[secret.Name] = c
}

func (s *secretStore) show() {
	list := slices.Collect(maps.Values(s.read))
	sortCredentials(list)
	s.publish(snapshot{listed: true, secrets: list})
}
