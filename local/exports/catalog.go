package exports

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore"
	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/local/exports/plan"
)

// CatalogOptions configure a Catalog. Selectors is needed.
type CatalogOptions struct {
	// Selectors returns which Services of a cluster are exported. The name is empty for the local one. It is called
	// by several goroutines and must not block. When its result has changed, call
	// [clusterstore.Store.SelectorsChanged].
	Selectors func(cluster string) plan.Selectors
	// ServiceExports is whether ServiceExports, and ServiceImports of the local cluster, are followed.
	ServiceExports bool
	// Defaults are the settings of a link whose Secret has no annotations for exports. Their ExcludeLabels are also
	// those of the local cluster.
	Defaults plan.LinkSettings
}

// Catalog decides what clusters export. A Store and its clusters cache what the Catalog reads from their objects and
// from link Secrets, and the Catalog makes the world of a plan from that. All methods are safe for concurrent use.
type Catalog struct {
	o CatalogOptions // fixed

	mu   sync.Mutex
	read map[string]catalogued // by the name of the cluster
}

// catalogued is what a cluster exports.
type catalogued struct {
	from     *cluster.Exports // what it was made from
	list     []plan.Export
	services map[plan.ID]*plan.Service // of the local cluster: those that are exported or written
	imports  map[plan.ID]*plan.ServiceImport
}

// NewCatalog returns a Catalog that has read nothing yet.
func NewCatalog(o CatalogOptions) *Catalog { return &Catalog{o: o} }

// StoreOptions returns the options that make a Store and its clusters cache what the Catalog needs.
func (c *Catalog) StoreOptions() *clusterstore.ExportOptions {
	return &clusterstore.ExportOptions{
		Hooks:    c.hooks,
		Settings: func(annotations map[string]string) (any, []string) { return c.o.Defaults.Read(annotations) },
	}
}

// hooks returns the hooks of a cluster. The name is empty for the local one.
func (c *Catalog) hooks(name string) cluster.ExportHooks {
	local := name == ""
	hooks := cluster.ExportHooks{
		Service: func(o *corev1.Service) any {
			if e := c.readExported(name, o); e != nil {
				return e
			}
			return nil // and no pointer that is nil
		},
		Listed: func(value any) bool { return isListed(value.(*plan.Export), local) },
	}
	if c.o.ServiceExports {
		hooks.ServiceExport = func(o *mcs.ServiceExport) any { return readServiceExport(o, local) }
		hooks.ServiceImport = func(o *mcs.ServiceImport) any { return readImport(o) }
	}
	return hooks
}

// readExported reads a Service of a cluster. The result has all of a Service that is exported by its labels or, in
// the local cluster, was written for exports. Of other Services it has what their ServiceExports need. If there is
// nothing to cache, it is nil.
func (c *Catalog) readExported(cluster string, o *corev1.Service) *plan.Export {
	selectors := c.o.Selectors(cluster)
	mirror, federated := selectors.Match(o.Labels)
	whole := mirror || federated || cluster == "" && plan.IsWritten(o.Labels)
	if !whole && !c.o.ServiceExports {
		return nil
	}

	read := readService(o)
	if !c.o.ServiceExports {
		read.Traffic = plan.Traffic{} // only ServiceImports have these fields
	}
	e := selectors.Export(read, mirror, federated)
	if !whole {
		e.Service.Reduce()
	}
	return e
}

// isListed reports whether a Service is exported by its labels or, in the local cluster, was written for exports.
func isListed(e *plan.Export, local bool) bool {
	return e.Mirror || e.Federated || local && plan.IsWritten(e.Service.Labels)
}

// readImport reads a ServiceImport. Of one that Isthmus has not written, the result has only the name and the manager.
func readImport(o *mcs.ServiceImport) *plan.ServiceImport {
	if plan.IsWritten(o.Labels) {
		return readServiceImport(o)
	}
	id := plan.ID{Namespace: strings.Clone(o.Namespace), Name: strings.Clone(o.Name)}
	return &plan.ServiceImport{ID: id, Manager: manager(o)}
}

// World returns what all clusters export, and what is there under the names of exports, from the results of
// [clusterstore.Store.Exports]. It lacks what else a plan depends on: Settings, Now, LeaseOf, and the Lease of each
// cluster. It is false while a plan would be wrong: the local cluster's Services or Namespaces, or the link Secrets,
// have not been listed yet. Callers may change the elements of its Clusters, but not their Exports.
func (c *Catalog) World(all []clusterstore.ClusterExports, linksListed bool) (plan.World, bool) {
	if !linksListed || all[0].Exports == nil || all[0].Exports.Namespaces == nil {
		return plan.World{}, false
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	read := make(map[string]catalogued, len(all))
	world := plan.World{
		Namespaces: all[0].Exports.Namespaces,
		MCSVersion: all[0].Exports.MCSVersion,
		IsTaken:    isTaken(all[0].Exports),
	}
	for _, one := range all {
		known := c.read[one.Name]
		if one.Exports != nil {
			if known.from != one.Exports {
				known = catalogue(one.Exports, one.Name == "")
			}
			read[one.Name] = known
		}
		world.Clusters = append(world.Clusters, c.cluster(one, known))
	}
	c.read = read
	world.Services = read[""].services
	world.Imports = read[""].imports
	return world, true
}

// cluster returns a cluster as plans have it. What a link exports that can't be used stays as it is, because the
// settings of its Secret are not known.
func (c *Catalog) cluster(one clusterstore.ClusterExports, known catalogued) plan.Cluster {
	p := plan.Cluster{Name: one.Name, Domain: one.Domain, Age: one.Linked, OtherNetwork: one.OtherNetwork}
	switch settings, readable := one.Settings.(plan.LinkSettings); {
	case one.Name == "":
		p.ExcludeLabels = c.o.Defaults.ExcludeLabels
	case !readable:
		p.Joins = plan.Unreadable
		return p
	default:
		p.LinkSettings = settings
	}
	if one.Exports != nil {
		p.Seen = true
		p.SeenServiceExports = one.Exports.ServiceExports
		p.Emptied = one.Exports.Emptied
		p.Exports = known.list
	}
	return p
}

// catalogue joins what the hooks returned for the objects of a cluster.
func catalogue(from *cluster.Exports, local bool) catalogued {
	read := catalogued{from: from}
	if local {
		read.services = make(map[plan.ID]*plan.Service)
	}
	for _, one := range from.List {
		e := plan.Export{ID: plan.ID(one.ID)}
		if service, ok := one.Service.(*plan.Export); ok {
			e.Service = service.Service
			e.Mirror = service.Mirror
			e.Federated = service.Federated
			if local && isListed(service, local) {
				read.services[e.ID] = service.Service
			}
		}
		e.Exported, _ = one.ServiceExport.(*plan.ServiceExport)
		if e.Mirror || e.Federated || e.Exported != nil {
			read.list = append(read.list, e)
		}
	}
	if from.Imports != nil {
		read.imports = make(map[plan.ID]*plan.ServiceImport, len(from.Imports))
		for id, value := range from.Imports {
			read.imports[plan.ID(id)] = value.(*plan.ServiceImport)
		}
	}
	return read
}

// isTaken returns the function of a plan's world that reports whether the local cluster has a Service that is neither
// exported nor written. It returns the same for as long as the world is used.
func isTaken(local *cluster.Exports) func(plan.ID) bool {
	var mu sync.Mutex
	answers := make(map[plan.ID]bool)
	return func(id plan.ID) bool {
		mu.Lock()
		defer mu.Unlock()
		taken, known := answers[id]
		if !known {
			taken = local.Unlisted(federation.ServiceID(id))
			answers[id] = taken
		}
		return taken
	}
}
