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

// CatalogOptions configure a Catalog. Selectors is required.
type CatalogOptions struct {
	// Selectors returns the selectors for the exported Services of a cluster. For the local
	// cluster, Selectors is called with an empty name. Selectors must be safe for concurrent use
	// and must not block. When the selectors of a cluster have changed, call
	// [clusterstore.Store.RelistServices].
	Selectors func(cluster string) plan.Selectors
	// ServiceExports enables watches of ServiceExports in all clusters, and of ServiceImports in
	// the local cluster only.
	ServiceExports bool
	// Defaults are the settings for links whose Secrets have no annotations for exports. The
	// default ExcludeLabels also apply to the local cluster.
	Defaults plan.LinkSettings
}

// Catalog extracts the exports of all clusters from cached objects and link Secrets. A Store and
// its clusters cache the extracted data, from which the Catalog builds the input of a plan. All
// methods are safe for concurrent use.
type Catalog struct {
	o CatalogOptions // fixed after construction

	mu   sync.Mutex
	read map[string]cataloged // by name of the cluster
}

type cataloged struct {
	from     *cluster.CachedExports // source of the other fields
	list     []plan.Export
	services map[plan.ID]*plan.Service // exported or written Services of the local cluster
	imports  map[plan.ID]*plan.ServiceImport
}

func NewCatalog(o CatalogOptions) *Catalog { return &Catalog{o: o} }

// StoreOptions returns the options that make a Store and its clusters cache the data that the
// Catalog needs.
func (c *Catalog) StoreOptions() *clusterstore.ExportOptions {
	return &clusterstore.ExportOptions{
		Hooks:    c.hooks,
		Settings: func(annotations map[string]string) (any, []string) { return c.o.Defaults.Read(annotations) },
	}
}

func (c *Catalog) hooks(name string) cluster.ExportHooks {
	local := name == ""
	hooks := cluster.ExportHooks{
		Service: func(o *corev1.Service) any {
			if e := c.readExported(name, o); e != nil {
				return e
			}
			return nil // an untyped nil, not a nil *plan.Export
		},
		Listed: func(value any) bool { return isListed(value.(*plan.Export), local) },
	}
	if c.o.ServiceExports {
		hooks.ServiceExport = func(o *mcs.ServiceExport) any { return readServiceExport(o, local) }
		hooks.ServiceImport = func(o *mcs.ServiceImport) any { return readImport(o) }
	}
	return hooks
}

// readExported returns the data to cache for a Service, or nil. The data is complete for a Service
// that is exported through labels, and for a local Service that Isthmus or Linkerd's service mirror
// created. For any other Service, the data contains only the fields that a ServiceExport needs.
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

func isListed(e *plan.Export, local bool) bool {
	return e.Mirror || e.Federated || local && plan.IsWritten(e.Service.Labels)
}

// readImport reads only the name and the manager of a ServiceImport that Isthmus did not write.
func readImport(o *mcs.ServiceImport) *plan.ServiceImport {
	if plan.IsWritten(o.Labels) {
		return readServiceImport(o)
	}
	id := plan.ID{Namespace: strings.Clone(o.Namespace), Name: strings.Clone(o.Name)}
	return &plan.ServiceImport{ID: id, Manager: manager(o)}
}

// World returns the exports of all clusters, and local objects with the same names as exports. The
// argument is the result of [clusterstore.Store.Exports]. Callers must set the other inputs of a
// plan: Settings, Now, LeaseOf, and the Lease of each cluster. Callers may change the elements of
// Clusters, but not their Exports.
//
// World returns false until the link Secrets and the local cluster's Services and Namespaces have
// been listed. A plan based on incomplete data would be wrong.
func (c *Catalog) World(all []clusterstore.ClusterExports, linksListed bool) (plan.World, bool) {
	if !linksListed || all[0].Exports == nil || all[0].Exports.Namespaces == nil {
		return plan.World{}, false
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	read := make(map[string]cataloged, len(all))
	world := plan.World{
		Namespaces: all[0].Exports.Namespaces,
		MCSVersion: all[0].Exports.MCSVersion,
		IsTaken:    isTaken(all[0].Exports),
	}
	for _, one := range all {
		known := c.read[one.Name]
		if one.Exports != nil {
			if known.from != one.Exports {
				known = catalog(one.Exports, one.Name == "")
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

// The exports of a cluster with an unusable link Secret stay unchanged, because the settings in the
// Secret are unknown.
func (c *Catalog) cluster(one clusterstore.ClusterExports, known cataloged) plan.Cluster {
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
		p.Synced = true
		p.ServiceExportsSynced = one.Exports.ServiceExports
		p.Emptied = one.Exports.Emptied
		p.Exports = known.list
	}
	return p
}

func catalog(from *cluster.CachedExports, local bool) cataloged {
	read := cataloged{from: from}
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

// isTaken returns the IsTaken function for a plan's World. The IsTaken function reports whether a
// local Service has the given name but is missing from World.Services. The results are cached, so
// that they do not change while the World is in use.
func isTaken(local *cluster.CachedExports) func(plan.ID) bool {
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
