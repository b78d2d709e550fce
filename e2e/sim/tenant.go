package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/internal/spec"
)

// The hostile tenant has clients, and may write to one namespace of every cluster. Its objects are
// extreme, but API servers accept them. Clients in other namespaces must not notice them. The
// tenant's own clients are not checked.
const (
	tenantNamespace = "tenant"
	tenantService   = "web"
	tenantJoined    = "web-all"
)

// tenantSteps are the steps of the tenant.
var tenantSteps = []step{
	{"tenant: policy", 3, tenantPolicy},
	{"tenant: slices", 3, tenantSlices},
	{"tenant: definition", 3, inLocal(tenantDefinition)},
	{"tenant: preference", 3, inLocal(tenantPreference)},
	{"tenant: nonsense", 3, tenantNonsense},
}

// tenantPut writes objects that have no effect on checked clients.
func tenantPut(w *world, c *cluster, list ...runtime.Object) {
	for _, o := range list {
		w.err = errors.Join(w.err, c.api.Put(o))
		w.writes++
	}
}

// fillTenant creates the Services that the tenant's clients subscribe to.
func fillTenant(w *world) {
	for _, c := range w.clusters {
		tenantPut(w, c, headless(kube.Service(tenantNamespace, tenantService)))
		tenantSlices(w, c, "")
	}
	tenantDefinition(w, w.clusters[0])
}

// tenantPolicy writes Servers with many selector terms, and Pods with many labels. All Servers
// select all Pods, which exceeds Isthmus' limit for a namespace.
func tenantPolicy(w *world, c *cluster, _ string) string {
	const pods, servers, labels = 20, 40, 100
	c.costly = true
	values := w.rng.IntN(1000)
	for i := range pods {
		o := kube.Pod(tenantNamespace, fmt.Sprintf("web-%d", i), "tenant")
		o.Labels = map[string]string{"app": tenantService}
		for k := range labels {
			o.Labels[fmt.Sprintf("label-%d", k)] = fmt.Sprint(values + i)
		}
		tenantPut(w, c, kube.Mesh(o))
	}
	for i := range servers {
		o := kube.OpaqueServer(tenantNamespace, fmt.Sprintf("server-%d", i), tenantService, int64(kube.Port))
		var terms []any
		for k := range labels {
			terms = append(terms, map[string]any{
				"key":      fmt.Sprintf("label-%d", k),
				"operator": "NotIn",
				"values":   []any{fmt.Sprint(i), "none"},
			})
		}
		selector := map[string]any{"matchExpressions": terms}
		w.err = errors.Join(w.err, unstructured.SetNestedMap(o.Object, selector, "spec", "podSelector"))
		tenantPut(w, c, o)
	}
	return fmt.Sprintf("%d pods of %d labels, %d servers of as many terms", pods, labels, servers)
}

// tenantSlices writes slices full of addresses, some of which belong to other Pods.
func tenantSlices(w *world, c *cluster, _ string) string {
	const list, each = 4, 100
	of := pick(w, w.clusters)
	for i := range list {
		o := kube.Slice(tenantNamespace, tenantService, fmt.Sprint(i))
		for range each {
			address := fmt.Sprintf("%d.%d.%d.%d", 10+of.number/200, of.number%200, w.rng.IntN(4), w.rng.IntN(256))
			o.Endpoints = append(
				o.Endpoints,
				kube.PodEndpoint(address, tenantNamespace, fmt.Sprintf("web-%d", w.rng.IntN(30))),
			)
		}
		tenantPut(w, c, o)
	}
	return fmt.Sprintf("%d slices of %d addresses of %s", list, each, of.name)
}

// tenantDefinition edits a federated Service with very many members several times.
func tenantDefinition(w *world, local *cluster) string {
	const edits, members = 10, 100
	for range edits {
		var list []string
		for range members {
			list = append(list, fmt.Sprintf(
				"%s@%s",
				pick(w, append([]string{tenantService, "none"}, w.services...)),
				pick(w, w.clusters).name,
			))
		}
		o := keepPreference(
			headless(kube.Federated(tenantNamespace, tenantJoined, tenantService, list...)),
			local.tenant,
		)
		tenantPut(w, local, o)
		local.tenant = o
	}
	return fmt.Sprintf("%d edits of %d members", edits, members)
}

// tenantPreference edits the preference of the federated Service several times. The values have the
// maximum number of tiers and terms, far more than the maximum, or invalid text.
func tenantPreference(w *world, local *cluster) string {
	const edits = 10
	o := local.tenant
	for i := range edits {
		o = o.DeepCopy()
		switch i % 3 {
		case 0:
			o.Annotations[spec.PreferKey] = manyTiers(w, spec.MaxTiers, spec.MaxTerms/spec.MaxTiers)
			o.Annotations[spec.MinReadyKey] = fmt.Sprintf("%d%%", 1+w.rng.IntN(100))
			o.Annotations[spec.ReturnAfterKey], o.Annotations[spec.ReturnOverKey] = "1ms", "10ms"
		case 1:
			o.Annotations[spec.PreferKey] = manyTiers(w, spec.MaxTiers, spec.MaxTerms)
			o.Annotations[spec.MinReadyKey] = fmt.Sprint(1 + w.rng.IntN(1000))
		default:
			const size = 50 << 10 // 200 KiB in total
			for _, key := range spec.Keys {
				o.Annotations[key] = strings.Repeat(
					pick(w, []string{",", "+", "a,", "9", "1h", "local,", "\x00"}),
					size,
				)[:size]
			}
		}
		tenantPut(w, local, o)
	}
	local.tenant = o
	return fmt.Sprintf("%d edits", edits)
}

// manyTiers returns the given number of tiers with terms terms each. They name clusters, some of
// which do not exist.
func manyTiers(w *world, tiers, terms int) string {
	words := []string{"zone", "local", "region", "remote", "any"}
	for _, c := range w.clusters[1:] {
		words = append(words, c.name)
	}
	for i := len(words); i < tiers*terms; i++ {
		words = append(words, fmt.Sprintf("none-%d", i))
	}
	words = words[:tiers*terms]
	w.rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	var list []string
	for i := range tiers {
		list = append(list, strings.Join(words[i*terms:(i+1)*terms], "+"))
	}
	return strings.Join(list, ",")
}

// tenantNonsense writes invalid objects.
func tenantNonsense(w *world, c *cluster, _ string) string {
	switch w.rng.IntN(4) {
	case 0:
		o := headless(kube.Service(tenantNamespace, "nonsense"))
		long := strings.Repeat(fmt.Sprintf("%d-65535,@,,a@b@c,web@none,", w.rng.IntN(70_000)), 2000)
		o.Annotations = map[string]string{kube.OpaquePorts: long, kube.RemoteDiscovery: long, kube.LocalDiscovery: long}
		tenantPut(w, c, o)
		return "annotations"
	case 1:
		o := kube.Slice(tenantNamespace, tenantService, "nonsense")
		for _, address := range []string{
			"",
			"::",
			"1.2.3",
			"0.0.0.0",
			"255.255.255.255",
			"fe80::1%eth0",
			"10.0.0.1:80",
			strings.Repeat("1", 10_000),
		} {
			o.Endpoints = append(
				o.Endpoints,
				kube.Endpoint(address),
				discoveryv1.Endpoint{Addresses: []string{address, address}},
				discoveryv1.Endpoint{},
			)
		}
		o.Ports = append(o.Ports, discoveryv1.EndpointPort{Port: new(int32(-1))}, discoveryv1.EndpointPort{})
		tenantPut(w, c, o)
		return "addresses"
	case 2:
		var routes []any
		for i := range 300 {
			routes = append(routes, map[string]any{
				"name":      strings.Repeat("r", i),
				"condition": map[string]any{"pathRegex": strings.Repeat("(", i)},
			})
		}
		tenantPut(w, c, kube.ServiceProfile(tenantNamespace, tenantJoined, routes...))
		return "routes"
	}
	o := kube.Pod(tenantNamespace, "web-0", "tenant")
	o.Annotations = map[string]string{kube.OpaquePorts: strings.Repeat("1-65535,", 1000)}
	for range 50 {
		o.OwnerReferences = append(
			o.OwnerReferences,
			metav1.OwnerReference{Kind: "ReplicaSet", Name: "none", Controller: new(true)},
		)
	}
	tenantPut(w, c, o)
	return "a pod"
}

// tenantClients returns the clients of the tenant. They subscribe to its Services, to ports that
// the Services do not declare, and to names that do not exist.
func tenantClients(addr string) (*clients, error) {
	cs, err := connect(addr, 1)
	if err != nil {
		return nil, err
	}
	joined := kube.FullName(tenantNamespace, tenantJoined)
	for i := range 20 {
		for _, authority := range []string{
			kube.Authority(tenantNamespace, tenantJoined), fmt.Sprintf("%s:%d", joined, 10_000+i),
			fmt.Sprintf("made-up-%d.%s:80", i, joined),
		} {
			cs.all = append(cs.all, &client{service: authority, stream: proxy.NewStream(proxy.Config{
				Conn: cs.links[0], Kind: proxy.Get, Authority: authority, Token: `{"ns":"` + tenantNamespace + `"}`,
			})})
		}
	}
	return cs, nil
}

// startTenant opens the streams of the tenant's clients, and keeps them open until ctx ends.
func startTenant(ctx context.Context, s *simulation) (err error) {
	if s.tenant, err = tenantClients(s.gateway.Addr()); err != nil {
		return err
	}
	s.tenant.start(ctx)
	return nil
}
