package fleet

import (
	"errors"
	"fmt"
	"maps"
	"os"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/e2e/apisim"
	"isthmus/e2e/bench/world"
	"isthmus/e2e/object"
)

// Config is what there is.
type Config struct {
	Linked    int // clusters besides the one that the gateway is local to
	Services  int // in each cluster
	Slices    int // of each Service
	Endpoints int // of each slice, all meshed Pods
	Pods      int // in each cluster, which endpoints are in turn, so that several Services have the same; 0: each its own
	Large     int // slices, of a hundred endpoints, of one more Service, which has the number after the others; 0: there is none

	Joined      bool              // federated Services join the local cluster's Services too
	Annotations map[string]string // of federated Services
}

// Fleet is the running clusters, all alike but for their Pods' addresses. In the local one there is also a federated
// Service for each, which joins the linked clusters' and, if it is to, the local one's. Only one goroutine at a time may use it.
type Fleet struct {
	cfg      Config
	clusters []*member
}

// member is one cluster.
type member struct {
	api    *apisim.Server
	slices map[string]*discoveryv1.EndpointSlice // by Service: the one that is flipped
}

// Start runs a fleet until Close.
func Start(cfg Config) (f *Fleet, err error) {
	f = &Fleet{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	for i := range cfg.Linked + 1 {
		api, err := apisim.Start(name(i), nil)
		if err != nil {
			return nil, err
		}
		api.Misbehave(apisim.Faults{NoStreamedLists: true}) // lists in pages are kinder to the memory of both sides
		c := &member{api: api, slices: map[string]*discoveryv1.EndpointSlice{}}
		f.clusters = append(f.clusters, c)
		if err := c.fill(cfg, i); err != nil {
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

// name is that of a cluster, by number.
func name(i int) string { return fmt.Sprintf("c%02d", i) }

// Service returns the name of a Service, and the authority by which proxies know it, federated or not.
func Service(i int, federated bool) (name, authority string) {
	name = fmt.Sprintf("svc-%05d", i)
	if federated {
		return name, world.Authority(world.Federated(name))
	}
	return name, world.Authority(name)
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
	return api.Kubeconfig(api.Addr(), "none")
}

// Flip makes one endpoint of a Service in a cluster not ready, or ready again if that has been done.
func (f *Fleet) Flip(cluster int, service string) error {
	c := f.clusters[cluster]
	slice := c.slices[service]
	if slice == nil {
		return fmt.Errorf("cluster %s has no slice of Service %s", name(cluster), service)
	}
	ready := slice.Endpoints[len(slice.Endpoints)/2].Conditions.Ready
	*ready = !*ready
	return c.api.Put(slice)
}

// Scale makes all endpoints of a Service's slice in a cluster ready, or none, in one write.
func (f *Fleet) Scale(cluster int, service string, ready bool) error {
	c := f.clusters[cluster]
	slice := c.slices[service]
	if slice == nil {
		return fmt.Errorf("cluster %s has no slice of Service %s", name(cluster), service)
	}
	for i := range slice.Endpoints {
		*slice.Endpoints[i].Conditions.Ready = ready
	}
	return c.api.Put(slice)
}

// inLarge is how many endpoints a slice of the large Service has, as Kubernetes writes them.
const inLarge = 100

// count returns how many Services a cluster has.
func (c Config) count() int { return c.Services + min(1, c.Large) }

// fill writes a cluster's Services, slices and Pods.
func (c *member) fill(cfg Config, number int) error {
	f := filler{member: c, cfg: cfg, number: number}
	for s := range cfg.Services {
		if err := f.service(s, cfg.Slices, cfg.Endpoints); err != nil {
			return err
		}
	}
	if cfg.Large == 0 {
		return nil
	}
	return f.service(cfg.Services, cfg.Large, inLarge)
}

// filler fills a cluster.
type filler struct {
	*member
	cfg          Config
	number       int // of the cluster
	slices, pods int // so far
}

// service writes a Service with its slices, and their Pods.
func (f *filler) service(i, slices, endpoints int) error {
	name, _ := Service(i, false)
	if err := f.api.Put(object.Service(world.Namespace, name)); err != nil {
		return err
	}
	for n := range slices {
		slice := object.Slice(world.Namespace, name, fmt.Sprintf("%05d", f.slices))
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
		if n == slices/2 {
			f.member.slices[name] = slice
		}
		f.slices++
	}
	return nil
}

// endpoint returns the next endpoint, and writes its Pod if there is none yet.
func (f *filler) endpoint() (discoveryv1.Endpoint, error) {
	i := f.pods
	if f.cfg.Pods > 0 {
		i %= f.cfg.Pods
	}
	pod := newPod(i)
	e := object.PodEndpoint(address(f.number, i), world.Namespace, pod.Name)
	f.pods++
	if i < f.pods-1 {
		return e, nil
	}
	return e, f.api.Put(pod)
}

// federate adds to the local cluster the links, and the Services that join the linked clusters'.
func (f *Fleet) federate() error {
	var linked []string
	local := f.clusters[0]
	for i := 1; i <= f.cfg.Linked; i++ {
		kubeconfig, err := f.kubeconfig(i)
		if err != nil {
			return err
		}
		if err := local.api.Put(object.Link(name(i), kubeconfig)); err != nil {
			return err
		}
		linked = append(linked, name(i))
	}
	for s := range f.cfg.count() {
		if len(linked) == 0 {
			break
		}
		service, _ := Service(s, false)
		var members []string
		for _, cluster := range linked {
			members = append(members, service+"@"+cluster)
		}
		own := ""
		if f.cfg.Joined {
			own = service
		}
		o := object.Federated(world.Namespace, world.Federated(service), own, members...)
		maps.Copy(o.Annotations, f.cfg.Annotations)
		if err := local.api.Put(o); err != nil {
			return err
		}
	}
	return nil
}

func address(cluster, i int) string {
	return fmt.Sprintf("10.%d.%d.%d", cluster<<2|i>>16, i>>8&0xff, i&0xff)
}

func newPod(i int) *corev1.Pod {
	p := object.Mesh(object.Pod(world.Namespace, fmt.Sprintf("web-5f79f964bc-%06d", i), ""))
	p.Labels[object.HashLabel] = "5f79f964bc"
	return p
}
