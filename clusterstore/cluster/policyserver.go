package cluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
)

// serverFacts is the cached form of a Server that makes a port opaque or is malformed. Malformed
// Servers have no effect and are reported in [Health]. A serverFacts is immutable.
type serverFacts struct {
	spec      decode.ServerSpec // specification from which the other fields are derived
	pods      labels.Selector
	workloads labels.Selector
	name      string // name of the port; empty if the port is a number
	number    uint16
	invalid   string // why the Server cannot be used; otherwise empty
}

func serverKind(c *Cluster) follow.Kind[*decode.Server, *serverFacts] {
	return follow.Kind[*decode.Server, *serverFacts]{
		Name:    "servers",
		Source:  c.cfg.Client.Sources.Servers,
		Serves:  c.serves(decode.PolicyVersion.WithResource("servers")),
		Compact: compactServer,
		Size:    (*serverFacts).size,
		Into:    mapStore(c.cache, c.cache.policies.servers, (*serverFacts).equal, c.cache.policies.setServer),
	}
}

// Servers that do not make a port opaque are not cached.
func compactServer(o *decode.Server) (*serverFacts, bool) {
	if o.Invalid != "" {
		return &serverFacts{invalid: o.Invalid}, true
	}
	if o.Spec.ProxyProtocol != decode.ProtocolOpaque {
		return nil, false
	}
	f := &serverFacts{spec: o.Spec}
	if err := f.read(); err != nil {
		f.invalid = err.Error()
	}
	return f, true
}

// If f is invalid, expandServer returns nil.
func expandServer(f *serverFacts) *decode.Server { return &decode.Server{Spec: f.spec} }

func (f *serverFacts) read() (err error) {
	if f.pods, err = readSelector(f.spec.PodSelector); err != nil {
		return fmt.Errorf("podSelector: %w", err)
	}
	if f.workloads, err = readSelector(f.spec.ExternalWorkloadSelector); err != nil {
		return fmt.Errorf("externalWorkloadSelector: %w", err)
	}
	port := &f.spec.Port
	ok := true
	if port.Type == intstr.String {
		f.name = port.StrVal
		ok = port.StrVal != ""
	} else {
		f.number, ok = portNumber(&port.IntVal)
	}
	if !ok {
		return fmt.Errorf("port: %q is not a port", port)
	}
	return nil
}

// The estimated size of each Server includes the full size of the namespace's policy, although all
// Servers in the namespace share this policy.
func (f *serverFacts) size(key string) int64 {
	return sizeof[serverFacts]() + 2*indexEntry[*serverFacts]() + indexEntry[*policy]() + policySize +
		selectorMemory(f.spec.PodSelector) + selectorMemory(f.spec.ExternalWorkloadSelector) +
		textSize(f.spec.Port.StrVal) + textSize(f.spec.ProxyProtocol) + unusableSize("Server "+key, f.invalid)
}

// selectorMemory estimates how many bytes the specification and the parsed form of a selector use
// together.
func selectorMemory(s *metav1.LabelSelector) int64 {
	if s == nil {
		return 0
	}
	n := sizeof[metav1.LabelSelector]() +
		valueSize(s.MatchLabels) +
		listSize[metav1.LabelSelectorRequirement](cap(s.MatchExpressions)) +
		listSize[labels.Requirement](2*(len(s.MatchLabels)+len(s.MatchExpressions))) +
		int64(len(s.MatchLabels))*listSize[string](1)
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		n += textSize(e.Key) + textSize(string(e.Operator)) + textsSize(e.Values) + listSize[string](len(e.Values))
	}
	return n
}

func (f *serverFacts) equal(o *serverFacts) bool {
	return f.invalid == o.invalid && equality.Semantic.DeepEqual(f.spec, o.spec)
}

// cost returns the cost of the Server, which counts toward maxPolicy. The cost of a valid Server is
// 1, plus 1 for each label and expression in its selectors, plus 1 for each value in these
// expressions. The cost of a malformed Server is 1.
func (f *serverFacts) cost() int {
	if f.invalid != "" {
		return 1
	}
	return 1 + selectorSize(f.spec.PodSelector) + selectorSize(f.spec.ExternalWorkloadSelector)
}

const maxSelectorSize = 500

// readSelector parses a selector. A nil selector matches nothing.
func readSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	if size := selectorSize(s); size > maxSelectorSize { // LabelSelectorAsSelector would list them in its error
		return nil, fmt.Errorf("the selector contains %d keys and values, but the limit is %d", size, maxSelectorSize)
	}
	made, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, kube.Printable(err)
	}
	return made, nil
}

func selectorSize(s *metav1.LabelSelector) int {
	if s == nil {
		return 0
	}
	size := len(s.MatchLabels) + len(s.MatchExpressions)
	for i := range s.MatchExpressions {
		size += len(s.MatchExpressions[i].Values)
	}
	return size
}
