package cluster

import (
	"context"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/local/exports/object"
	"isthmus/local/exports/plan"
)

// exportKind follows one of the kinds that exports are made of, besides Services. Of an object what compact returns is put into all.
func exportKind[O decode.Object, T any](c *Cluster, part int, name string, from decode.Source[O], all map[string]T, compact func(O) (T, bool)) follow.Kind[O, T] {
	same := func(a, b T) bool { return reflect.DeepEqual(a, b) }
	return follow.Kind[O, T]{
		Name: name, Aside: true, Unawaited: true,
		Source:  from,
		Compact: compact,
		Into:    mapStore(c.state, all, same, func(string, T, T) { c.state.exports.parts[part].changed = true }),
		Applied: func() { c.exportsApplied(part) },
	}
}

// namespaces follows Namespaces: whether they are there, and are to stay.
func (c *Cluster) namespaces() follow.Kind[*metav1.PartialObjectMetadata, bool] {
	return exportKind(c, ofNamespaces, "namespaces", c.cfg.Client.Sources.Namespaces, c.state.exports.namespaces,
		func(o *metav1.PartialObjectMetadata) (bool, bool) { return o.DeletionTimestamp == nil, true })
}

// serviceExports follows ServiceExports. One that is being deleted is gone.
func (c *Cluster) serviceExports() follow.Kind[*mcs.ServiceExport, *plan.ServiceExport] {
	k := exportKind(c, ofServiceExports, "serviceexports", c.cfg.Client.Sources.ServiceExports, c.state.exports.serviceExports,
		func(o *mcs.ServiceExport) (*plan.ServiceExport, bool) {
			return object.ReadExport(o, c.cfg.local != nil), o.DeletionTimestamp == nil
		})
	k.Size = serviceExportSize
	return ofMCS(c, ofServiceExports, k)
}

// serviceImports follows ServiceImports. Of those that no gateway wrote no more is kept than that they are there.
func (c *Cluster) serviceImports() follow.Kind[*mcs.ServiceImport, *plan.ServiceImport] {
	return ofMCS(c, ofServiceImports, exportKind(c, ofServiceImports, "serviceimports", c.cfg.Client.Sources.ServiceImports, c.state.exports.imports,
		func(o *mcs.ServiceImport) (*plan.ServiceImport, bool) {
			if !plan.IsWritten(o.Labels) {
				return &plan.ServiceImport{ID: plan.ID{Namespace: strings.Clone(o.Namespace), Name: strings.Clone(o.Name)}, Manager: object.Manager(o)}, true
			}
			return object.ReadImport(o), true
		}))
}

// ofMCS makes it known whether the API has a kind of the MCS-API.
func ofMCS[O decode.Object, T any](c *Cluster, part int, k follow.Kind[O, T]) follow.Kind[O, T] {
	k.Serves = func(ctx context.Context) (bool, error) {
		there, err := c.cfg.Client.Sources.Serves(ctx, k.Name, decode.MCSVersions...)
		if !there && err == nil {
			c.setAbsent(part, true)
		}
		return there, err
	}
	k.Report = func(err error) {
		if err == nil {
			c.setAbsent(part, false)
		}
	}
	return k
}

// setAbsent records whether the API does not have a kind.
func (c *Cluster) setAbsent(part int, absent bool) {
	c.state.mu.Lock()
	p := &c.state.exports.parts[part]
	changed := p.absent != absent
	if p.absent = absent; changed {
		p.listed = true
		c.state.exports.version++
	}
	c.state.mu.Unlock()
	if changed {
		c.cfg.Exports.Changed()
	}
}
