package cluster

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
)

// serverFacts is what is kept of a Server that makes a port opaque, or is malformed: a
// malformed one has no effect and is reported ([Health]). It is immutable.
type serverFacts struct {
	spec      crd.ServerSpec // the source of the other fields
	pods      labels.Selector
	workloads labels.Selector
	name      string // of the port; empty: it is a number
	number    uint16
	invalid   string // why it can't be used; empty: it can
}

// policyServers follows Servers.
func (c *Cluster) policyServers() follow.Kind[*crd.Server, *serverFacts] {
	return follow.Kind[*crd.Server, *serverFacts]{
		Name:    "servers",
		Calls:   custom(c, c.cfg.Client.Servers, crd.PolicyVersion, "servers"),
		Compact: compactServer,
		Into:    lockedStore[*serverFacts]{c.state, c.state.serverStore()},
	}
}

// compactServer leaves out Servers that make nothing opaque.
func compactServer(o *crd.Server) (*serverFacts, bool) {
	if o.Invalid != "" {
		return &serverFacts{invalid: o.Invalid}, true
	}
	if o.Spec.ProxyProtocol != crd.ProtocolOpaque {
		return nil, false
	}
	f := &serverFacts{spec: o.Spec}
	if err := f.read(); err != nil {
		f.invalid = err.Error()
	}
	return f, true
}

func (f *serverFacts) read() (err error) {
	if f.pods, err = readSelector(f.spec.PodSelector); err != nil {
		return fmt.Errorf("podSelector: %w", err)
	}
	if f.workloads, err = readSelector(f.spec.ExternalWorkloadSelector); err != nil {
		return fmt.Errorf("externalWorkloadSelector: %w", err)
	}
	port, ok := &f.spec.Port, true
	if port.Type == intstr.String {
		f.name, ok = port.StrVal, port.StrVal != ""
	} else {
		f.number, ok = portNumber(&port.IntVal)
	}
	if !ok {
		return fmt.Errorf("port: %q is not a port", port)
	}
	return nil
}

// maxTerms is how many terms a selector may have: each is evaluated for every Pod of
// the namespace, and an error lists them all.
const maxTerms = 500

func readSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s != nil {
		terms := len(s.MatchLabels) + len(s.MatchExpressions)
		for i := range s.MatchExpressions {
			terms += len(s.MatchExpressions[i].Values)
		}
		if terms > maxTerms {
			return nil, fmt.Errorf("the selector has %d terms, more than %d", terms, maxTerms)
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, kube.Printable(err)
	}
	return selector, nil
}

func (f *serverFacts) equal(o *serverFacts) bool {
	return f.invalid == o.invalid && reflect.DeepEqual(f.spec, o.spec)
}

// selects reports whether the Server selects Pods or ExternalWorkloads with that
// template. A malformed one, and nil, selects none.
func (f *serverFacts) selects(t *template) bool {
	switch {
	case f == nil || f.invalid != "":
		return false
	case t.external():
		return f.workloads.Matches(&t.labels)
	}
	return f.pods.Matches(&t.labels)
}

// opaqueByServer reports whether a Server of the namespace makes the port opaque for
// Pods or ExternalWorkloads with that template.
//
// It is called when a slice is joined, once for each template and port, and the result
// is not stored: that would cost memory for every Pod and work for every change, while
// there are few Servers and most slices have one template. In a namespace without
// Servers it is a map lookup.
func (s *state) opaqueByServer(namespace string, t *template, port uint16) bool {
	for _, f := range s.servers[namespace] {
		if f.covers(t, port) && f.selects(t) {
			return true
		}
	}
	return false
}

// covers reports whether the Server's port is that one, by number or, if the template
// has a port of that name, by name.
func (f *serverFacts) covers(t *template, port uint16) bool {
	if f.name == "" {
		return f.number == port
	}
	return t.ports.has(f.name, port)
}

func (s *state) serverStore() storeFuncs[*serverFacts] {
	return storeFuncs[*serverFacts]{
		put: s.putServer,
		drop: func(key string) bool {
			namespace, name := follow.SplitKey(key)
			old := s.servers[namespace][name]
			if old == nil {
				return false
			}
			delete(s.servers[namespace], name)
			if len(s.servers[namespace]) == 0 {
				delete(s.servers, namespace)
			}
			s.setUnusable("Server "+key, "")
			s.touchSelected(namespace, old, nil)
			return true
		},
		keys: func(yield func(string) bool) {
			for namespace, all := range s.servers {
				for name := range all {
					if !yield(follow.JoinKey(namespace, name)) {
						return
					}
				}
			}
		},
	}
}

func (s *state) putServer(key string, f *serverFacts) follow.Effect {
	namespace, name := follow.SplitKey(key)
	all := s.servers[namespace]
	if all == nil {
		all = make(map[string]*serverFacts)
		s.servers[namespace] = all
	}
	old := all[name]
	if old != nil && old.equal(f) {
		return follow.Same
	}
	all[name] = f
	s.setUnusable("Server "+key, f.invalid)
	s.touchSelected(namespace, old, f)
	if old == nil {
		return follow.Added
	}
	return follow.Replaced
}

// touchSelected reports that the Pods and ExternalWorkloads which the Server selected,
// or selects now, may have changed. It leaves out those that nothing can refer to, and
// does nothing before the first sync.
func (s *state) touchSelected(namespace string, old, now *serverFacts) {
	if !s.live {
		return
	}
	var t template
	here, outside := namespace+"/", workloadPrefix+namespace+"/"
	for key, p := range s.pods {
		if !strings.HasPrefix(key, here) && !strings.HasPrefix(key, outside) || len(p.slices) == 0 && s.addresses == nil || !p.facts.known() {
			continue
		}
		t = p.facts.fullTemplate()
		if of, _ := p.id(&t); of == namespace && (old.selects(&t) || now.selects(&t)) {
			s.touchPod(p)
		}
	}
}
