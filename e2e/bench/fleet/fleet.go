// Package fleet simulates many Kubernetes clusters in one process, to measure how costs grow. One
// machine cannot run fifty real API servers. The API servers come from package apisim. They use
// plain HTTP unless Config.TLS is set, so that they add little to the measured cost. [Config]
// describes the clusters, and [Fleet.Flip] changes them.
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

type Config struct {
	Linked    int // clusters in addition to the replica's local cluster
	Services  int // Services per cluster
	Slices    int // slices per Service
	Endpoints int // endpoints per slice, which are all meshed Pods
	// Pods is the number of Pods per cluster, which are shared by the endpoints in turn. 0 means
	// that each endpoint has its own Pod.
	Pods int

	// Spread is the number of linked clusters with the same Services. A federated Service only
	// joins the Services of such a group. 0 means that all clusters have the same Services.
	Spread int

	// Exports is the number of Services per linked cluster that [Fleet.Export] exports. Even
	// Services are exported as mirrors. Odd Services have the same names in all clusters and are
	// exported as members.
	Exports int

	// Copies makes the local cluster accept copies of stale clusters, which [Fleet.Copied] counts.
	// It randomizes the names and addresses of Pods, because consecutive numbers compress better
	// than those in real clusters.
	Copies bool

	Nodes bool // create the Nodes of clients in three zones of the local cluster
	// TLS makes the API servers use TLS and HTTP/2, like real ones. The default, plain HTTP/1.1, is
	// cheaper for them.
	TLS bool

	Joined      bool              // federated Services also join the Services of the local cluster
	Annotations map[string]string // annotations on federated Services
}

// Fleet is a set of running clusters that only differ in their Pods' addresses. The local cluster
// also contains federated Services, which join the linked clusters' Services and, if Config.Joined
// is set, its own. Only one goroutine at a time may use a Fleet.
type Fleet struct {
	cfg      Config
	clusters []*member
	writes   writes
}

type member struct {
	api      *apisim.Server
	number   int
	services map[string]*corev1.Service              // Services by name
	slices   map[string][]*discoveryv1.EndpointSlice // slices by Service
	pods     int                                     // number of Pods written so far
	random   []int                                   // numbers of Pods in random order; nil means in order
	exports  []*corev1.Service
}

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

func (f *Fleet) Close() error {
	var errs []error
	for _, c := range f.clusters {
		errs = append(errs, c.api.Close())
	}
	return errors.Join(errs...)
}

// user is the name of Isthmus's user in all clusters.
const user = "gateway"

func (f *Fleet) Server(cluster int) *apisim.Server { return f.clusters[cluster].api }

// first returns the number of a cluster's first Service.
func (c Config) first(cluster int) int {
	if c.Spread == 0 || cluster == 0 {
		return 0
	}
	return (cluster - 1) / c.Spread * c.Services
}

// WriteKubeconfig writes a kubeconfig for the local cluster.
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

// Flip changes the readiness of one endpoint in a cluster.
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

// FlipProfile makes the port of a local Service opaque, or removes the setting again. This changes
// the profile but no endpoint.
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

// middle returns the slice of a Service to change.
func (c *member) middle(service string) (*discoveryv1.EndpointSlice, error) {
	all := c.slices[service]
	if all == nil {
		return nil, fmt.Errorf("cluster %s has no slice of Service %s", Name(c.number), service)
	}
	return all[len(all)/2], nil
}

// Scale sets the readiness of all endpoints in a Service's slice in a cluster with one write.
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

func (f *Fleet) federate() error {
	members := map[int][]string{} // by number of the federated Service
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

// fill writes a cluster's Services, slices and Pods. In the local cluster, it also writes the Nodes
// of clients.
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

type filler struct {
	*member
	cfg       Config
	written   int // number of slices
	endpoints int
}

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

// endpoint returns the next endpoint, and writes its Pod unless the Pod exists.
func (f *filler) endpoint() (discoveryv1.Endpoint, error) {
	i := f.endpoints
	f.endpoints++
	if f.cfg.Pods > 0 && i >= f.cfg.Pods {
		return f.endpointOf(i % f.cfg.Pods), nil
	}
	return f.newPod()
}

func (c *member) newPod() (discoveryv1.Endpoint, error) {
	i := c.pods
	c.pods++
	if c.random != nil {
		i = c.random[i]
	}
	return c.endpointOf(i), c.api.Put(Pod(i))
}

func (c *member) endpointOf(pod int) discoveryv1.Endpoint {
	return kube.PodEndpoint(address(c.number, pod), Namespace, podName(pod))
}

const (
	podBits = 18 // bits of an address that contain the number of the Pod
	maxPods = 1 << podBits
	seed    = 55 // makes the random order the same in every run
)

func address(cluster, i int) string {
	n := cluster<<podBits | i
	return fmt.Sprintf("%d.%d.%d.%d", 10+n>>24, n>>16&0xff, n>>8&0xff, n&0xff)
}

func podName(i int) string { return fmt.Sprintf("web-5f79f964bc-%06d", i) }

// Pod returns a Pod in its original state, by its number in any cluster.
func Pod(i int) *corev1.Pod {
	p := kube.Mesh(kube.Pod(Namespace, podName(i), ""))
	p.Labels[kube.HashLabel] = "5f79f964bc"
	return p
}

// Rolling restarts the Pods of a Service in the local cluster one after the other. As in real
// clusters, a new Pod exists some steps before its endpoint replaces the old one, and the old Pod
// exists for as many steps afterwards.
type Rolling struct {
	fleet  *Fleet
	slices []*discoveryv1.EndpointSlice
	ahead  int
	next   int                    // number of the next step
	made   []discoveryv1.Endpoint // endpoints of new Pods in order of use
	old    []string               // names of old Pods in order of removal
}

// Restart returns a Rolling for a Service. Each Pod exists for the given number of steps before and
// after its endpoint is in use.
func (f *Fleet) Restart(service string, ahead int) (*Rolling, error) {
	slices := f.clusters[0].slices[service]
	if slices == nil {
		return nil, fmt.Errorf("there is no Service %s to restart", service)
	}
	return &Rolling{fleet: f, slices: slices, ahead: ahead}, nil
}

func (r *Rolling) Endpoints() (n int) {
	for _, s := range r.slices {
		n += len(s.Endpoints)
	}
	return n
}

// Step makes the next step. It reports whether the step replaced an endpoint, and whether it was
// the last step.
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
		slice := r.slices[replace%len(r.slices)] // Pods restart in another order than that of the slices
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

func (r *Rolling) Addresses() (list []netip.AddrPort) {
	for _, s := range r.slices {
		for _, e := range s.Endpoints {
			list = append(list, netip.AddrPortFrom(netip.MustParseAddr(e.Addresses[0]), kube.Port))
		}
	}
	return list
}

const perNamespace = 50

// exportLabels contains Linkerd's labels for even and odd exports.
var exportLabels = [...][2]string{
	{"mirror.linkerd.io/exported", "remote-discovery"},
	{"mirror.linkerd.io/federated", "member"},
}

// fillExports writes Services for later export. In the local cluster, it only writes their
// namespaces.
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

// Export exports all Services prepared for export.
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

// Exported returns the number of Services that Isthmus must write for all exports.
func (f *Fleet) Exported() int { return f.cfg.Exports/2 + (f.cfg.Exports-f.cfg.Exports/2)*f.cfg.Linked }

// ChangeExport changes a label of an export in a linked cluster. Isthmus copies this label to the
// Services that it writes. ChangeExport may run at the same time as one other method.
func (f *Fleet) ChangeExport(cluster, export int, value string) error {
	c := f.clusters[cluster]
	c.exports[export].Labels["team"] = value
	return c.api.Put(c.exports[export])
}

// writes records the Services and the copies of stale clusters that Isthmus has written to the local
// cluster.
type writes struct {
	mu     sync.Mutex
	there  int       // number of Services that still exist
	last   time.Time // time of the last write
	copies copies
}

// Written returns the number of existing Services that Isthmus created, and the time of the last
// write to a Service.
func (f *Fleet) Written() (there int, last time.Time) {
	f.writes.mu.Lock()
	defer f.writes.mu.Unlock()
	return f.writes.there, f.writes.last
}

// Lose makes the API servers of all linked clusters unavailable. The servers end all watches and
// reject later requests with an error.
func (f *Fleet) Lose() {
	for _, c := range f.clusters[1:] {
		c.api.Misbehave(apisim.Faults{Failing: http.StatusServiceUnavailable})
		c.api.CutWatches()
	}
}

// Copied describes the complete copies that replicas have written, including deleted copies.
func (f *Fleet) Copied() Copied {
	f.writes.mu.Lock()
	defer f.writes.mu.Unlock()
	return f.writes.copies.complete()
}

func (w *writes) note(before, after runtime.Object) {
	if m, ok := after.(*corev1.ConfigMap); ok && before == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.copies.add(m)
		return
	}
	_, was := before.(*corev1.Service)
	_, is := after.(*corev1.Service)
	if !was && !is { // for example a Lease
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

const Namespace = "bench"

const nodes, zones = 20, 3 // Nodes of clients

// Name returns the name of a cluster by number. The local cluster has the number 0.
func Name(i int) string { return fmt.Sprintf("c%02d", i) }

// Service returns the name of a Service by number. The name is the same in all clusters.
func Service(i int) string { return fmt.Sprintf("svc-%05d", i) }

// Federated returns the name of the federated Service for a Service.
func Federated(service string) string { return service + "-all" }

func Authority(service string) string { return kube.Authority(Namespace, service) }

// Token returns the context token of a client's proxy by number. Clients are spread over all nodes
// and zones.
func Token(i int) string {
	return fmt.Sprintf(`{"ns":"%s", "nodeName":"%s", "pod":"client-%d"}`, Namespace, node(i), i)
}

func node(i int) string { return fmt.Sprintf("node-%02d", i%nodes) }
