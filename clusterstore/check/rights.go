package check

import (
	"context"
	"fmt"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/typed"
	"isthmus/federation"
)

// Right is what a cluster is asked to permit, as a rule of a manifest has it.
type Right struct {
	Group, Resource string
	Verbs           []string
	Name            string // of the only object; empty: of any
	InNamespace     bool   // in the control plane's namespace only, as a Role permits it
	Level           Level  // of a verb that is missing; Unchecked: the right is optional
	Lost            string // what does not work without it
}

var read = []string{"get", "list", "watch"}

// LocalRights are those that the gateway has in its own cluster: manifests/install/rbac.yaml.
func LocalRights() []Right {
	return []Right{
		{"", "pods", read, "", false, Failure, "the gateway does not get ready"},
		{"", "services", read, "", false, Failure, "the gateway does not get ready"},
		{"", "endpoints", read, "", false, Warning, "it can't be run with --enable-endpoint-slices=false"},
		{"", "nodes", read, "", false, Warning, "it does not know zones and the region"},
		{"discovery.k8s.io", "endpointslices", read, "", false, Failure, "the gateway does not get ready"},
		{"discovery.k8s.io", "endpointslices", []string{"create", "update", "patch", "delete"}, "", false, Warning, "no EndpointSlices are written for ExternalWorkloads"},
		{"apps", "replicasets", read, "", false, Warning, "labels do not name Deployments"},
		{"batch", "jobs", read, "", false, Warning, "labels do not name CronJobs"},
		{"linkerd.io", "serviceprofiles", read, "", false, Warning, "ServiceProfiles have no effect"},
		{"policy.linkerd.io", "servers", read, "", false, Warning, "Servers make no port opaque"},
		{"workload.linkerd.io", "externalworkloads", read, "", false, Warning, "ExternalWorkloads are not served"},
		{"networking.k8s.io", "servicecidrs", []string{"list"}, "", false, Unchecked, "gateways that linked clusters name at addresses for its Services may be probed"},
		{"", "secrets", read, "", true, Failure, "no cluster is linked"},
		{"coordination.k8s.io", "leases", []string{"create", "get", "update", "patch"}, "", true, Warning, "no EndpointSlices are written for ExternalWorkloads"},
		{"", "configmaps", []string{"get"}, anchorsConfigMap, true, Unchecked, "trust anchors can't be compared"},
	}
}

// LinkRights are those of a link's credentials in its cluster: manifests/link/remote-access.yaml.
func LinkRights() []Right {
	return []Right{
		{"", "pods", read, "", false, Failure, "the cluster does not join"},
		{"", "services", read, "", false, Failure, "the cluster does not join"},
		{"", "endpoints", read, "", false, Warning, "a gateway with --enable-endpoint-slices=false does not get its endpoints"},
		{"discovery.k8s.io", "endpointslices", read, "", false, Failure, "the cluster does not join"},
		{"apps", "replicasets", read, "", false, Warning, "labels do not name its Deployments"},
		{"batch", "jobs", read, "", false, Warning, "labels do not name its CronJobs"},
		{"policy.linkerd.io", "servers", read, "", false, Warning, "its Servers make no port opaque"},
		{"workload.linkerd.io", "externalworkloads", read, "", false, Unchecked, "its ExternalWorkloads are not served"},
		{"", "nodes", read, "", false, Unchecked, "its region and its Pods' networks are not known"},
		{"", "configmaps", []string{"get"}, anchorsConfigMap, false, Unchecked, "its trust anchors can't be compared"},
	}
}

// String names the right as kubectl auth can-i takes it, without the verb.
func (r Right) String() string {
	s := r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Name != "" {
		s += "/" + r.Name
	}
	return s
}

// checkRights reports what the credentials do not permit, with the worst of it as the level.
func (l *look) checkRights(ctx context.Context) {
	if len(l.rights) == 0 {
		return
	}
	if l.pre && l.noAccount(ctx) {
		l.add(sectionAPI, Rights, Unchecked, "there is no ServiceAccount "+l.account+" yet", "the installation makes it and grants what it needs; --service-account names another")
		return
	}
	hint := "kubectl apply -f " + l.manifest
	if l.cluster != federation.Local {
		hint = "in that cluster: " + hint
	}
	list, err := missingRights(ctx, l.asker(), l.namespace, l.rights)
	if err != nil {
		l.unchecked(sectionAPI, Rights, err, hint)
		return
	}
	if len(list) == 0 {
		l.add(sectionAPI, Rights, OK, "all rights are granted", "")
		return
	}
	worst := OK
	var texts []string
	for _, m := range list {
		if rank(m.Level) > rank(worst) {
			worst = m.Level
		}
	}
	for _, m := range list {
		if m.Level == worst {
			texts = append(texts, fmt.Sprintf("%v (%s)", m, m.Lost))
		}
	}
	text := "not permitted: " + strings.Join(texts, "; ")
	if worst == Unchecked { // what is optional is not wrong
		worst, text = OK, "all needed rights are granted; optional and not granted: "+strings.Join(texts, "; ")
		hint = ""
	}
	l.add(sectionAPI, Rights, worst, text, hint)
}

// noAccount reports whether the API server says that the account is not there.
func (l *look) noAccount(ctx context.Context) bool {
	namespace, name, _ := strings.Cut(l.account, "/")
	_, err := l.client.ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// asker returns how rights are asked for.
func (l *look) asker() asker {
	if l.account != "" {
		return askFor(l.client.Clients, l.account)
	}
	return askOwn(l.client.Clients)
}

// missing is a right of which some verbs are not permitted.
type missing struct {
	Right
	verbs []string
}

func (m missing) String() string { return strings.Join(m.verbs, ", ") + " " + m.Right.String() }

// asker asks an API server whether it permits something.
type asker func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)

// askOwn is about the client's own rights.
func askOwn(client *typed.Clients) asker {
	return func(ctx context.Context, asked *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: asked}}
		answer, err := client.SelfSubjectAccessReviews.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return answer.Status.Allowed, nil
	}
}

// askFor is about the rights of a ServiceAccount, NAMESPACE/NAME.
func askFor(client *typed.Clients, account string) asker {
	namespace, name, _ := strings.Cut(account, "/")
	return func(ctx context.Context, asked *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: asked, User: "system:serviceaccount:" + namespace + ":" + name,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		}}
		answer, err := client.SubjectAccessReviews.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return answer.Status.Allowed, nil
	}
}

// askedAtOnce is how many questions about rights are under way to one API server: one after
// the other would take seconds to a server that is far away.
const askedAtOnce = 8

// missingRights asks an API server what it permits, and returns what it does not.
func missingRights(ctx context.Context, ask asker, namespace string, rights []Right) (list []missing, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var asking sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	refused := make([][]bool, len(rights))
	for i, r := range rights {
		refused[i] = make([]bool, len(r.Verbs))
		for j, verb := range r.Verbs {
			slots <- struct{}{}
			asking.Go(func() {
				defer func() { <-slots }()
				allowed, err := askOne(ctx, ask, namespace, r, verb)
				if err != nil {
					cancel(fmt.Errorf("%s %v: %w", verb, r, err)) // the first one stays
				}
				refused[i][j] = !allowed
			})
		}
	}
	asking.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for i, r := range rights {
		m := missing{Right: r}
		for j, verb := range r.Verbs {
			if refused[i][j] {
				m.verbs = append(m.verbs, verb)
			}
		}
		if len(m.verbs) > 0 {
			list = append(list, m)
		}
	}
	return list, nil
}

func askOne(ctx context.Context, ask asker, namespace string, r Right, verb string) (allowed bool, err error) {
	asked := &authorizationv1.ResourceAttributes{Group: r.Group, Resource: r.Resource, Name: r.Name, Verb: verb}
	if r.InNamespace || r.Name != "" {
		asked.Namespace = namespace
	}
	return ask(ctx, asked)
}
