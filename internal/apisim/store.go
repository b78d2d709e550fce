package apisim

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/btree"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// keptEvents is the number of past events of each kind from which a watch can continue.
const keptEvents = 10_000

type store struct {
	mu        sync.Mutex
	version   uint64            // of the newest change
	compacted uint64            // the oldest version at which a watch may begin
	ips       int               // number of IPs that have been assigned to Services
	tables    map[string]*table // by resource
	pages     [keptPages]page   // by token
	lastPage  uint64            // token of the newest page
	writes    *writes           // nil if clients may not write
}

type writes struct {
	before func(resource, namespace, name string)
	after  func(before, after runtime.Object)
}

type table struct {
	objects *btree.BTreeG[*object] // ordered by key, so that large lists need no sorting
	events  []event                // the newest events, in ascending order of versions
	oldest  uint64                 // the oldest version from which a watch can continue
	changed chan struct{}          // closed and replaced after each event
}

type object struct {
	namespace, name string
	uid             types.UID
	created         metav1.Time
	version         uint64
	secretType      string
	labels          labels.Set
	protobuf        []byte // nil for kinds of CRDs
	json            []byte // only for kinds of CRDs
}

func (o *object) key() string { return o.namespace + "/" + o.name }

func (o *object) before(other *object) bool {
	return o.namespace < other.namespace || o.namespace == other.namespace && o.name < other.name
}

const treeDegree = 32

type event struct {
	kind watch.EventType
	*object
}

func newStore() *store {
	s := &store{version: 1, compacted: 1, tables: make(map[string]*table)}
	for _, k := range kinds {
		s.tables[k.resource] = &table{objects: btree.NewG(treeDegree, (*object).before), changed: make(chan struct{})}
	}
	return s
}

// The caller holds s.mu.
func (s *store) replace(k kind, m metav1.Object, o runtime.Object) (*object, error) {
	t := s.tables[k.resource]
	made := &object{namespace: m.GetNamespace(), name: m.GetName(), version: s.version + 1}
	made.labels = m.GetLabels()
	change := watch.Modified
	old, had := t.objects.Get(made)
	if !had {
		change = watch.Added
		made.uid = types.UID(fmt.Sprintf(
			"00000000-0000-4000-8000-%012x", made.version,
		))
		made.created = metav1.NewTime(time.Now().Truncate(time.Second))
	} else {
		made.uid = old.uid
		made.created = old.created
	}
	if err := made.encode(k, o); err != nil {
		return nil, err
	}
	t.objects.ReplaceOrInsert(made)
	s.note(t, event{change, made})
	return made, nil
}

// drop deletes an existing object. The caller holds s.mu.
func (s *store) drop(k kind, old *object) error {
	t := s.tables[k.resource]
	last, err := old.decode(k)
	if err != nil {
		return err
	}
	gone := *old
	gone.version = s.version + 1
	if err := gone.encode(k, last); err != nil {
		return err
	}
	t.objects.Delete(old)
	s.note(t, event{watch.Deleted, &gone})
	return nil
}

// The caller holds s.mu.
func (s *store) note(t *table, e event) {
	s.version = e.version
	t.events = append(t.events, e)
	if len(t.events) >= 2*keptEvents {
		t.drop(keptEvents)
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// drop drops the oldest n events, at least one.
func (t *table) drop(n int) {
	t.oldest = t.events[n-1].version
	t.events = slices.Clone(t.events[n:])
}

// compact drops all past events and the remaining pages of all lists.
func (s *store) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = [keptPages]page{}
	s.compacted = s.version
	for _, t := range s.tables {
		if len(t.events) > 0 {
			t.drop(len(t.events))
		}
	}
}

func (s *store) backup() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := s.version
	objects := make(map[string]*btree.BTreeG[*object])
	for resource, t := range s.tables {
		objects[resource] = t.objects.Clone()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.version = version
		s.compacted = version
		s.pages = [keptPages]page{}
		for resource, t := range s.tables {
			t.objects = objects[resource].Clone()
			t.events = nil
			t.oldest = version
			close(t.changed)
			t.changed = make(chan struct{})
		}
	}
}

// snapshot returns the objects of a table, ordered by key, and the version of the store.
func (s *store) snapshot(of target, keep func(*object) bool) ([]*object, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := s.tables[of.resource].objects
	list := make([]*object, 0, objects.Len())
	objects.Ascend(func(o *object) bool {
		if keep(o) {
			list = append(list, o)
		}
		return true
	})
	return list, s.version
}

type changes struct {
	events  []event
	version uint64
	changed <-chan struct{} // closed after the next event
}

// since returns all changes since a version, or false if some of them have been dropped. The begins
// argument must be true if a new watch begins at the version.
func (s *store) since(resource string, version uint64, begins bool) (changes, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[resource]
	if version < t.oldest || begins && version < s.compacted {
		return changes{}, false
	}
	i, _ := slices.BinarySearchFunc(t.events, version+1, func(e event, v uint64) int {
		return cmp.Compare(e.version, v)
	})
	return changes{slices.Clone(t.events[i:]), s.version, t.changed}, true
}

func describe(o runtime.Object) (kind, metav1.Object, error) {
	k, err := kindOf(o)
	if err != nil {
		return k, nil, err
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return k, nil, err
	}
	if m.GetName() == "" {
		return k, nil, fmt.Errorf("a %s without name", k.Kind)
	}
	return k, m, nil
}
