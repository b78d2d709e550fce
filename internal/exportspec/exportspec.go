// Package exportspec computes which Services and ServiceImports are written for exports, and which clusters have a part
// in each, as docs/exports.md and docs/mcs.md say.
//
// It is test code: the laws of local/exports/plan and the simulator compare Isthmus with it. It is as plain as can be,
// depends on nothing that came before, and shares no code with Isthmus.
//
// The package says nothing about the contents of objects: ports, labels and types are subject of the tests of
// local/exports/plan. It describes a world in which all clusters can be read and no name is taken by somebody else.
package exportspec

import (
	"regexp"
	"strings"
)

// ID names an object.
type ID struct{ Namespace, Name string }

// Export is a Service that a cluster offers to other clusters.
type Export struct {
	ID
	Mirror        bool // a mirror Service is asked for
	Federated     bool // it asks to be a member of a federated Service
	ServiceExport bool // there is a ServiceExport of that name
	Headless      bool
	// Unusable means that no cluster may export the Service: there is none, it is of type ExternalName, or it was
	// written for the exports of other clusters.
	Unusable bool
}

// Joins says what a link Secret lets its cluster export.
type Joins int

// The values of the annotation isthmus.io/exports.
const (
	All Joins = iota
	OnlyMirrors
	None
)

// Cluster is a cluster that can be read.
type Cluster struct {
	Name    string // empty for the local cluster
	Joins   Joins
	Exports []Export
}

// Written has the clusters that have a part in each object, in the order of the argument of [Of]. The Services
// that are derived from ServiceImports are not among the Services.
type Written struct{ Services, Imports map[ID][]string }

// Of returns what is written for the exports of clusters. The local cluster is empty or has no name, and all clusters
// are linked to it.
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

// mayExport reports whether a cluster may export from a namespace. A linked cluster may not use those of the system.
func (c *Cluster) mayExport(namespace string) bool {
	return c.Joins != None && (c.Name == "" || !strings.HasPrefix(namespace, "kube-") && namespace != "linkerd")
}

// MirrorOwner returns the link to which the name of a mirror belongs: the link with the longest name that the name
// ends in, after a hyphen.
func MirrorOwner(clusters []Cluster, mirror string) (owner string) {
	for _, c := range clusters {
		before, fits := strings.CutSuffix(mirror, "-"+c.Name)
		if c.Name != "" && fits && before != "" && len(c.Name) > len(owner) {
			owner = c.Name
		}
	}
	return owner
}

// label matches what the name of a Service may be.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// add records that a cluster has a part in an object, unless no Service may have the name.
func add(objects map[ID][]string, id ID, cluster string) {
	if label.MatchString(id.Name) {
		objects[id] = append(objects[id], cluster)
	}
}
