package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/kube"
	"isthmus/cmd/isthmus/internal/check"
	"isthmus/internal/adminapi"
)

// reviewsAtOnce is how many questions about rights are under way to one API server: one after
// the other would take seconds to a server that is far away.
const reviewsAtOnce = 8

// askRights asks the API server which rights it does not grant.
func (x *inspection) askRights(ctx context.Context, api *kube.Client) {
	if x.pre && x.account != "" {
		_, err := api.ServiceAccounts(x.namespace).Get(ctx, x.account, metav1.GetOptions{})
		if x.noAccount = apierrors.IsNotFound(err); x.noAccount {
			return
		}
	}
	var mu sync.Mutex
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(reviewsAtOnce)
	for _, r := range x.rights {
		for _, verb := range r.Verbs {
			asking.Go(func() error {
				allowed, err := x.mayDo(ctx, api, r, verb)
				if err != nil {
					return fmt.Errorf("%s %v: %w", verb, r, err)
				}
				if !allowed {
					mu.Lock()
					defer mu.Unlock()
					x.found.Refused = append(x.found.Refused, adminapi.RefusedRequest{Verb: verb, Resource: r.String(), Status: http.StatusForbidden})
				}
				return nil
			})
		}
	}
	if err := asking.Wait(); err != nil {
		x.rightsErr = api.Printable(err)
		return
	}
	kube.SortRefused(x.found.Refused)
}

// mayDo asks for one right: of the account by a review of its rights, else of the credentials in use.
func (x *inspection) mayDo(ctx context.Context, api *kube.Client, r check.Permission, verb string) (bool, error) {
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	asked := &authorizationv1.ResourceAttributes{Group: r.Group, Resource: resource, Subresource: subresource, Name: r.Name, Verb: verb}
	if r.InNamespace || r.Name != "" {
		asked.Namespace = x.namespace
	}
	if x.account == "" {
		answer, err := api.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: asked},
		}, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	}
	accounts := "system:serviceaccounts"
	answer, err := api.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: asked, User: strings.Join([]string{"system:serviceaccount", x.namespace, x.account}, ":"),
		Groups: []string{accounts, accounts + ":" + x.namespace, "system:authenticated"},
	}}, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed, err
}
