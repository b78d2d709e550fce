// Package exportspec computes which Services and ServiceImports are written for exports, and which
// clusters contribute to each, as docs/exports.md and docs/mcs.md describe.
//
// It is a reference implementation for tests: the tests of local/exports/plan and the simulator
// compare Isthmus with it. It is as simple as possible. It does not depend on earlier states, and
// shares no code with Isthmus.
//
// The package assumes that all clusters can be read, and that no name belongs to somebody else's
// object. It does not describe the contents of objects, such as ports, labels and types. The tests
// of local/exports/plan cover these.
package exportspec

import (
	"regexp"
	"strings"
)

// ID identifies an object by namespace and name.
type ID struct{ Namespace, Name string }

// Export is a Service that a cluster offers to other clusters.
type Export struct {
	ID
	Mirror        bool // whether the Service requests a mirror Service
	Federated     bool // whether the Service requests to be a member of a federated Service
	ServiceExport bool // whether a ServiceExport of this name exists
	Headless      bool
	// If Unusable is true, no cluster may export the Service: it does not exist, it is of type
	// ExternalName, or it was written for the exports of other clusters.
	Unusable bool
}

// Joins says what a link Secret allows its cluster to export.
type Joins int

// These are the values of the annotation isthmus.io/exports.
const (
	All Joins = iota
	OnlyMirrors
	None
)

// Cluster is a cluster and the Services that it exports.
type Cluster struct {
	Name    string // empty for the local cluster
	Joins   Joins
	Exports []Export
}

// Written contains the clusters that contribute to each object, in the order of the argument of
// [Of]. Services omits the Services that are derived from ServiceImports.
type Written struct{ Services, Imports map[ID][]string }

// Of returns the objects that are written for the exports of clusters. All clusters are linked to
// the local cluster. The local cluster may be included, with an empty name.
func Of(clusters []Cluster) Written {
	w := Written{Services: make(map[ID][]string), Imports: make(map[ID][]string)}
	for _, c := range clusters {
		for _, e := range c.Exports {
			if e.Unusable || !c.mayExport(e.Namespace) {
				continue
			}
			mirror := ID{e.Namespace, e.Name + "-" + c.Name}
			if e.Mirror && c.Name != "" && MirrorOwner(clusters, mirror.Name) == c.Name {
				add(w.Services, mirror, c.Name)
			}
			if c.Joins == OnlyMirrors {
				continue
			}
			if e.Federated && !e.Headless {
				add(w.Services, ID{e.Namespace, e.Name + "-federated"}, c.Name)
			}
			if e.ServiceExport {
				add(w.Imports, e.ID, c.Name)
			}
		}
	}
	return w
}

// mayExport reports whether a cluster may export Services from a namespace. Linked clusters may not
// export from system namespaces.
func (c *Cluster) mayExport(namespace string) bool {
	return c.Joins != None && (c.Name == "" || !strings.HasPrefix(namespace, "kube-") && namespace != "linkerd")
}

// MirrorOwner returns the name of the link that a mirror's name belongs to. The mirror's name ends
// in a hyphen and the name of the link. If several links match, the longest name wins.
func MirrorOwner(clusters []Cluster, mirror string) (owner string) {
	for _, c := range clusters {
		before, fits := strings.CutSuffix(mirror, "-"+c.Name)
		if c.Name != "" && fits && before != "" && len(c.Name) > len(owner) {
			owner = c.Name
		}
	}
	return owner
}

// label matches valid names of Services.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// add records that a cluster contributes to an object, unless the name is invalid for a Service.
func add(objects map[ID][]string, id ID, cluster string) {
	if label.MatchString(id.Name) {
		objects[id] = append(objects[id], cluster)
	}
}
