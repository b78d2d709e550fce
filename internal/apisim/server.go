package apisim

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Authority is a certificate authority for servers. Creating an Authority is slow, so several
// servers can share one.
type Authority struct {
	pem         []byte
	certificate tls.Certificate // for 127.0.0.1
}

// Server is the API server of one cluster. A Server is safe for concurrent use.
type Server struct {
	// fixed
	name      string
	authority *Authority // nil means plain HTTP
	addr      string
	http      *http.Server
	store     *store
	serving   sync.WaitGroup

	mu     sync.Mutex
	tokens map[string]bool // the accepted tokens
	faults Faults
	cut    context.CancelFunc // cancels alive
	alive  context.Context    // ends the current watches when it is canceled
}

// Faults specifies how a server misbehaves. The zero value means that the server behaves normally.
// Faults does not include network faults.
type Faults struct {
	Unauthorized bool // reject all tokens with 401
	// Forbidden contains the resources for which the server rejects requests with a 403. The
	// element "*" stands for all resources.
	Forbidden []string
	// If Failing is not zero, the server responds to all requests with this status code.
	Failing int
	// Absent contains the resources for which the server responds with a 404, as if their CRDs had
	// been deleted. The server does not delete the stored objects of these resources.
	Absent []string
	// Endless makes some responses endless. An empty string means that all responses end normally.
	Endless Endless
}

// Start starts a server on a free port on 127.0.0.1. If the authority is nil, the server uses plain
// HTTP/1.1 and does not check tokens, because clients do not send tokens over plain HTTP.
func Start(name string, authority *Authority) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("API server %s: %w", name, err)
	}
	return StartAt(l, name, authority), nil
}

// StartAt is like [Start], but serves the connections of an existing listener. Close closes the
// listener.
func StartAt(l net.Listener, name string, authority *Authority) *Server {
	s := &Server{
		name:      name,
		authority: authority,
		addr:      l.Addr().String(),
		store:     newStore(),
		tokens:    make(map[string]bool),
	}
	s.alive, s.cut = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:  http.HandlerFunc(s.handle),
		ErrorLog: log.New(io.Discard, "", 0), // discards messages about connections that clients close
	}
	if authority == nil {
		s.serving.Go(func() { _ = s.http.Serve(l) }) // the error says that Close was called
		return s
	}
	s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{authority.certificate}}
	s.serving.Go(func() { _ = s.http.ServeTLS(l, "", "") })
	return s
}

func (s *Server) Close() error {
	s.CutWatches()
	err := s.http.Close()
	s.serving.Wait()
	return err
}

func (s *Server) Addr() string { return s.addr }

// Put creates or replaces an object, and sets its version, UID and creation time.
func (s *Server) Put(o runtime.Object) error {
	return s.change(o, func(k kind, m metav1.Object) error {
		_, err := s.store.replace(k, m, o)
		return err
	})
}

// Delete deletes the object with the same kind, namespace and name as the given object.
func (s *Server) Delete(o runtime.Object) error {
	return s.change(o, func(k kind, m metav1.Object) error {
		old, err := s.store.find(target{kind: k, namespace: m.GetNamespace(), name: m.GetName()})
		if err != nil {
			return err
		}
		return s.store.drop(k, old)
	})
}

func (s *Server) change(o runtime.Object, f func(kind, metav1.Object) error) error {
	k, m, err := describe(o)
	if err == nil {
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		err = f(k, m)
	}
	if err != nil {
		return fmt.Errorf("cluster %s: %w", s.name, err)
	}
	return nil
}

// TakeWrites allows clients to write objects, to get single objects, and to access Leases. Both
// functions may be nil.
//
// At the start of each write, the server calls before(resource, namespace, name), which may change
// objects with Put and Delete.
//
// At the end of each write, the server calls after(old, new). The old object is nil for a creation,
// and the new object is nil for a deletion. The after function must return quickly and must not
// call methods of the Server.
func (s *Server) TakeWrites(before func(resource, namespace, name string), after func(before, after runtime.Object)) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.writes = &writes{before, after}
}

// Objects returns the objects of a namespace, sorted by name, with the fields that the server has
// set.
func (s *Server) Objects(resource, namespace string) ([]runtime.Object, error) {
	i := slices.IndexFunc(kinds[:], func(k kind) bool { return k.resource == resource })
	list, _ := s.store.snapshot(target{kind: kinds[i]}, func(o *object) bool { return o.namespace == namespace })
	objects := make([]runtime.Object, len(list))
	for n, o := range list {
		var err error
		if objects[n], err = o.decode(kinds[i]); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", s.name, err)
		}
	}
	return objects, nil
}

func (s *Server) Admit(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token] = true
}

// Revoke makes the server reject a token that was accepted before. Open watches continue.
func (s *Server) Revoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, token)
}

// Misbehave sets the faults that the server injects into new requests. Open watches continue.
func (s *Server) Misbehave(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// CutWatches ends all watches and all endless responses. Real servers also end watches from time to
// time.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut()
	s.alive, s.cut = context.WithCancel(context.Background())
}

// Compact drops all past events. After a call to Compact, watches and lists can no longer continue
// from an older version.
func (s *Server) Compact() { s.store.compact() }

// Backup saves all current objects and returns a function that restores the saved objects. After
// the restore, new versions continue from the version at the time of the backup, and clients cannot
// watch from earlier versions. To simulate a restart, the caller must also call CutWatches.
func (s *Server) Backup() (restore func()) { return s.store.backup() }

// Kubeconfig returns a kubeconfig with the given address. The address is either the server's own
// address or the address of a proxy in front of the server.
func (s *Server) Kubeconfig(addr, token string) ([]byte, error) {
	cluster := clientcmdapi.Cluster{Server: "http://" + addr}
	if s.authority != nil {
		cluster = clientcmdapi.Cluster{Server: "https://" + addr, CertificateAuthorityData: s.authority.pem}
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[s.name] = &cluster
	config.AuthInfos[s.name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[s.name] = &clientcmdapi.Context{Cluster: s.name, AuthInfo: s.name}
	config.CurrentContext = s.name
	return clientcmd.Write(*config)
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	admitted := s.authority == nil || s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	faults, alive := s.faults, s.alive
	s.mu.Unlock()
	ask, err := parse(r)
	if err == nil && s.store.taken() == nil &&
		(ask.method != http.MethodGet || ask.name != "" || ask.resource == leases) {
		err = errNotServed
	}
	var endless endlessAnswer
	if err == nil {
		endless = faults.Endless.answer(ask)
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(alive, stop)()
	switch {
	case faults.Failing != 0:
		refuse(w, failing(faults.Failing))
	case !admitted || faults.Unauthorized:
		refuse(w, apierrors.NewUnauthorized("Unauthorized"))
	case errors.Is(err, errNotServed):
		if r.Method != http.MethodGet || !discover(w, r.URL.Path, faults.Absent) {
			http.NotFound(w, r)
		}
	case err != nil:
		refuse(w, apierrors.NewBadRequest(err.Error()))
	case slices.Contains(faults.Absent, ask.resource):
		http.NotFound(w, r)
	case slices.Contains(faults.Forbidden, ask.resource) || slices.Contains(faults.Forbidden, "*"):
		refuse(w, apierrors.NewForbidden(ask.group(), ask.name, errors.New("no rights")))
	case ask.method != http.MethodGet:
		s.write(w, r.Body, ask)
	case ask.name != "":
		o, err := s.store.get(ask.target)
		ask.answer(w, http.StatusOK, o, err)
	case endless != nil:
		defer cutWith(alive, w)()
		w.Header().Set("Content-Type", ask.contentType())
		_ = endless(ctx, w) // fails if the client disconnects or watches are cut
	case !ask.options.Watch:
		s.list(r.Context(), w, ask)
	default:
		s.watch(ctx, w, ask)
	}
}

func (s *Server) list(ctx context.Context, w http.ResponseWriter, r *request) {
	var p page
	if token := r.options.Continue; token == "" {
		p.objects, p.version = s.store.snapshot(r.target, r.keep)
	} else if kept, ok := s.store.findPage(token); ok {
		p = kept
	} else {
		refuse(w, apierrors.NewResourceExpired(
			"The provided continue parameter is too old to display a consistent list result.",
		))
		return
	}
	head := metav1.ListMeta{ResourceVersion: strconv.FormatUint(p.version, 10)}
	now := p.objects
	if limit := int(r.options.Limit); limit > 0 && limit < len(now) {
		now = now[:limit]
		left := int64(len(p.objects) - limit)
		head.Continue = s.store.keepPage(page{
			objects: p.objects[limit:],
			version: p.version,
		})
		head.RemainingItemCount = &left
	}
	w.Header().Set("Content-Type", r.contentType())
	object := func(i int) ([]byte, error) { return r.encode(now[i]) }
	_ = r.writeList(ctx, w, head, len(now), object) // fails if the client has closed the connection
}

// watch sends events until the client disconnects, the watch times out, or the server ends all
// watches.
func (s *Server) watch(ctx context.Context, w http.ResponseWriter, r *request) {
	v := &watcher{request: r, store: s.store, out: w}
	if text := r.options.ResourceVersion; text != "" {
		var err error
		if v.at, err = strconv.ParseUint(text, 10, 64); err != nil {
			refuse(w, apierrors.NewBadRequest("resourceVersion is not a number"))
			return
		}
	}
	if r.options.TimeoutSeconds != nil {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(*r.options.TimeoutSeconds)*time.Second)
		defer stop()
	}
	w.Header().Set("Content-Type", r.contentType())
	w.WriteHeader(http.StatusOK)
	if v.at == 0 && v.begin() != nil {
		return // the client has disconnected
	}
	v.follow(ctx)
}

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

// cutWith makes writes to w fail once ctx is canceled. The HTTP handler must call the stop function
// before it returns, because net/http reuses the writer after the handler has returned.
func cutWith(ctx context.Context, w http.ResponseWriter) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) // all writers of net/http support deadlines
	})
	return func() {
		if !cancel() {
			<-done
		}
	}
}

var errNotServed = errors.New("not served")

func parse(r *http.Request) (*request, error) {
	of, ok := parsePath(r.URL.Path)
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		ok = ok && of.name == ""
	case http.MethodPut, http.MethodDelete:
		ok = ok && of.name != "" && (!of.status || r.Method == http.MethodPut)
	default:
		ok = false
	}
	if !ok {
		return nil, errNotServed
	}
	accept := r.Header.Get("Accept")
	ask := &request{target: of, method: r.Method, metadata: strings.Contains(accept, "as=PartialObjectMetadata")}
	ask.protobuf = strings.Contains(accept, protobufType) && scheme.Scheme.Recognizes(of.GroupVersionKind)
	query := r.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &ask.options, nil); err != nil {
		return nil, err
	}
	secretType, typed := strings.CutPrefix(ask.options.FieldSelector, "type=")
	switch {
	case ask.options.FieldSelector != "" && !(typed && of.resource == "secrets"):
		return nil, errors.New("the only supported field selector is type=TYPE for Secrets")
	}
	selector, err := labels.Parse(ask.options.LabelSelector)
	if err != nil {
		return nil, err
	}
	ask.keep = func(o *object) bool {
		return (of.namespace == "" || o.namespace == of.namespace) && (!typed || o.secretType == secretType) &&
			selector.Matches(o.labels)
	}
	return ask, nil
}

// NewAuthority creates an Authority. All servers of an Authority use the same certificate.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "apisim"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(7 * 24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &Authority{
		pem:         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}, nil
}

func statusOf(err error) *metav1.Status {
	known := apierrors.APIStatus(nil)
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}

func refuse(w http.ResponseWriter, err error) {
	status := statusOf(err)
	answerJSON(w, int(status.Code), status)
}

func failing(code int) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    int32(code),
		Reason:  metav1.StatusReasonInternalError,
		Message: "the server fails",
	}}
}

const maxBody = 3 << 20

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

// discover responds to API discovery requests. The responses omit absent resources. If the path is
// not an API discovery path, discover returns false.
func discover(w http.ResponseWriter, path string, absent []string) bool {
	there := slices.DeleteFunc(slices.Clone(kinds[:]), func(k kind) bool { return slices.Contains(absent, k.resource) })
	if path == "/apis" {
		answerJSON(w, http.StatusOK, groupsOf(there))
		return true
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, k := range there {
		if strings.TrimSuffix(k.prefix(), "/") == path {
			list.GroupVersion = k.GroupVersion().String()
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name:       k.resource,
				Kind:       k.Kind,
				Namespaced: k.namespaced(),
				Verbs:      metav1.Verbs{"create", "delete", "get", "list", "update", "watch"},
			})
		}
	}
	if len(list.APIResources) == 0 {
		return false
	}
	answerJSON(w, http.StatusOK, list)
	return true
}

func groupsOf(there []kind) metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, k := range there {
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
		known := slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group })
		if k.Group != "" && !known {
			list.Groups = append(list.Groups, metav1.APIGroup{
				Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			})
		}
	}
	return list
}

func answerJSON(w http.ResponseWriter, code int, o any) {
	text, err := json.Marshal(o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // fails if the client has disconnected
}
