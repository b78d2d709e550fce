package fleet

import (
	"fmt"
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/e2e/harness/kube"
)

// Rolling restarts all Pods of a Service in the local cluster, one after the other. A new Pod is there some steps before its endpoint
// takes the place of the old one, and the old Pod as long after that, as it is in real clusters.
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
