package clusterstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/follow"
)

// snapshot is what link Secrets there are. It is immutable.
type snapshot struct {
	listed  bool           // false: not known yet
	secrets []*credentials // oldest first
}

// followSecrets publishes what link Secrets there are, until ctx ends. They are
// selected by type only, so that one without label can be reported. While they
// can't be read, what was known of them stays.
func (s *Store) followSecrets(ctx context.Context) {
	known := make(secrets)
	follow.NewGroup(follow.Options{NoWatchList: s.client.NoWatchList}, follow.New(follow.Kind[*corev1.Secret, *credentials]{
		Name: "secrets", Needed: true,
		Calls:  follow.CallsOf(s.client.Core.Secrets(s.opts.Namespace)),
		Fields: "type=" + secretType,
		Compact: func(o *corev1.Secret) (c *credentials, ok bool) {
			if o.Type != secretType {
				return nil, false
			}
			return readSecret(o, time.Now()), true
		},
		Into:    known,
		Applied: func() { s.secrets.Set(known.snapshot()) },
		Report:  s.reportReading,
	})).Run(ctx, nil)
}

// reportReading notes whether link Secrets can be read, and logs when that begins
// and ceases to fail.
func (s *Store) reportReading(err error) {
	log := s.opts.Log.With(zap.String("namespace", s.opts.Namespace))
	if err == nil {
		if s.unread.Swap(nil) != nil {
			log.Info("link Secrets can be read again")
		}
		return
	}
	err = s.client.Printable(err)
	if s.unread.CompareAndSwap(nil, &err) {
		log.Error("link Secrets can't be read; links stay as they are", zap.Error(err))
	}
}

// secrets are the versions of link Secrets that were read last, by key. It is a
// [follow.Store]; each change is published as a whole.
type secrets map[string]*credentials

// Put takes a Secret, unless it is the version that is there already.
func (s secrets) Put(key string, c *credentials) follow.Effect {
	old := s[key]
	switch {
	case old == nil:
		s[key] = c
		return follow.Added
	case old.version == c.version && c.version != "":
		return follow.Same
	}
	s[key] = c
	return follow.Replaced
}

func (s secrets) Drop(key string) bool {
	_, existed := s[key]
	delete(s, key)
	return existed
}

func (s secrets) PrepareDrop(string) {}

func (s secrets) Keys(yield func(string) bool) { maps.Keys(s)(yield) }

func (s secrets) snapshot() snapshot {
	list := slices.Collect(maps.Values(s))
	sortCredentials(list)
	return snapshot{listed: true, secrets: list}
}
