package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/e2e/bench/world"
)

// Config says what there is.
type Config struct {
	Linked    int // clusters besides the one that the gateway is local to
	Services  int // in each cluster
	Slices    int // of each Service
	Endpoints int // of each slice, all meshed Pods
}

// Fleet is the running clusters, all alike but for their Pods' addresses. In the local one there is also a federated
// Service for each, which joins the linked clusters' and not the local one's.
type Fleet struct {
	server   http.Server
	listener net.Listener
	served   chan error
	clusters []*member
}

// Start runs a fleet until Close.
func Start(cfg Config) (*Fleet, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Fleet{listener: listener, served: make(chan error, 1)}
	mux := http.NewServeMux()
	for i := range cfg.Linked + 1 {
		c, err := newMember(cfg, i)
		if err == nil && i == 0 {
			err = f.federate(c, cfg)
		}
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		f.clusters = append(f.clusters, c)
		mux.Handle("/"+name(i)+"/", c)
	}
	f.server.Handler = mux
	f.server.BaseContext = func(net.Listener) context.Context { return context.Background() }
	go func() { f.served <- f.server.Serve(listener) }()
	return f, nil
}

// Close ends the fleet, and whatever watches it.
func (f *Fleet) Close() error {
	err := f.server.Close()
	if served := <-f.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// name is that of a cluster, by number.
func name(i int) string { return fmt.Sprintf("c%02d", i) }

// Service is the name of a Service, and the authority by which proxies know it, federated or not.
func Service(i int, federated bool) (name, authority string) {
	name = fmt.Sprintf("svc-%05d", i)
	if federated {
		return name, world.Authority(world.Federated(name))
	}
	return name, world.Authority(name)
}

// WriteKubeconfig writes the kubeconfig of the cluster that the gateway is local to.
func (f *Fleet) WriteKubeconfig(path string) error { return os.WriteFile(path, f.kubeconfig(0), 0o600) }

func (f *Fleet) kubeconfig(i int) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: fleet
contexts: [{name: fleet, context: {cluster: fleet, user: fleet}}]
clusters: [{name: fleet, cluster: {server: "http://%s/%s"}}]
users: [{name: fleet, user: {token: none}}]
`, f.listener.Addr(), name(i))
}

// Flip takes one endpoint of a Service in a cluster away, or brings it back if that has been done, and says when it had
// told all watches. Lists don't follow: who lists finds everything as it was at the beginning.
func (f *Fleet) Flip(cluster int, service string) (time.Time, error) {
	return f.clusters[cluster].flip(service)
}

// member is one cluster.
type member struct {
	lists map[string]*list // by resource; fixed
	byKey map[string]int   // a Service's slice that is flipped, by its place among the slices; fixed

	mu       sync.Mutex
	slices   []discoveryv1.EndpointSlice
	version  int
	watchers map[chan<- event]<-chan struct{} // of slices; closed once the watch has ended
}

func (c *member) flip(service string) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.byKey[service]
	if !ok {
		return time.Time{}, fmt.Errorf("there is no Service %s", service)
	}
	slice := c.slices[i].DeepCopy()
	conditions := &slice.Endpoints[len(slice.Endpoints)/2].Conditions
	conditions.Ready = new(!*conditions.Ready)
	c.version++
	slice.ResourceVersion = fmt.Sprint(c.version)
	c.slices[i] = *slice
	e, err := newEvent(slice)
	if err != nil {
		return time.Time{}, err
	}
	for w, ended := range c.watchers {
		select {
		case w <- e:
		case <-ended:
		}
	}
	return time.Now(), nil
}
