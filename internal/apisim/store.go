package apisim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/btree"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// keptEvents is the number of past events that the server keeps for each kind, so that watches can
// resume.
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

// encode encodes a runtime.Object with the receiver's version, UID and creation time, and stores
// the result in the receiver. Most clients request protobuf, so typed objects are converted to JSON
// only when a client requests JSON.
func (o *object) encode(k kind, from runtime.Object) error {
	from = from.DeepCopyObject()
	m, err := meta.Accessor(from)
	if err != nil {
		return err
	}
	from.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	m.SetResourceVersion(strconv.FormatUint(o.version, 10))
	m.SetUID(o.uid)
	m.SetCreationTimestamp(o.created)
	if secret, ok := from.(*corev1.Secret); ok {
		o.secretType = string(secret.Type)
	}
	if typed, ok := from.(marshaler); ok {
		o.protobuf, err = typed.Marshal()
		return err
	}
	o.json, err = json.Marshal(from)
	return err
}

func (o *object) decode(k kind) (runtime.Object, error) {
	if o.protobuf == nil {
		u := &unstructured.Unstructured{}
		return u, json.Unmarshal(o.json, &u.Object)
	}
	typed, err := scheme.Scheme.New(k.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	return typed, typed.(interface{ Unmarshal([]byte) error }).Unmarshal(o.protobuf)
}

func (o *object) text(k kind) ([]byte, error) {
	if o.protobuf == nil {
		return o.json, nil
	}
	whole, err := o.decode(k)
	if err != nil {
		return nil, err
	}
	whole.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return json.Marshal(whole)
}

const treeDegree = 32

type event struct {
	kind watch.EventType
	*object
}

// page contains the part of a list that the server has not sent yet. The server stores only the
// most recent pages, and treats older pages as expired.
type page struct {
	token   uint64
	objects []*object
	version uint64
}

const keptPages = 64

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

// The drop method removes the oldest n events. The number n must be at least 1.
func (t *table) drop(n int) {
	t.oldest = t.events[n-1].version
	t.events = slices.Clone(t.events[n:])
}

// The compact method drops all past events, and all stored pages of lists.
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

// The since method returns all changes after the given version, or false if some of these changes
// have been dropped. The since method also returns false if the begins argument is true and the
// given version is older than the last compaction. The begins argument must be true in the first
// call for each watch.
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

// keepPage stores the rest of a list, and returns the continue token with which a client can
// request the rest. The caller must not hold s.mu.
func (s *store) keepPage(p page) (token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastPage++
	p.token = s.lastPage
	s.pages[p.token%keptPages] = p
	return strconv.FormatUint(p.token, 10)
}

func (s *store) findPage(token string) (page, bool) {
	id, err := strconv.ParseUint(token, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[id%keptPages]
	return p, err == nil && id > 0 && p.token == id
}

func (s *store) get(of target) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(of)
}

// The caller holds s.mu.
func (s *store) find(of target) (*object, error) {
	o, ok := s.tables[of.resource].objects.Get(&object{namespace: of.namespace, name: of.name})
	if !ok {
		return nil, apierrors.NewNotFound(of.group(), of.name)
	}
	return o, nil
}

func (s *store) create(of target, m metav1.Object, given runtime.Object) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.find(of); err == nil {
		return nil, apierrors.NewAlreadyExists(of.group(), of.name)
	}
	return s.accept(of, nil, m, given)
}

func (s *store) update(of target, m metav1.Object, given runtime.Object) (*object, error) {
	if m.GetName() != of.name {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name in the URL")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.expect(of, m.GetUID(), m.GetResourceVersion())
	if apierrors.IsNotFound(err) && m.GetUID() != "" {
		err = apierrors.NewConflict(of.group(), of.name, errUID(m.GetUID(), ""))
	}
	if err != nil {
		return nil, err
	}
	return s.accept(of, old, m, given)
}

func (s *store) delete(of target, given runtime.Object) (*object, error) {
	var uid types.UID
	var version string
	if o, ok := given.(*metav1.DeleteOptions); ok && o.Preconditions != nil {
		if o.Preconditions.UID != nil {
			uid = *o.Preconditions.UID
		}
		if o.Preconditions.ResourceVersion != nil {
			version = *o.Preconditions.ResourceVersion
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.expect(of, uid, version)
	if err != nil {
		return nil, err
	}
	if err := s.drop(of.kind, old); err != nil {
		return nil, err
	}
	return old, s.wrote(of.kind, old, nil)
}

// expect returns the object with the given name, if its UID and version match. An empty UID or
// version matches any object. The caller holds s.mu.
func (s *store) expect(of target, uid types.UID, version string) (*object, error) {
	o, err := s.find(of)
	switch {
	case err != nil:
		return nil, err
	case uid != "" && uid != o.uid:
		return nil, apierrors.NewConflict(of.group(), of.name, errUID(uid, o.uid))
	case version != "" && version != strconv.FormatUint(o.version, 10):
		return nil, apierrors.NewConflict(of.group(), of.name, errors.New(
			"the object has been modified; please apply your changes to the latest version and try again",
		))
	}
	return o, nil
}

// The accept method stores an object that a client has written. If the client has created the
// object, the old argument is nil. The caller holds s.mu.
func (s *store) accept(of target, old *object, m metav1.Object, given runtime.Object) (*object, error) {
	m.SetNamespace(of.namespace)
	if service, ok := given.(*corev1.Service); ok {
		before := &corev1.Service{}
		if old != nil {
			if err := before.Unmarshal(old.protobuf); err != nil {
				return nil, err
			}
		}
		s.giveIP(&service.Spec, &before.Spec)
	}
	if custom, ok := given.(*unstructured.Unstructured); ok {
		if err := splitStatus(of, old, custom); err != nil {
			return nil, err
		}
	}
	made, err := s.replace(of.kind, m, given)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return made, s.wrote(of.kind, old, made)
}

// giveIP sets the ClusterIP of a Service, if the Service needs one. If the previous version of the
// Service had a ClusterIP, giveIP reuses this ClusterIP.
func (s *store) giveIP(spec, before *corev1.ServiceSpec) {
	if spec.ClusterIP != "" || spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if spec.ClusterIP, spec.ClusterIPs = before.ClusterIP, before.ClusterIPs; spec.ClusterIP == "" {
		s.ips++
		spec.ClusterIP = fmt.Sprintf("198.18.%d.%d", s.ips>>8&0xff, s.ips&0xff)
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// The taken method returns the functions that were passed to TakeWrites, or nil if clients are not
// allowed to write.
func (s *store) taken() *writes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// The wrote method calls the after function that was passed to TakeWrites, unless that function is
// nil. The caller holds s.mu.
func (s *store) wrote(k kind, before, after *object) error {
	if s.writes.after == nil {
		return nil
	}
	var both [2]runtime.Object
	for i, o := range []*object{before, after} {
		if o == nil {
			continue
		}
		var err error
		if both[i], err = o.decode(k); err != nil {
			return err
		}
	}
	s.writes.after(both[0], both[1])
	return nil
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

func errUID(want, have types.UID) error {
	//lint:ignore ST1005 API servers return exactly this message
	return fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", want, have)
}

// splitStatus separates writes to the status from other writes. A write to the status changes no
// other field, and any other write leaves the status unchanged.
func splitStatus(of target, old *object, given *unstructured.Unstructured) error {
	var have unstructured.Unstructured
	if old != nil {
		if err := json.Unmarshal(old.json, &have.Object); err != nil {
			return err
		}
	}
	status := have.Object["status"]
	if of.status {
		status, given.Object = given.Object["status"], have.Object
	}
	if delete(given.Object, "status"); status != nil {
		given.Object["status"] = status
	}
	return nil
}
