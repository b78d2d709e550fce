// Package fleet runs many light Kubernetes clusters at once, for measuring how costs grow: fifty
// real API servers are too much for one machine. Its API servers are those of package apisim, over
// plain HTTP unless Config.TLS is set, so that they cost little besides what is measured. [Config]
// is what there is, and [Fleet.Flip] changes it.
package fleet

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/harness/kube"
	"isthmus/internal/apisim"
)

// Config is what there is.
type Config struct {
	Linked    int // clusters besides the one that the gateway is local to
	Services  int // in each cluster
	Slices    int // of each Service
	Endpoints int // of each slice, all meshed Pods
	// in each cluster, which endpoints are in turn, so that several Services have the same; 0: each
	// its own
	Pods int

	// Spread is how many linked clusters have the same Services, which the next so many have not:
	// federated Services join these alone. 0: all have the same.
	Spread int

	// Services of each linked cluster that [Fleet.Export] exports: the even ones as mirrors, the
	// odd ones, of equal names, as members
	Exports int

	// Copies makes the local cluster accept copies of lost clusters, which [Fleet.Copied] counts. Names
	// and addresses of Pods are random, because numbers in order compress better than those of real
	// clusters.
	Copies bool

	Nodes bool // the local cluster has the clients' nodes, in three zones, so that there are three kinds of clients
	// API servers are reached by TLS and HTTP/2, as real ones are, and not by plain HTTP/1.1, which
	// costs them less
	TLS bool

	Joined      bool              // federated Services join the local cluster's Services too
	Annotations map[string]string // of federated Services
}

// Fleet is the running clusters, all alike except for their Pods' addresses. In the local one there
// is also a federated Service for each, which joins the linked clusters' and, if it is to, the
// local one's. Only one goroutine at a time may use it.
type Fleet struct {
	cfg      Config
	clusters []*member
	writes   writes
}

// member is one cluster.
type member struct {
	api      *apisim.Server
	number   int
	services map[string]*corev1.Service              // by name
	slices   map[string][]*discoveryv1.EndpointSlice // by Service
	pods     int                                     // written so far
	random   []int                                   // numbers of Pods in random order; nil means in order
	exports  []*corev1.Service
}

// Start runs a fleet until Close.
func Start(cfg Config) (f *Fleet, err error) {
	f = &Fleet{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	var authority *apisim.Authority
	if cfg.TLS {
		if authority, err = apisim.NewAuthority(); err != nil {
			return nil, err
		}
	}
	var random []int
	if cfg.Copies {
		random = rand.New(rand.NewPCG(seed, seed)).Perm(maxPods)
	}
	for i := range cfg.Linked + 1 {
		api, err := apisim.Start(Name(i), authority)
		if err != nil {
			return nil, err
		}
		api.Admit(user)
		c := &member{
			api:      api,
			number:   i,
			services: map[string]*corev1.Service{},
			slices:   map[string][]*discoveryv1.EndpointSlice{},
			random:   random,
		}
		if i == 0 && (cfg.Exports > 0 || cfg.Copies) {
			api.TakeWrites(nil, f.writes.note)
		}
		f.clusters = append(f.clusters, c)
		if err := c.fill(cfg); err != nil {
			return nil, err
		}
	}
	return f, f.federate()
}

// Close ends the fleet, and whatever watches it.
func (f *Fleet) Close() error {
	var errs []error
	for _, c := range f.clusters {
		errs = append(errs, c.api.Close())
	}
	return errors.Join(errs...)
}

// user is who reads the clusters.
const user = "gateway"

// Server returns the API server of a cluster, by number.
func (f *Fleet) Server(cluster int) *apisim.Server { return f.clusters[cluster].api }

// first returns the number of a cluster's first Service.
func (c Config) first(cluster int) int {
	if c.Spread == 0 || cluster == 0 {
		return 0
	}
	return (cluster - 1) / c.Spread * c.Services
}

// WriteKubeconfig writes the kubeconfig of the cluster that the gateway is local to.
func (f *Fleet) WriteKubeconfig(path string) error {
	text, err := f.kubeconfig(0)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func (f *Fleet) kubeconfig(i int) ([]byte, error) {
	api := f.clusters[i].api
	return api.Kubeconfig(api.Addr(), user)
}

// Flip makes one endpoint of a Service in a cluster not ready, or ready again if that has been done.
func (f *Fleet) Flip(cluster int, service string) error {
	c := f.clusters[cluster]
	slice, err := c.middle(service)
	if err != nil {
		return err
	}
	ready := slice.Endpoints[len(slice.Endpoints)/2].Conditions.Ready
	*ready = !*ready
	return c.api.Put(slice)
}

// FlipProfile makes the port of a Service of the local cluster opaque, or plain again if that has
// been done, which changes its profile but no endpoint.
func (f *Fleet) FlipProfile(service string) error {
	local := f.clusters[0]
	o := local.services[service]
	if o == nil {
		return fmt.Errorf("cluster %s has no Service %s", Name(0), service)
	}
	if _, opaque := o.Annotations[kube.OpaquePorts]; opaque {
		delete(o.Annotations, kube.OpaquePorts)
	} else {
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, kube.OpaquePorts, fmt.Sprint(kube.ServicePort))
	}
	return local.api.Put(o)
}

// middle returns the slice of a Service that is changed.
func (c *member) middle(service string) (*discoveryv1.EndpointSlice, error) {
	all := c.slices[service]
	if all == nil {
		return nil, fmt.Errorf("cluster %s has no slice of Service %s", Name(c.number), service)
	}
	return all[len(all)/2], nil
}

// Scale makes all endpoints of a Service's slice in a cluster ready, or none, in one write.
func (f *Fleet) Scale(cluster int, service string, ready bool) error {
	c := f.clusters[cluster]
	slice, err := c.middle(service)
	if err != nil {
		return err
	}
	for i := range slice.Endpoints {
		*slice.Endpoints[i].Conditions.Ready = ready
	}
	return c.api.Put(slice)
}

// federate adds to the local cluster the links, and the Services that join the linked clusters'.
func (f *Fleet) federate() error {
	members := map[int][]string{} // of each federated Service, by number
	local := f.clusters[0]
	for i := 1; i <= f.cfg.Linked; i++ {
		kubeconfig, err := f.kubeconfig(i)
		if err != nil {
			return err
		}
		if err := local.api.Put(kube.Link(Name(i), kubeconfig)); err != nil {
			return err
		}
		for s := range f.cfg.Services {
			s += f.cfg.first(i)
			service := Service(s)
			members[s] = append(members[s], service+"@"+Name(i))
		}
	}
	for _, s := range slices.Sorted(maps.Keys(members)) {
		service := Service(s)
		own := ""
		if f.cfg.Joined {
			own = service
		}
		o := kube.Federated(Namespace, Federated(service), own, members[s]...)
		maps.Copy(o.Annotations, f.cfg.Annotations)
		if err := local.putService(o); err != nil {
			return err
		}
	}
	return nil
}

// fill writes a cluster's Services, slices and Pods, and into the local one the clients' nodes.
func (c *member) fill(cfg Config) error {
	f := filler{member: c, cfg: cfg}
	for s := range cfg.Services {
		if err := f.service(cfg.first(c.number)+s, cfg.Slices, cfg.Endpoints); err != nil {
			return err
		}
	}
	if err := c.fillExports(cfg.Exports); err != nil {
		return err
	}
	if c.number > 0 || !cfg.Nodes {
		return nil
	}
	for i := range nodes {
		if err := c.api.Put(kube.Node(node(i), fmt.Sprintf("zone-%d", i%zones))); err != nil {
			return err
		}
	}
	return nil
}

func (c *member) putService(o *corev1.Service) error {
	c.services[o.Name] = o
	return c.api.Put(o)
}

// filler fills a cluster.
type filler struct {
	*member
	cfg       Config
	written   int // slices
	endpoints int
}

// service writes a Service with its slices, and their Pods.
func (f *filler) service(i, slices, endpoints int) error {
	name := Service(i)
	if err := f.putService(kube.Service(Namespace, name)); err != nil {
		return err
	}
	for range slices {
		slice := kube.Slice(Namespace, name, fmt.Sprintf("%05d", f.written))
		for range endpoints {
			e, err := f.endpoint()
			if err != nil {
				return err
			}
			slice.Endpoints = append(slice.Endpoints, e)
		}
		if err := f.api.Put(slice); err != nil {
			return err
		}
		f.slices[name] = append(f.slices[name], slice)
		f.written++
	}
	return nil
}

// endpoint returns the next endpoint, and writes its Pod if there is none yet.
func (f *filler) endpoint() (discoveryv1.Endpoint, error) {
	i := f.endpoints
	f.endpoints++
	if f.cfg.Pods > 0 && i >= f.cfg.Pods {
		return f.endpointOf(i % f.cfg.Pods), nil
	}
	return f.newPod()
}

// newPod writes the next Pod, and returns its endpoint.
func (c *member) newPod() (discoveryv1.Endpoint, error) {
	i := c.pods
	c.pods++
	if c.random != nil {
		i = c.random[i]
	}
	return c.endpointOf(i), c.api.Put(Pod(i))
}

// endpointOf returns the endpoint of a Pod.
func (c *member) endpointOf(pod int) discoveryv1.Endpoint {
	return kube.PodEndpoint(address(c.number, pod), Namespace, podName(pod))
}

const (
	podBits = 18 // of an address
	maxPods = 1 << podBits
	seed    = 55 // the random order is the same in every run
)

func address(cluster, i int) string {
	n := cluster<<podBits | i
	return fmt.Sprintf("%d.%d.%d.%d", 10+n>>24, n>>16&0xff, n>>8&0xff, n&0xff)
}

func podName(i int) string { return fmt.Sprintf("web-5f79f964bc-%06d", i) }

// Pod returns a Pod of any cluster, by number, as it is at first.
func Pod(i int) *corev1.Pod {
	p := kube.Mesh(kube.Pod(Namespace, podName(i), ""))
	p.Labels[kube.HashLabel] = "5f79f964bc"
	return p
}

// Rolling restarts all Pods of a Service in the local cluster, one after the other. A new Pod is
// there some steps before its endpoint takes the place of the old one, and the old Pod as long
// after that, as it is in real clusters.
type Rolling struct {
	fleet  *Fleet
	slices []*discoveryv1.EndpointSlice
	ahead  int
	next   int                    // step
	made   []discoveryv1.Endpoint // of new Pods, in the order in which they are used
	old    []string               // Pods, likewise
}

// Restart returns what restarts a Service's Pods, each of which is there that many steps before and after it is used.
func (f *Fleet) Restart(service string, ahead int) (*Rolling, error) {
	slices := f.clusters[0].slices[service]
	if slices == nil {
		return nil, fmt.Errorf("there is no Service %s to restart", service)
	}
	return &Rolling{fleet: f, slices: slices, ahead: ahead}, nil
}

// Endpoints returns how many endpoints the Service has.
func (r *Rolling) Endpoints() (n int) {
	for _, s := range r.slices {
		n += len(s.Endpoints)
	}
	return n
}

// Step makes the next step. It returns whether that has replaced an endpoint, and whether all steps have been made.
func (r *Rolling) Step() (replaced, done bool, err error) {
	c, all := r.fleet.clusters[0], r.Endpoints()
	create, replace, remove := r.next, r.next-r.ahead, r.next-2*r.ahead
	r.next++
	if create < all {
		e, err := c.newPod()
		if err != nil {
			return false, false, err
		}
		r.made = append(r.made, e)
	}
	if replaced = replace >= 0 && replace < all; replaced {
		slice := r.slices[replace%len(r.slices)] // their order in the slices is not that in which Pods are restarted
		at := &slice.Endpoints[replace/len(r.slices)]
		r.old = append(r.old, at.TargetRef.Name)
		*at = r.made[replace]
		if err := c.api.Put(slice); err != nil {
			return false, false, err
		}
	}
	if remove >= 0 {
		err = c.api.Delete(kube.Pod(Namespace, r.old[remove], ""))
	}
	return replaced, remove == all-1, err
}

// Addresses returns the addresses of all endpoints, by the port that they have.
func (r *Rolling) Addresses() (list []netip.AddrPort) {
	for _, s := range r.slices {
		for _, e := range s.Endpoints {
			list = append(list, netip.AddrPortFrom(netip.MustParseAddr(e.Addresses[0]), kube.Port))
		}
	}
	return list
}

// perNamespace is how many exports of a cluster are in one namespace.
const perNamespace = 50

// exportLabels are Linkerd's, by which the even and the odd exports are exported.
var exportLabels = [...][2]string{
	{"mirror.linkerd.io/exported", "remote-discovery"},
	{"mirror.linkerd.io/federated", "member"},
}

// fillExports writes the Services that are exported later, into the local cluster their namespaces.
func (c *member) fillExports(n int) error {
	for i := range n {
		o := kube.Service(fmt.Sprintf("exports-%02d", i/perNamespace), fmt.Sprintf("export-%05d", i))
		o.Labels = map[string]string{}
		if c.number == 0 {
			if err := c.api.Put(kube.Namespace(o.Namespace)); err != nil {
				return err
			}
			continue
		}
		c.exports = append(c.exports, o)
		if err := c.api.Put(o); err != nil {
			return err
		}
	}
	return nil
}

// Export exports all exports.
func (f *Fleet) Export() error {
	for i := range f.cfg.Exports {
		for _, c := range f.clusters[1:] {
			c.exports[i].Labels[exportLabels[i%2][0]] = exportLabels[i%2][1]
			if err := c.api.Put(c.exports[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Exported returns how many Services are to be written for all exports.
func (f *Fleet) Exported() int { return f.cfg.Exports/2 + (f.cfg.Exports-f.cfg.Exports/2)*f.cfg.Linked }

// ChangeExport gives an export of a linked cluster another value of a label that is copied to what
// is written. One goroutine may call it while another uses the fleet for something else.
func (f *Fleet) ChangeExport(cluster, export int, value string) error {
	c := f.clusters[cluster]
	c.exports[export].Labels["team"] = value
	return c.api.Put(c.exports[export])
}

// writes is what gateways have written into the local cluster: Services, and ConfigMaps with copies
// of lost clusters.
type writes struct {
	mu     sync.Mutex
	there  int       // more than at first
	last   time.Time // when it was last written
	copies copies
}

// Written returns how many of the Services that gateways created still exist, and when gateways last wrote one.
func (f *Fleet) Written() (there int, last time.Time) {
	f.writes.mu.Lock()
	defer f.writes.mu.Unlock()
	return f.writes.there, f.writes.last
}

// Lose makes the API servers of all linked clusters fail. The servers end all watches, and respond
// to every later request with an error.
func (f *Fleet) Lose() {
	for _, c := range f.clusters[1:] {
		c.api.Misbehave(apisim.Faults{Failing: http.StatusServiceUnavailable})
		c.api.CutWatches()
	}
}

// Copied returns the complete copies that replicas have written. Copied also counts deleted copies.
func (f *Fleet) Copied() Copied {
	f.writes.mu.Lock()
	defer f.writes.mu.Unlock()
	return f.writes.copies.complete()
}

// note takes note of a write.
func (w *writes) note(before, after runtime.Object) {
	if m, ok := after.(*corev1.ConfigMap); ok && before == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.copies.add(m)
		return
	}
	_, was := before.(*corev1.Service)
	_, is := after.(*corev1.Service)
	if !was && !is { // a Lease
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	if !was {
		w.there++
	} else if !is {
		w.there--
	}
}

// Namespace is where all Services are.
const Namespace = "bench"

const nodes, zones = 20, 3 // of clients

// Name returns the name of a cluster, by number: 0 is the local one.
func Name(i int) string { return fmt.Sprintf("c%02d", i) }

// Service returns the name of a Service, by number. All clusters that have it name it so.
func Service(i int) string { return fmt.Sprintf("svc-%05d", i) }

// Federated returns the name of the Service that joins those of a name.
func Federated(service string) string { return service + "-all" }

// Authority returns what a proxy asks for to reach a Service.
func Authority(service string) string { return kube.Authority(Namespace, service) }

// Token returns the context token that a client's proxy sends. Clients are spread over all nodes,
// and so over the zones.
func Token(i int) string {
	return fmt.Sprintf(`{"ns":"%s", "nodeName":"%s", "pod":"client-%d"}`, Namespace, node(i), i)
}

func node(i int) string { return fmt.Sprintf("node-%02d", i%nodes) }
