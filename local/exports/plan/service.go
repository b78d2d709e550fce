package plan

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Export describes what a cluster exports under one name.
type Export struct {
	ID
	Service           *Service       // nil if there is no such Service
	Mirror, Federated bool           // whether the Service matches the selector
	Exported          *ServiceExport // nil if there is no ServiceExport
}

// invalid returns the reason why a ServiceExport is invalid, or "" for a valid ServiceExport.
func (e *Export) invalid() string {
	if e.Service == nil {
		return "there is no Service with that name"
	}
	return e.Service.unexportable()
}

// A Service that is being deleted counts as missing, because a user may be replacing the Service.
func (e *Export) serviceMissing() bool { return e.Service == nil || e.Service.Deleting }

type ServiceExport struct {
	UID                 string
	Created             time.Time
	Generation          int64
	Labels, Annotations map[string]string  // exportedLabels and exportedAnnotations
	Conditions          []metav1.Condition // set for the local cluster only
}

// Service holds the fields of a Kubernetes Service that a plan reads or sets.
type Service struct {
	ID
	UID                  string
	Deleting             bool
	Type                 string // such as "ClusterIP"
	ClusterIPs           []string
	IPFamilies           []string
	IPFamilyPolicy       string
	Selector             bool   // whether the Service has a selector
	OwnerKind, OwnerName string // of the first ownerReference
	OwnerUID             string
	Labels, Annotations  map[string]string
	Ports                []Port
	Traffic
}

func (s *Service) Headless() bool { return len(s.ClusterIPs) > 0 && s.ClusterIPs[0] == "None" }

func (s *Service) hasIP() bool { return len(s.ClusterIPs) > 0 && !s.Headless() }

func (s *Service) firstFamily() string {
	if !s.hasIP() {
		return ""
	}
	return families(s.ClusterIPs[:1])[0]
}

// onlyIPv6 reports whether IPv6 is the Service's only IP family. If the IP families are unknown,
// onlyIPv6 returns false.
func (s *Service) onlyIPv6() bool {
	return slices.Equal(s.IPFamilies, []string{"IPv6"})
}

// cannotGetIPs reports whether the Service must be recreated to restore its previous IPs.
func (s *Service) cannotGetIPs() bool { return s.Headless() || s.Type == "ExternalName" }

// unexportable returns the reason why a Service cannot be exported, or "" if it can. Exporting a
// Service that was created by Isthmus or by a service mirror would cause a cycle.
func (s *Service) unexportable() string {
	switch {
	case s.Type == "ExternalName":
		return "it is of type ExternalName"
	case IsWritten(s.Labels) || s.OwnerKind == "ServiceImport":
		return "the Service was created for exports of other clusters"
	case s.Deleting:
		return "it is being deleted"
	}
	return ""
}

// Reduce drops the fields of the Service that plans do not need for a ServiceExport. Reduce does
// not change the result of [IsWritten] for the Service.
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

// Traffic holds the fields that a ServiceImport copies from its Services.
type Traffic struct {
	SessionAffinity       string // empty means "None"
	AffinitySeconds       int32
	InternalTrafficPolicy string
	TrafficDistribution   string
}

// usable replaces invalid values with the defaults that API servers apply.
func (t Traffic) usable() Traffic {
	const longest, standard = 86400, 10800 // in seconds
	switch t.SessionAffinity {
	case "ClientIP":
		if t.AffinitySeconds < 1 || t.AffinitySeconds > longest {
			t.AffinitySeconds = standard
		}
	case "":
		t.AffinitySeconds = 0
	default:
		t.SessionAffinity = "None"
		t.AffinitySeconds = 0
	}
	if t.InternalTrafficPolicy != "Local" && t.InternalTrafficPolicy != "Cluster" {
		t.InternalTrafficPolicy = ""
	}
	if !validValue(t.TrafficDistribution) {
		t.TrafficDistribution = ""
	}
	return t
}

func families(ips []string) (all []string) {
	for _, ip := range ips {
		if strings.Contains(ip, ":") {
			all = append(all, "IPv6")
		} else {
			all = append(all, "IPv4")
		}
	}
	return all
}

// Selectors select a cluster's exported Services by their labels. The selector functions must be
// safe for concurrent use, must not block, and must not modify or retain their arguments. The zero
// value selects nothing.
type Selectors struct {
	Mirror, Federated func(labels map[string]string) bool // nil selects nothing
	// ExcludedLabels and ExcludedAnnotations report whether a key must not be copied. A nil
	// function excludes no keys.
	ExcludedLabels, ExcludedAnnotations func(key string) bool
}

func (s Selectors) Match(labels map[string]string) (mirror, federated bool) {
	return s.Mirror != nil && s.Mirror(labels), s.Federated != nil && s.Federated(labels)
}

// Export returns the export of a Service, and removes excluded labels and annotations from the
// Service. If Isthmus or Linkerd's service mirror created the Service, Export keeps all labels and
// annotations, so that [IsWritten] still recognizes the Service.
func (s Selectors) Export(o *Service, mirror, federated bool) *Export {
	if !IsWritten(o.Labels) {
		exclude(o.Labels, s.ExcludedLabels)
		exclude(o.Annotations, s.ExcludedAnnotations)
	}
	return &Export{ID: o.ID, Service: o, Mirror: mirror, Federated: federated}
}

func exclude(from map[string]string, excluded func(string) bool) {
	if excluded != nil {
		maps.DeleteFunc(from, func(key, _ string) bool { return excluded(key) })
	}
}
