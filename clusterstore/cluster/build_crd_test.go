package cluster

import (
	"context"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// custom is a Source of custom resources, to which a test adds.
type custom[O decode.Object] struct {
	name    string
	trouble *trouble // nil: nobody reads it
	all     federation.Latest[[]O]
}

// read makes it one of an API that has trouble.
func (c *custom[O]) read(tr *trouble, name string) { c.trouble, c.name = tr, name }

func (c *custom[O]) add(o O) {
	list, _ := c.all.Get()
	c.all.Set(append(slices.Clone(list), o))
}

func (c *custom[O]) List(_ context.Context, _ metav1.ListOptions, each func(O, *decode.Refused) error) (metav1.ListMeta, error) {
	list, _ := c.all.Get()
	err := c.trouble.find("list", c.name)
	for i := 0; err == nil && i < len(list); i++ {
		err = each(list[i], nil)
	}
	return metav1.ListMeta{}, err
}

func (c *custom[O]) Watch(ctx context.Context, _ metav1.ListOptions) (decode.Events[O], error) {
	if err := c.trouble.find("watch", c.name); err != nil {
		return nil, err
	}
	list, _ := c.all.Get()
	_, ended := c.trouble.ended.Get()
	return &customEvents[O]{c, ctx, ended, len(list)}, nil
}

// customEvents are those of one watch, of which so many objects have come.
type customEvents[O decode.Object] struct {
	*custom[O]
	ctx   context.Context
	ended <-chan struct{}
	come  int
}

func (e *customEvents[O]) Next(each func(decode.Event[O]) error) error {
	for {
		list, newer := e.all.Get()
		if e.come < len(list) {
			e.come++
			return each(decode.Event[O]{Type: watch.Added, Object: list[e.come-1]})
		}
		select {
		case <-newer:
		case <-e.ended:
			return io.EOF
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
}

func (e *customEvents[O]) Close() error { return nil }

// aServer makes a port of the Pods with these labels ("key=value,key=value")
// opaque; the port is a number or a name.
func aServer(name, port, labels string, options ...func(*crd.Server)) *crd.Server {
	selector, err := metav1.ParseToLabelSelector(labels)
	if err != nil {
		panic(err)
	}
	o := &crd.Server{ObjectMeta: inNS(name), Spec: crd.ServerSpec{
		PodSelector: selector, Port: intstr.Parse(port), ProxyProtocol: crd.ProtocolOpaque,
	}}
	for _, f := range options {
		f(o)
	}
	return o
}

// forWorkloads lets a Server select ExternalWorkloads instead of Pods.
func forWorkloads(o *crd.Server) {
	o.Spec.PodSelector, o.Spec.ExternalWorkloadSelector = nil, o.Spec.PodSelector
}

func protocol(name string) func(*crd.Server) {
	return func(o *crd.Server) { o.Spec.ProxyProtocol = name }
}

// aWorkload has ports "name=number".
func aWorkload(name string, ports ...string) *crd.ExternalWorkload {
	o := &crd.ExternalWorkload{ObjectMeta: inNS(name)}
	o.Spec.MeshTLS = crd.MeshTLS{Identity: "spiffe://root/" + name, ServerName: name + ".example"}
	for _, p := range ports {
		name, number := splitPort(p)
		o.Spec.Ports = append(o.Spec.Ports, crd.PortSpec{Name: name, Port: *number})
	}
	return o
}
