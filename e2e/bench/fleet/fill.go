package fleet

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/e2e/harness/kube"
)

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
	return c.endpointOf(i), c.api.Put(Pod(i))
}

// endpointOf returns the endpoint of a Pod.
func (c *member) endpointOf(pod int) discoveryv1.Endpoint {
	return kube.PodEndpoint(address(c.number, pod), Namespace, podName(pod))
}

func address(cluster, i int) string {
	n := cluster<<18 | i
	return fmt.Sprintf("%d.%d.%d.%d", 10+n>>24, n>>16&0xff, n>>8&0xff, n&0xff)
}

func podName(i int) string { return fmt.Sprintf("web-5f79f964bc-%06d", i) }

// Pod returns a Pod of any cluster, by number, as it is at first.
func Pod(i int) *corev1.Pod {
	p := kube.Mesh(kube.Pod(Namespace, podName(i), ""))
	p.Labels[kube.HashLabel] = "5f79f964bc"
	return p
}
