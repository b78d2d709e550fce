package exports

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/clusterstore/kube"
	"isthmus/local/exports/plan"
)

const (
	Service       = "Service"
	ServiceImport = "ServiceImport"
	ServiceExport = "ServiceExport"
)

// Object identifies a written object, or the object's status if the status is written separately.
type Object struct {
	Kind string // Service, ServiceImport or ServiceExport
	plan.ID
	Status bool
}

func (o Object) String() string { return o.Kind + " " + o.ID.String() }

// Verb is the operation on an object. The verbs are also the values of a metric label.
type Verb string

const (
	Create Verb = "create"
	Update Verb = "update"
	Status Verb = "status"
	Delete Verb = "delete"
	none   Verb = ""
)

type Change struct {
	Object
	Verb Verb
	Of   plan.ID   // name of the exports
	For  plan.Kind // kind of the object; empty if unknown
	// Before and After have the type *plan.Service, *plan.ServiceImport or []metav1.Condition.
	// Before is nil for a creation, and After is nil for a deletion.
	Before, After any

	waits   bool          // another object must be written first
	turn    string        // group in which writes take turns
	content func() string // identifies the wanted content
	known   func() string // identifies the cached content; nil if the API stores all fields
	do      do
}

// Groups of writes take turns. Given the group for writes to Services, turnOfImport returns the
// group for writes to ServiceImports and ServiceExports. Services are in a separate group, so that
// slow responses for ServiceImports or ServiceExports do not delay writes to Services. All objects
// that are not requested by any export belong to the same group, regardless of their kind.
func turnOfImport(turn string) string {
	if turn == plan.SharedTurn {
		return turn
	}
	return "MCS " + turn
}

type client[O any] func(w *Writer, namespace string) kube.WithStatus[O]

// Changes returns the writes that turn the existing objects into the planned objects. Deletions
// come last.
func Changes(world plan.World, p *plan.Plan) (all []Change) {
	services := client[*corev1.Service](func(w *Writer, namespace string) kube.WithStatus[*corev1.Service] {
		return creator{w.Services(namespace)}
	})
	imports := client[*mcs.ServiceImport](func(w *Writer, namespace string) kube.WithStatus[*mcs.ServiceImport] {
		return w.MCS[world.MCSVersion].ServiceImports(namespace)
	})
	serviceExports := client[*mcs.ServiceExport](func(w *Writer, namespace string) kube.WithStatus[*mcs.ServiceExport] {
		return w.MCS[world.MCSVersion].ServiceExports(namespace)
	})
	for i := range p.Services {
		want := &p.Services[i]
		have := world.Service(want.ID)
		if next, differs := want.Over(have); differs {
			c := Change{
				Object:  Object{Kind: Service, ID: want.ID},
				Verb:    Create,
				Of:      want.Of,
				For:     want.Kind,
				After:   &next,
				waits:   want.Waits,
				turn:    want.Turn,
				content: want.Content,
			}
			if have != nil {
				c.Verb = Update
				c.Before = have
			}
			write := func(next *plan.Service, have *corev1.Service) *corev1.Service {
				return writeService(next, have, world.MCSVersion)
			}
			c.do = put(services, replacement(readService, want.Mine, want.Over, write), nil)
			all = append(all, c)
		}
	}
	for i := range p.Imports {
		want := &p.Imports[i]
		have := world.Imports[want.ID]
		next, differs, status := want.Over(have)
		c := Change{
			Object:  Object{Kind: ServiceImport, ID: want.ID},
			Of:      want.ID,
			For:     plan.Import,
			After:   &next,
			turn:    turnOfImport(want.Turn),
			content: want.Content,
		}
		if have != nil {
			c.Before = have
		}
		if differs {
			if c.Verb = Create; have != nil {
				c.Verb = Update
				c.known = func() string { return knownSpec(have) }
			}
			spec := func(have *plan.ServiceImport) (plan.ServiceImport, bool) {
				next, differs, _ := want.Over(have)
				return next, differs
			}
			known := func(o *mcs.ServiceImport) string { return knownSpec(readServiceImport(o)) }
			c.do = put(imports, replacement(readServiceImport, want.Mine, spec, writeServiceImport), known)
			all = append(all, c)
		}
		if status && have != nil {
			c.Verb = Status
			c.Status = true
			c.known = func() string { return knownStatus(have) }
			status := func(have *plan.ServiceImport) (plan.ServiceImport, bool) {
				next, _, differs := want.Over(have)
				return next, differs
			}
			known := func(o *mcs.ServiceImport) string { return knownStatus(readServiceImport(o)) }
			c.do = put(imports, replacement(readServiceImport, want.Mine, status, writeServiceImport), known)
			all = append(all, c)
		}
	}
	for i := range p.Exports {
		want := &p.Exports[i]
		if next, differs := want.Over(want.Have.Conditions); differs {
			all = append(all, Change{
				Object:  Object{ServiceExport, want.ID, true},
				Verb:    Status,
				Of:      want.ID,
				For:     plan.Import,
				Before:  want.Have.Conditions,
				After:   next,
				turn:    turnOfImport(""),
				content: want.Content,
				known:   func() string { return knownConditions(want.Have) },
				do: put(serviceExports, exportReplacement(want), func(o *mcs.ServiceExport) string {
					return knownConditions(readServiceExport(o, true))
				}),
			})
		}
	}
	for _, u := range p.Delete {
		all = append(all, Change{
			Object: Object{Kind: Service, ID: u.ID},
			Verb:   Delete,
			Of:     u.Of,
			For:    u.Kind,
			Before: world.Service(u.ID),
			turn:   u.Turn,
			do:     remove(services, func(o *corev1.Service) bool { return u.Mine(world.Settings, readService(o)) }),
		})
	}
	for _, u := range p.DeleteImports {
		mine := func(o *mcs.ServiceImport) bool { return u.MineImport(world.Settings, readServiceImport(o)) }
		all = append(all, Change{
			Object: Object{Kind: ServiceImport, ID: u.ID},
			Verb:   Delete,
			Of:     u.Of,
			For:    u.Kind,
			Before: world.Imports[u.ID],
			turn:   turnOfImport(u.Turn),
			do:     remove(imports, mine),
		})
	}
	return all
}

// replacement returns a function that computes the object to write in place of an existing object.
// A nil argument means that no object exists yet. If the existing object is already correct or is
// not managed by Isthmus, the returned function returns nil. The want argument computes the planned
// state from the current state, and reports whether the two states differ.
func replacement[O kept, P any](
	read func(O) *P, mine func(*P) bool, want func(*P) (P, bool), write func(*P, O) O,
) func(have O) O {
	return func(have O) O {
		var none O
		var now *P
		if have != none {
			if now = read(have); !mine(now) {
				return none
			}
		}
		if next, differs := want(now); differs {
			return write(&next, have)
		}
		return none
	}
}

func exportReplacement(want *plan.ExportConditions) func(have *mcs.ServiceExport) *mcs.ServiceExport {
	return func(have *mcs.ServiceExport) *mcs.ServiceExport {
		if have.DeletionTimestamp != nil || string(have.UID) != want.Have.UID {
			return nil
		}
		next, differs := want.Over(have.Status.Conditions)
		if !differs {
			return nil
		}
		o := have.DeepCopy()
		o.Status.Conditions = next
		return o
	}
}

// knownSpec identifies the stored specification of a ServiceImport. An API server with an older
// version of the ServiceImport CRD may drop some of the fields that Isthmus writes.
func knownSpec(i *plan.ServiceImport) string {
	return fmt.Sprint(i.UID, i.Labels, i.Annotations, i.Type, i.IPs, i.IPFamilies, i.Ports, i.Traffic)
}

func knownStatus(i *plan.ServiceImport) string {
	return fmt.Sprint(i.UID, i.Clusters, i.EndpointSliceObjects, i.Conditions)
}

func knownConditions(e *plan.ServiceExport) string { return fmt.Sprint(e.UID, e.Conditions) }
