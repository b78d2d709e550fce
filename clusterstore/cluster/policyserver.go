package cluster

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/kube"
)

// serverFacts is what is kept of a Server that makes a port opaque, or is malformed: a
// malformed one has no effect and is reported ([Health]). It is immutable.
type serverFacts struct {
	spec      decode.ServerSpec // the source of the other fields
	pods      labels.Selector
	workloads labels.Selector
	name      string // of the port; empty: it is a number
	number    uint16
	invalid   string // why it can't be used; empty: it can
}

// serverKind returns how the cluster follows Servers.
func serverKind(c *Cluster) follow.Kind[*decode.Server, *serverFacts] {
	return follow.Kind[*decode.Server, *serverFacts]{
		Name:    "servers",
		Source:  c.cfg.Client.Sources.Servers,
		Serves:  c.serves(decode.PolicyVersion.WithResource("servers")),
		Compact: compactServer,
		Size:    (*serverFacts).size,
		Into:    mapStore(c.state, c.state.policies.servers, (*serverFacts).equal, c.state.policies.setServer),
	}
}

// compactServer leaves out Servers that make nothing opaque.
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
		f.name, ok = port.StrVal, port.StrVal != ""
	} else {
		f.number, ok = portNumber(&port.IntVal)
	}
	if !ok {
		return fmt.Errorf("port: %q is not a port", port)
	}
	return nil
}

// size is what the state takes for a Server: the specification, the selectors that are made of it, and the namespace's
// policy, in which it may be alone.
func (f *serverFacts) size(key string) int64 {
	return sizeof[serverFacts]() + 2*indexEntry[*serverFacts]() + indexEntry[*policy]() + policySize +
		selectorMemory(f.spec.PodSelector) + selectorMemory(f.spec.ExternalWorkloadSelector) +
		textSize(f.spec.Port.StrVal) + textSize(f.spec.ProxyProtocol) + unusableSize("Server "+key, f.invalid)
}

// selectorMemory is what a selector takes, in bytes: as it is read, and as it is evaluated.
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
	return f.invalid == o.invalid && reflect.DeepEqual(f.spec, o.spec)
}

// cost is what the Server counts in its namespace's policy: one, and one more for each
// key and value of its selectors. A malformed one has none.
func (f *serverFacts) cost() int {
	if f.invalid != "" {
		return 1
	}
	return 1 + selectorSize(f.spec.PodSelector) + selectorSize(f.spec.ExternalWorkloadSelector)
}

// maxSelectorSize is how many keys and values a selector may have.
const maxSelectorSize = 500

// readSelector reads a selector; nil selects nothing.
func readSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	if size := selectorSize(s); size > maxSelectorSize { // an error would list them all
		return nil, fmt.Errorf("the selector has %d keys and values, more than %d", size, maxSelectorSize)
	}
	made, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, kube.Printable(err)
	}
	return made, nil
}

// selectorSize is how many keys and values a selector has.
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
