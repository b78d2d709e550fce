package cluster

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/follow"
)

// serverFacts is what is kept of a Server that makes a port opaque, or is malformed: a
// malformed one has no effect and is reported ([Health]). It is immutable.
type serverFacts struct {
	spec      crd.ServerSpec // the source of the other fields
	pods      *selector
	workloads *selector
	name      string // of the port; empty: it is a number
	number    uint16
	invalid   string // why it can't be used; empty: it can
}

// policyServers follows Servers.
func (c *Cluster) policyServers() follow.Kind[*crd.Server, *serverFacts] {
	return follow.Kind[*crd.Server, *serverFacts]{
		Name:    "servers",
		Source:  c.cfg.Client.Sources.Servers,
		Serves:  c.serves(crd.PolicyVersion.WithResource("servers")),
		Compact: compactServer,
		Into:    lockedStore[*serverFacts]{c.state, c.state.serverStore()},
		Same:    (*serverFacts).equal,
		Changed: func(key string, _ *serverFacts, _ bool) { c.logExcess(key) },
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

func (f *serverFacts) equal(o *serverFacts) bool {
	return f.invalid == o.invalid && reflect.DeepEqual(f.spec, o.spec)
}

// cost is what the Server counts in its namespace's policy: one, and one more for each
// key and value of its selectors.
func (f *serverFacts) cost() int {
	n := 1
	for _, s := range [...]*selector{f.pods, f.workloads} {
		if s != nil {
			n += s.size
		}
	}
	return n
}

// maySelect returns false only if the Server surely does not select Pods or
// ExternalWorkloads with that template. A malformed one, and nil, selects none.
func (f *serverFacts) maySelect(t *template) bool {
	switch {
	case f == nil || f.invalid != "":
		return false
	case t.external():
		return f.workloads.maySelect(&t.labels)
	}
	return f.pods.maySelect(&t.labels)
}

func (s *state) serverStore() storeFuncs[*serverFacts] {
	return storeFuncs[*serverFacts]{
		put: s.putServer,
		get: func(key string) (*serverFacts, bool) {
			namespace, name := follow.SplitKey(key)
			p := s.policies[namespace]
			if p == nil {
				return nil, false
			}
			return p.servers[name], p.servers[name] != nil
		},
		drop: func(key string) bool {
			namespace, name := follow.SplitKey(key)
			p := s.policies[namespace]
			if p == nil || p.servers[name] == nil {
				return false
			}
			s.setServer(namespace, name, p, nil)
			if len(p.servers) == 0 {
				delete(s.policies, namespace)
			}
			return true
		},
		keys: func(yield func(string) bool) {
			for namespace, p := range s.policies {
				for name := range p.servers {
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
	p := s.policies[namespace]
	if p == nil {
		p = &policy{servers: make(map[string]*serverFacts)}
		s.policies[namespace] = p
	}
	old := p.servers[name]
	if old != nil && old.equal(f) {
		return follow.Same
	}
	s.setServer(namespace, name, p, f)
	if old == nil {
		return follow.Added
	}
	return follow.Replaced
}

// setServer changes a Server of a namespace's policy; nil: it is gone.
func (s *state) setServer(namespace, name string, p *policy, f *serverFacts) {
	old, before := p.servers[name], p.excess()
	p.set(s, name, f)
	reason := ""
	if f != nil {
		reason = f.invalid
	}
	s.setUnusable("Server "+follow.JoinKey(namespace, name), reason)
	s.setUnusable("Servers of namespace "+namespace, p.excess())
	s.touchSelected(namespace, old, f, before != "" || p.excess() != "")
}

// touchSelected reports that the Pods and ExternalWorkloads which the Server selected,
// or selects now, may have changed; with all, those of all Servers of the namespace. It
// leaves out those that nothing can refer to, and does nothing before the first sync.
//
// Selectors are not evaluated here, under state.mu, but where slices are joined again:
// what has not changed is not published.
func (s *state) touchSelected(namespace string, old, now *serverFacts, all bool) {
	if !s.live {
		return
	}
	for _, p := range s.pods.near(namespace) {
		if len(p.slices) == 0 && s.addresses == nil || !p.facts.known() || p.namespace() != namespace {
			continue
		}
		if t := p.facts.fullTemplate(); all || old.maySelect(&t) || now.maySelect(&t) {
			s.touchPod(p)
		}
	}
}
