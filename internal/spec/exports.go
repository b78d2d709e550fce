package spec

import (
	"regexp"
	"strings"
)

type ID struct{ Namespace, Name string }

// Export is a Service that a cluster offers to other clusters.
type Export struct {
	ID
	Mirror        bool // whether the Service requests a mirror Service
	Federated     bool // whether the Service requests to be a member of a federated Service
	ServiceExport bool // whether a ServiceExport of this name exists
	Headless      bool
	// Unusable is true if the Service does not exist, has the type ExternalName, or was created for
	// exports of other clusters.
	Unusable bool
}

// Joins specifies which kinds of exports a link Secret allows for its cluster.
type Joins int

const (
	JoinAll Joins = iota
	JoinOnlyMirrors
	JoinNone
)

type Exporter struct {
	Name    string // empty for the local cluster
	Joins   Joins
	Exports []Export
}

// Written contains the clusters that contribute to each object, in the order in which [WrittenFor]
// received the clusters. The Services field omits Services that are derived from ServiceImports.
type Written struct{ Services, Imports map[ID][]string }

// WrittenFor returns the objects that Isthmus writes for the exports of the given clusters, which
// must be linked to the local cluster. The list may contain the local cluster itself, with an empty
// name.
func WrittenFor(clusters []Exporter) Written {
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
			if c.Joins == JoinOnlyMirrors {
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

// mayExport reports whether a cluster is allowed to export Services from a namespace. Linked
// clusters are not allowed to export Services from system namespaces.
func (c *Exporter) mayExport(namespace string) bool {
	return c.Joins != JoinNone && (c.Name == "" || !strings.HasPrefix(namespace, "kube-") && namespace != "linkerd")
}

// MirrorOwner returns the name of the link to which a mirror Service belongs. The name of a mirror
// Service ends with a hyphen and the name of the link. If several links match, the link with the
// longest name wins.
func MirrorOwner(clusters []Exporter, mirror string) (owner string) {
	for _, c := range clusters {
		before, fits := strings.CutSuffix(mirror, "-"+c.Name)
		if c.Name != "" && fits && before != "" && len(c.Name) > len(owner) {
			owner = c.Name
		}
	}
	return owner
}

var serviceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func add(objects map[ID][]string, id ID, cluster string) {
	if serviceName.MatchString(id.Name) {
		objects[id] = append(objects[id], cluster)
	}
}
