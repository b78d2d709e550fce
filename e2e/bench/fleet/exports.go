package fleet

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/harness/kube"
)

// perNamespace is how many exports of a cluster are in one namespace.
const perNamespace = 50

// exportLabels are Linkerd's, by which the even and the odd exports are exported.
var exportLabels = [...][2]string{{"mirror.linkerd.io/exported", "remote-discovery"}, {"mirror.linkerd.io/federated", "member"}}

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

// ChangeExport gives an export of a linked cluster another value of a label that is copied to what is written. One goroutine may call
// it while another uses the fleet for something else.
func (f *Fleet) ChangeExport(cluster, export int, value string) error {
	c := f.clusters[cluster]
	c.exports[export].Labels["team"] = value
	return c.api.Put(c.exports[export])
}

// writes is what gateways have written into the local cluster, of Services.
type writes struct {
	mu    sync.Mutex
	there int       // more than at first
	last  time.Time // when it was last written
}

// Written returns how many of the Services that gateways created still exist, and when gateways last wrote one.
func (f *Fleet) Written() (there int, last time.Time) {
	f.writes.mu.Lock()
	defer f.writes.mu.Unlock()
	return f.writes.there, f.writes.last
}

// note takes note of a write.
func (w *writes) note(before, after runtime.Object) {
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
