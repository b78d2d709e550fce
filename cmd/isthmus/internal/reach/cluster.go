package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/guard"
	"isthmus/clusterstore/kube"
	"isthmus/internal/text"
)

// Cluster is one that a verb works with: gateways are looked for in it, and links written. Its
// methods may be called from several goroutines.
type Cluster struct {
	Context string        // its name in the kubeconfig; empty: the cluster of this Pod
	API     *kube.Clients // guarded: see [Guard]
	options Options
	config  *rest.Config
	close   func() // closes connections of API that are not in use

	lifetime context.Context // of the forwarders
	end      context.CancelFunc

	mu         sync.Mutex
	forwarders map[string]*forwarder // by NAMESPACE/NAME:PORT
}

// Open reads the kubeconfig, and asks no server. The Cluster must be closed.
func (o *Options) Open() (*Cluster, error) {
	config, chosen, err := o.load()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Context: chosen, options: *o, config: config, forwarders: make(map[string]*forwarder)}
	if c.API, c.close, err = Clients(config); err != nil {
		return nil, unreadable(fmt.Errorf("context %s: %w", chosen, err))
	}
	c.lifetime, c.end = context.WithCancel(context.Background())
	return c, nil
}

// Clients returns clients of an API server, and a function that closes their connections that are not in use. They send nothing
// by themselves.
func Clients(config *rest.Config) (*kube.Clients, func(), error) {
	config = rest.CopyConfig(config)
	config.UserAgent = cmp.Or(config.UserAgent, kube.UserAgent()) // rest.HTTPClientFor sets no default
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	api, err := kube.NewTyped(config, http)
	return api, func() { utilnet.CloseIdleConnectionsFor(http.Transport) }, err
}

// Config returns how the cluster is reached, for clients with limits of their own
// (clusterstore/kube), beneath which are those of [guard.Sized]. It has credentials.
func (c *Cluster) Config() *rest.Config {
	config := rest.CopyConfig(c.config)
	config.WrapTransport = guard.Sized
	return config
}

// String returns the API server's name, for messages.
func (c *Cluster) String() string {
	if c.Context == "" {
		return "the API server of this Pod's cluster"
	}
	return "the API server of context " + text.Quoted(c.Context)
}

// forward returns the forwarder of a port. It starts one if there is none, or if the last one can't
// be used anymore.
func (c *Cluster) forward(ctx context.Context, pod Replica, port int) (*forwarder, error) {
	key := fmt.Sprintf("%s/%s:%d", pod.Namespace, pod.Name, port)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.lifetime.Err(); err != nil {
		return nil, err
	}
	f := c.forwarders[key]
	if f != nil && !f.over() {
		return f, nil
	}
	f, err := newForwarder(ctx, pod, port)
	if err == nil {
		c.forwarders[key] = f
	}
	return f, err
}

// Close ends the connections of [Gateway.Dial], and other connections that are not in use.
func (c *Cluster) Close() {
	c.end()
	c.close()
}

// explain returns an error for a request that has failed: what it was for, and what to
// do. Errors of the context stay what they are.
func (c *Cluster) explain(err error, does, right string) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s does not accept the credentials of the kubeconfig\n  Log in again, or choose another context by %s", c, c.options.contextFlag())
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s does not let you %s: %s\n  What is missing is the right to %s, in namespace %s; a Role with all that is needed is in docs/operations.md",
			c, does, text.Quoted(err.Error()), right, text.Quoted(c.options.Namespace))
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return fmt.Errorf("%s does not %s: %s", c, does, text.Quoted(status.ErrStatus.Message))
	}
	if invalid, _ := guard.Certificate(err); invalid != "" {
		return fmt.Errorf("%s can't be used, since its certificate is not good: %s\n  Correct its server or its certificate authority in the kubeconfig, or choose another context by %s", c, invalid, c.options.contextFlag())
	}
	if failed, ok := errors.AsType[*url.Error](err); ok { // without the request: that is no help
		err = failed.Err
	}
	return fmt.Errorf("%s does not answer: %s\n  Is it reachable from here? %s chooses another cluster%s", c, text.Quoted(err.Error()), c.options.contextFlag(), c.options.straight("; to go straight to a gateway: "))
}
