package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/faultproxy"
)

// credentialFaults are those of what a link's user may do. API servers ask when a watch begins, and do not end one that
// goes on: so connections are cut too.
func credentialFaults() []fault {
	forbid := func(right, less string, may authorizationv1.ResourceAttributes) func(context.Context, *stage) error {
		return func(ctx context.Context, s *stage) error {
			if !strings.Contains(rights, right) {
				return fmt.Errorf("nothing grants %s", right)
			}
			if err := s.far.site.grant(ctx, s.name, strings.Replace(rights, right, less, 1)); err != nil {
				return err
			}
			if err := s.forbidden(ctx, may); err != nil {
				return err
			}
			return s.cut(faultproxy.Mode{})
		}
	}
	allow := func(ctx context.Context, s *stage) error { return s.far.site.grant(ctx, s.name, rights) }
	return []fault{{
		name: "token-expired", state: "stale", reason: "nauthorized",
		inject: expire,
		heal:   func(ctx context.Context, s *stage) error { return s.relink(ctx) },
	}, {
		name: "all-forbidden", state: "stale", reason: "forbidden",
		inject: func(ctx context.Context, s *stage) error {
			bindings := s.far.site.client().RbacV1().ClusterRoleBindings()
			if err := bindings.Delete(ctx, s.name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			if err := s.forbidden(ctx, authorizationv1.ResourceAttributes{Verb: "list", Resource: "services"}); err != nil {
				return err
			}
			return s.cut(faultproxy.Mode{})
		},
		heal: allow,
	}, {
		name: "pods-forbidden", state: "stale", reason: "pods", sees: true,
		inject: forbid("pods, ", "", authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}), heal: allow,
	}, {
		name: "servers-forbidden", proves: "N-06", state: "ready", reason: "servers.policy.linkerd.io is forbidden", sees: true,
		inject: forbid("[servers]", "[none]", authorizationv1.ResourceAttributes{Verb: "list", Group: "policy.linkerd.io", Resource: "servers"}), heal: allow,
	}, {
		name: "watching-forbidden", state: "stale", reason: "cannot watch",
		inject: forbid("[get, list, watch]", "[get, list]", authorizationv1.ResourceAttributes{Verb: "watch", Resource: "services"}), heal: allow,
	}}
}

// forbidden waits until the link's user may not do something, anywhere in the cluster.
func (s *stage) forbidden(ctx context.Context, what authorizationv1.ResourceAttributes) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + s.name + ":" + accountName,
		Groups:             []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &what,
	}}
	reviews := s.far.site.client().AuthorizationV1().SubjectAccessReviews()
	return within(ctx, recovery, func() error {
		answer, err := reviews.Create(ctx, review, metav1.CreateOptions{})
		if err == nil && answer.Status.Allowed {
			err = fmt.Errorf("%+v is still allowed", what)
		}
		return err
	})
}

// expire links the cluster by a token that is good for some seconds, and waits until it is refused.
func expire(ctx context.Context, s *stage) error {
	token, err := s.far.site.shortToken(ctx, s.name, 6*time.Second)
	if err != nil {
		return err
	}
	before := s.proxy.Accepted()
	if err := s.link(ctx, s.name, s.credentials(token)); err != nil {
		return err
	}
	if err := within(ctx, recovery, func() error {
		if s.proxy.Accepted() == before || s.explains(ctx, "new credentials") == nil {
			return errors.New("the short-lived token is not in use yet")
		}
		return nil
	}); err != nil {
		return err
	}
	if err := within(ctx, time.Minute, func() error { return s.far.site.client().Refuses(ctx, token) }); err != nil {
		return err
	}
	return s.cut(faultproxy.Mode{})
}
