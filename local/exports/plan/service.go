package plan

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Export is one name that a cluster exports.
type Export struct {
	ID
	Service           *Service       // nil: there is no such Service
	Mirror, Federated bool           // the Service matches the selector for these
	Exported          *ServiceExport // nil: there is none
}

// invalid returns why a ServiceExport is not valid; empty: it is valid.
func (e *Export) invalid() string {
	if e.Service == nil {
		return "there is no Service of that name"
	}
	return e.Service.unexportable()
}

// serviceMissing reports whether there is no Service behind a ServiceExport. It may be about to be created anew.
func (e *Export) serviceMissing() bool { return e.Service == nil || e.Service.Deleting }

// ServiceExport is what is read of a ServiceExport.
type ServiceExport struct {
	UID                 string
	Created             time.Time
	Generation          int64
	Labels, Annotations map[string]string  // exportedLabels and exportedAnnotations
	Conditions          []metav1.Condition // of the own cluster only
}

// Service is what is read of a Service, as an export or as an object that may be written.
type Service struct {
	ID
	UID                  string
	Deleting             bool
	Type                 string // "ClusterIP" and so on
	ClusterIPs           []string
	IPFamilies           []string
	IPFamilyPolicy       string
	Selector             bool   // it has one
	OwnerKind, OwnerName string // of the first one
	OwnerUID             string
	Labels, Annotations  map[string]string
	Ports                []Port
	Traffic
}

// Headless reports whether the Service has no IP.
func (s *Service) Headless() bool { return len(s.ClusterIPs) > 0 && s.ClusterIPs[0] == "None" }

// hasIP reports whether the Service has a ClusterIP.
func (s *Service) hasIP() bool { return len(s.ClusterIPs) > 0 && !s.Headless() }

// firstFamily returns the IP family of the first ClusterIP.
func (s *Service) firstFamily() string {
	if !s.hasIP() {
		return ""
	}
	return families(s.ClusterIPs[:1])[0]
}

// onlyIPv6 reports whether IPv6 is the Service's only IP family. It returns false if the families
// are not known.
func (s *Service) onlyIPv6() bool {
	return slices.Equal(s.IPFamilies, []string{"IPv6"})
}

// cannotGetIPs reports whether no update can give a Service the IPs that it had before.
func (s *Service) cannotGetIPs() bool { return s.Headless() || s.Type == "ExternalName" }

// unexportable returns why a Service can't be exported; empty: it can. What a gateway or service mirror
// wrote would go round in a circle.
func (s *Service) unexportable() string {
	switch {
	case s.Type == "ExternalName":
		return "it is of type ExternalName"
	case IsWritten(s.Labels) || s.OwnerKind == "ServiceImport":
		return "it was written for the exports of other clusters"
	case s.Deleting:
		return "it is being deleted"
	}
	return ""
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

// Traffic are fields that a ServiceImport has of its Services.
type Traffic struct {
	SessionAffinity       string // empty: "None"
	AffinitySeconds       int32
	InternalTrafficPolicy string
	TrafficDistribution   string
}

// usable returns the fields as the API keeps them in a Service, and in few bytes.
func (t Traffic) usable() Traffic {
	const longest, standard = 86400, 10800 // seconds
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

// families returns those of addresses.
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

func exclude(from map[string]string, excluded func(string) bool) {
	if excluded != nil {
		maps.DeleteFunc(from, func(key, _ string) bool { return excluded(key) })
	}
}
