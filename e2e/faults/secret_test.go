package faults

import (
	"context"
	"fmt"
	"strings"

	"isthmus/e2e/faultproxy"
	"isthmus/e2e/object"
)

// secretFaults are those of the link Secrets.
func secretFaults() []fault {
	mend := func(ctx context.Context, s *stage) error { return s.relink(ctx) }
	return []fault{{
		name: "secret-made-bad", state: "ready", reason: "the Secret as it is now can't be used", sees: true,
		inject: func(ctx context.Context, s *stage) error {
			return s.writeLink(ctx, object.Link(s.name, []byte("{this: is, no: kubeconfig")))
		},
		heal: mend,
	}, {
		// Decoded, each of its 8,000 aliases would be a copy of 30 kB.
		name: "secret-made-an-alias-bomb", state: "ready", reason: "kubeconfig has a YAML anchor", sees: true,
		inject: func(ctx context.Context, s *stage) error {
			bomb := "extensions: [&a " + strings.Repeat("x", 30_000) + strings.Repeat(", *a", 8_000) + "]\n"
			return s.writeLink(ctx, object.Link(s.name, []byte(bomb)))
		},
		heal: mend,
	}, {
		name: "rotated-to-a-token-that-is-refused", state: "ready", reason: "new credentials do not work", sees: true,
		inject: func(ctx context.Context, s *stage) error {
			return s.link(ctx, s.name, s.credentials("nobody-issued-this"))
		},
		heal: mend,
	}, {
		name: "secret-removed", state: "absent", leaves: true,
		inject: func(ctx context.Context, s *stage) error { return s.unlink(ctx, s.name) },
		heal:   mend,
	}, {
		name: "secret-removed-and-made-again-and-again", proves: "N-07", leaves: true,
		inject: func(ctx context.Context, s *stage) error {
			for range either(10, 50) {
				if err := s.unlink(ctx, s.name); err != nil {
					return err
				}
				if err := s.relink(ctx); err != nil {
					return err
				}
			}
			return nil
		},
		heal: nothing,
	}, {
		name: "rotated-again-and-again", sees: true,
		inject: func(ctx context.Context, s *stage) error {
			for range either(10, 50) {
				if err := s.relink(ctx); err != nil {
					return err
				}
			}
			return nil
		},
		heal: nothing,
	}, {
		name: "rotated-while-the-cluster-hangs", state: "stale", reason: "new credentials do not work",
		inject: func(ctx context.Context, s *stage) error {
			if err := s.cut(faultproxy.Silent); err != nil {
				return err
			}
			return s.relink(ctx)
		},
		heal: func(_ context.Context, s *stage) error { return s.proxy.Set(faultproxy.Mode{}) },
	}, {
		name: "two-secrets", state: "ready", sees: true,
		inject: twoSecrets,
		heal:   func(ctx context.Context, s *stage) error { return s.relink(ctx) },
	}}
}

// twoSecrets makes a second Secret for the cluster's name, and deletes the first: the second takes over.
func twoSecrets(ctx context.Context, s *stage) error {
	token, err := s.far.site.client().Token(ctx, s.name, accountName)
	if err != nil {
		return err
	}
	second := "second-for-" + s.name
	if err := s.linkBy(ctx, second, s.name, s.credentials(token)); err != nil {
		return err
	}
	s.t.Cleanup(func() { must(s.t, s.unlinkBy(context.WithoutCancel(ctx), second)) })
	if err := within(ctx, recovery, func() error { return s.explains(ctx, "duplicate: Secret cluster-credentials-"+s.name) }); err != nil {
		return err
	}
	before := s.proxy.Accepted()
	if err := s.unlink(ctx, s.name); err != nil {
		return err
	}
	return within(ctx, recovery, func() error {
		all, err := s.statuses(ctx, s.name)
		if err == nil && (len(all) != 1 || all[0].Secret != second || s.proxy.Accepted() == before) {
			err = fmt.Errorf("the second Secret has not taken over: %+v", all)
		}
		return err
	})
}
