package plan

import (
	"maps"
	"slices"
)

// Selectors choose which Services of a cluster are exported, by their labels. The functions are called by several
// goroutines, must not block, and neither change nor keep what they get. The zero value selects nothing.
type Selectors struct {
	Mirror, Federated func(labels map[string]string) bool // nil: none
	// ExcludedLabels and ExcludedAnnotations report whether a key is not to be copied; nil: what is copied is as
	// always.
	ExcludedLabels, ExcludedAnnotations func(key string) bool
}

// Match reports as what a Service with these labels is exported.
func (s Selectors) Match(labels map[string]string) (mirror, federated bool) {
	return s.Mirror != nil && s.Mirror(labels), s.Federated != nil && s.Federated(labels)
}

// Export returns what is exported by a Service, which it may change: what is not to be copied goes. But what was
// written keeps all: that must not be mistaken for an export.
func (s Selectors) Export(o *Service, mirror, federated bool) *Export {
	if !IsWritten(o.Labels) {
		exclude(o.Labels, s.ExcludedLabels)
		exclude(o.Annotations, s.ExcludedAnnotations)
	}
	return &Export{ID: o.ID, Service: o, Mirror: mirror, Federated: federated}
}

// Reduce drops of a Service what a ServiceExport of its name has no use for. It is still known to be written if it is.
func (s *Service) Reduce() {
	s.UID, s.OwnerUID, s.ClusterIPs = "", "", s.ClusterIPs[:min(1, len(s.ClusterIPs))]
	exclude(s.Labels, func(key string) bool { return key != markLabel && key != mirroredLabel })
	exclude(s.Annotations, func(key string) bool {
		copied, _ := copyAnnotation(key)
		return !copied && !slices.Contains(preferenceKeys, key)
	})
	if len(s.Labels) == 0 {
		s.Labels = nil
	}
	if len(s.Annotations) == 0 {
		s.Annotations = nil
	}
}

func exclude(from map[string]string, excluded func(string) bool) {
	if excluded != nil {
		maps.DeleteFunc(from, func(key, _ string) bool { return excluded(key) })
	}
}
