package commands

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/kube"
	"isthmus/cmd/isthmus/internal/check"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// These constants limit the duration and the concurrency of preflight.
const (
	allClusters    = 20 * time.Second
	clustersAtOnce = 48              // 250 unreachable clusters take 18 s
	clusterLimit   = 8 * time.Second // for all requests to one cluster
	firstAnswer    = 3 * time.Second // for the first response from a cluster
)

type preflightOptions struct {
	config    *rest.Config  // how the user connects to the local cluster
	api       *kube.Clients // clients of the same cluster, for lists of Secrets
	namespace string        // namespace in which a replica will run
	account   string        // name of the replica's ServiceAccount
	pre       bool          // before an installation: the account may be missing
	exports   bool          // the replica will run with --exports=on
}

// preflight collects the information that a replica would provide, but connects to the clusters
// from this machine. For the local cluster, preflight uses the user's credentials. For linked
// clusters, preflight uses the credentials in the link Secrets. Even if API servers do not respond,
// preflight returns within 20 s. The function does not change any objects.
func preflight(ctx context.Context, p preflightOptions) check.Input {
	ctx, cancel := context.WithTimeout(ctx, allClusters)
	defer cancel()
	reading, stop := context.WithTimeout(ctx, clusterLimit)
	secrets, err := clusterstore.ListSecrets(reading, p.api, p.namespace, clusterstore.AllLinks)
	stop()
	seen := check.Input{FromHere: true, Exports: p.exports}
	seen.Secrets = adminapi.LinkSecrets{Namespace: p.namespace, Listed: err == nil}
	if err != nil {
		seen.Secrets.Reason = kube.Printable(err).Error()
	}
	seen.Local.API = new(adminapi.APIServer)
	own := &inspection{
		name:        federation.Local,
		rest:        p.config,
		namespace:   p.namespace,
		permissions: check.LocalPermissions(),
		account:     p.account,
		pre:         p.pre,
		found:       seen.Local.API,
	}
	if p.exports {
		own.permissions = append(own.permissions, check.ExportPermissions()...)
	}
	inspections := []*inspection{own}
	for _, a := range clusterstore.ReadAccesses(secrets) {
		seen.Clusters.Clusters = append(seen.Clusters.Clusters, a.Cluster)
		if a.REST != nil {
			inspections = append(inspections, &inspection{
				name:        federation.ClusterName(a.Cluster.Cluster),
				rest:        a.REST,
				namespace:   p.namespace,
				permissions: check.LinkPermissions(),
				found:       a.API,
			})
		}
	}
	var inspecting errgroup.Group
	inspecting.SetLimit(clustersAtOnce)
	for _, x := range inspections {
		inspecting.Go(func() error {
			x.run(ctx)
			return nil // errors are stored in the inspection
		})
	}
	_ = inspecting.Wait()

	seen.NotAsked = make(map[string]string)
	for _, x := range inspections {
		if x.rightsErr != nil {
			seen.NotAsked[x.name.String()] = x.rightsErr.Error()
		}
	}
	if own.noAccount {
		seen.NoAccount = p.namespace + "/" + p.account
	}
	return seen
}

type inspection struct {
	// inputs
	name        federation.ClusterName
	rest        *rest.Config
	namespace   string // of the control plane
	permissions []check.Permission
	account     string // ServiceAccount whose permissions are checked; empty to check the credentials in use
	pre         bool   // the ServiceAccount need not exist yet

	found     *adminapi.APIServer // initially contains only the expiry
	rightsErr error               // why permissions could not be checked
	noAccount bool
}

func (x *inspection) run(ctx context.Context) {
	if ctx.Err() != nil {
		return // no time left
	}
	ctx, cancel := context.WithTimeout(ctx, clusterLimit)
	defer cancel()
	api, err := kube.New(x.name, x.rest, nil)
	if err == nil {
		err = api.AddTyped()
	}
	if err != nil {
		x.found.Error = "cannot create a client from the credentials of the cluster: " + err.Error()
		return
	}
	defer api.Close()
	expiry := x.found.Expiry
	defer func() { x.found.Expiry = expiry }()
	first, stop := context.WithTimeout(ctx, firstAnswer)
	defer stop()
	_, err = kube.Version(first, api.Sources)
	*x.found = api.Server()
	switch {
	case err == nil:
		known, _ := kube.Read(ctx, api, x.namespace)
		*x.found = api.Server()
		known.AddTo(x.found)
		x.found.Refused = unauthorized(x.found.Refused)
		x.askPermissions(ctx, api)
		x.askKinds(ctx, api)
	case !x.found.Answered.IsZero():
		x.found.VersionError = api.Printable(err).Error()
	case first.Err() != nil:
		x.found.Error = fmt.Sprintf("no answer within %v", firstAnswer)
	}
}

// unauthorized returns the requests that were rejected with status 401. Other rejected requests are
// omitted, because askPermissions and askKinds check permissions and kinds separately.
func unauthorized(list []adminapi.RefusedRequest) (kept []adminapi.RefusedRequest) {
	for _, r := range list {
		if r.Status == http.StatusUnauthorized {
			kept = append(kept, r)
		}
	}
	return kept
}

// askKinds finds kinds of custom resources that the local API server does not serve.
func (x *inspection) askKinds(ctx context.Context, api *kube.Client) {
	if x.name != federation.Local {
		return
	}
	kinds := []schema.GroupVersionResource{
		decode.ProfileVersion.WithResource("serviceprofiles"),
		decode.PolicyVersion.WithResource("servers"),
		decode.WorkloadVersion.WithResource("externalworkloads"),
	}
	for _, k := range kinds {
		refused := adminapi.RefusedRequest{
			Verb:     "get",
			Resource: k.GroupResource().String(),
			Status:   http.StatusNotFound,
		}
		served, err := api.Sources.Serves(ctx, k.Resource, k.GroupVersion())
		switch {
		case err != nil:
			refused.Status = http.StatusServiceUnavailable // unknown
		case served:
			continue
		}
		x.found.Refused = append(x.found.Refused, refused)
	}
}

// reviewsAtOnce is the maximum number of concurrent access reviews per API server. If the reviews
// were requested one after the other, they would take several seconds with a distant API server.
const reviewsAtOnce = 8

// askPermissions queries the API server to find missing permissions.
func (x *inspection) askPermissions(ctx context.Context, api *kube.Client) {
	if x.pre && x.account != "" {
		_, err := api.ServiceAccounts(x.namespace).Get(ctx, x.account, metav1.GetOptions{})
		x.noAccount = apierrors.IsNotFound(err)
		if x.noAccount {
			return
		}
	}
	var mu sync.Mutex
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(reviewsAtOnce)
	for _, r := range x.permissions {
		for _, verb := range r.Verbs {
			asking.Go(func() error {
				allowed, err := x.mayDo(ctx, api, r, verb)
				if err != nil {
					return fmt.Errorf("%s %v: %w", verb, r, err)
				}
				if !allowed {
					mu.Lock()
					defer mu.Unlock()
					refused := adminapi.RefusedRequest{Verb: verb, Resource: r.String(), Status: http.StatusForbidden}
					x.found.Refused = append(x.found.Refused, refused)
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

func (x *inspection) mayDo(ctx context.Context, api *kube.Client, r check.Permission, verb string) (bool, error) {
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	asked := &authorizationv1.ResourceAttributes{
		Group:       r.Group,
		Resource:    resource,
		Subresource: subresource,
		Name:        r.Name,
		Verb:        verb,
	}
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
	answer, err := api.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: asked,
			User:               strings.Join([]string{"system:serviceaccount", x.namespace, x.account}, ":"),
			Groups:             []string{accounts, accounts + ":" + x.namespace, "system:authenticated"},
		},
	}, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed, err
}
