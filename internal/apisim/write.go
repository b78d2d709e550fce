package apisim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

const maxBody = 3 << 20

func (s *Server) write(w http.ResponseWriter, from io.Reader, r *request) {
	given, err := readBody(from, r.method)
	m, isObject := given.(metav1.Object)
	if err == nil && !isObject && r.method != http.MethodDelete {
		err = errors.New("the body has no object")
	}
	if err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	if r.method == http.MethodPost {
		r.name = m.GetName()
	}
	if before := s.store.taken().before; before != nil {
		before(r.resource, r.namespace, r.name)
	}
	code := http.StatusOK
	o := (*object)(nil)
	switch r.method {
	case http.MethodPost:
		code = http.StatusCreated
		o, err = s.store.create(r.target, m, given)
	case http.MethodPut:
		o, err = s.store.update(r.target, m, given)
	default:
		o, err = s.store.delete(r.target, given)
	}
	r.answer(w, code, o, err)
}

// Custom resources must be encoded in JSON.
func readBody(from io.Reader, method string) (runtime.Object, error) {
	body, err := io.ReadAll(io.LimitReader(from, maxBody))
	if err != nil || len(body) == 0 {
		return &metav1.DeleteOptions{}, err
	}
	given, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	switch {
	case !runtime.IsNotRegisteredError(err):
		return given, err
	case method == http.MethodDelete:
		o := &metav1.DeleteOptions{}
		return o, json.Unmarshal(body, o)
	}
	u := &unstructured.Unstructured{}
	return u, json.Unmarshal(body, &u.Object)
}

func (r *request) answer(w http.ResponseWriter, code int, o *object, err error) {
	var body []byte
	if err == nil {
		body, err = r.encode(o)
	}
	if err == nil && r.protobuf {
		body, err = wrap(r.typeMeta(""), body)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", r.contentType())
	w.WriteHeader(code)
	_, _ = w.Write(body) // fails if the client has disconnected
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

func errUID(want, have types.UID) error {
	//lint:ignore ST1005 API servers return exactly this message
	return fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", want, have)
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

// accept stores an object that a client has written. The old argument is the object to replace, or
// nil for a new object. The caller holds s.mu.
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

// giveIP sets the ClusterIP of a Service that needs one. If the Service already had a ClusterIP,
// giveIP reuses it.
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

// taken returns nil if clients may not write.
func (s *store) taken() *writes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// wrote calls the after function that was passed to TakeWrites. The caller holds s.mu.
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
