package fleet

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness/kube"
	"isthmus/internal/apisim"
)

// Config is what there is.
type Config struct {
	Linked    int // clusters besides the one that the gateway is local to
	Services  int // in each cluster
	Slices    int // of each Service
	Endpoints int // of each slice, all meshed Pods
	Pods      int // in each cluster, which endpoints are in turn, so that several Services have the same; 0: each its own

	// Spread is how many linked clusters have the same Services, which the next so many have not: federated Services join
	// these alone. 0: all have the same.
	Spread int

	Exports int // Services of each linked cluster that [Fleet.Export] exports: the even ones as mirrors, the odd ones, of equal names, as members

	Nodes bool // the local cluster has the clients' nodes, in three zones, so that there are three kinds of clients
	TLS   bool // API servers are reached by TLS and HTTP/2, as real ones are, and not by plain HTTP/1.1, which costs them less

	Joined      bool              // federated Services join the local cluster's Services too
	Annotations map[string]string // of federated Services
}

// Fleet is the running clusters, all alike except for their Pods' addresses. In the local one there is also a federated
// Service for each, which joins the linked clusters' and, if it is to, the local one's. Only one goroutine at a time may use it.
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
	for i := range cfg.Linked + 1 {
		api, err := apisim.Start(Name(i), authority)
		if err != nil {
			return nil, err
		}
		api.Admit(user)
		c := &member{api: api, number: i, services: map[string]*corev1.Service{}, slices: map[string][]*discoveryv1.EndpointSlice{}}
		if i == 0 && cfg.Exports > 0 {
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

// FlipProfile makes the port of a Service of the local cluster opaque, or plain again if that has been done, which changes its
// profile but no endpoint.
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
