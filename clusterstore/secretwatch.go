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

// snapshot has all link Secrets at one time. It is immutable.
type snapshot struct {
	listed  bool           // false: they have not been listed yet
	secrets []*credentials // oldest first
}

// watchSecrets keeps s.secrets up to date until ctx ends. Secrets are selected by
// type only, so that one without the label can be reported. While they can't be
// read, the last snapshot stays.
func (s *Store) watchSecrets(ctx context.Context) {
	known := make(follow.Map[*credentials])
	options := follow.Options{Printable: s.client.Printable, Trouble: func(_, text string) {
		s.opts.Log.Info("link Secrets have to be requested again and again", zap.String("reason", text))
	}}
	follow.NewGroup(options, follow.New(follow.Kind[*corev1.Secret, *credentials]{
		Name: "secrets", Needed: true,
		Source: s.client.Sources.Secrets(s.opts.Namespace),
		Fields: "type=" + SecretType,
		Compact: func(o *corev1.Secret) (c *credentials, ok bool) {
			if o.Type != SecretType {
				return nil, false
			}
			return readSecret(o, time.Now(), s.opts.defaultSettings()), true
		},
		Into:    known,
		Same:    (*credentials).same,
		Applied: func() { s.secrets.Set(snapshotOf(known)) },
		Report:  s.reportReadable,
	})).Run(ctx, nil)
}

// reportReadable records whether link Secrets can be read (err is nil), and logs when
// that changes.
func (s *Store) reportReadable(err error) {
	log := s.opts.Log.With(zap.String("namespace", s.opts.Namespace))
	if err == nil {
		if s.readErr.Swap(nil) != nil {
			log.Info("link Secrets can be read again")
		}
		return
	}
	err = s.client.Printable(err)
	if s.readErr.CompareAndSwap(nil, &err) {
		log.Error("link Secrets can't be read; links stay as they are", zap.Error(err))
	}
}

// same reports whether it is the same version of a Secret.
func (c *credentials) same(o *credentials) bool { return c.version == o.version && c.version != "" }

func snapshotOf(all follow.Map[*credentials]) snapshot {
	list := slices.Collect(maps.Values(all))
	sortCredentials(list)
	return snapshot{listed: true, secrets: list}
}
