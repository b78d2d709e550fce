package apisim

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Authority issues the certificates of servers. Making one takes a while, so servers share it.
type Authority struct {
	pem         []byte
	certificate tls.Certificate // of 127.0.0.1
}

// Server is the API server of one cluster. Its methods may be called from several goroutines.
type Server struct {
	// fixed
	name      string
	authority *Authority // nil: plain HTTP
	addr      string
	http      *http.Server
	store     *store
	serving   sync.WaitGroup

	mu     sync.Mutex
	tokens map[string]bool // that are let in
	faults Faults
	cut    context.CancelFunc // ends the watches there are
	alive  context.Context    // of the watches that begin now
}

// Faults are ways to misbehave, besides those of the network. The zero value is none.
type Faults struct {
	Unauthorized bool // no token is good (401)
	// Forbidden are resources that may not be read (403); "*": none may.
	Forbidden []string
	// Failing is the status code of every answer; 0: they are answered.
	Failing int
	// Absent are resources that the server does not have (404), as if their CRDs were deleted. Their objects stay.
	Absent []string
	// Endless is what never comes to an end; empty: all does.
	Endless Endless
}

// Start runs a server at a free port of 127.0.0.1 until Close. Without an authority it serves plain HTTP/1.1
// and checks no token: clients send none over plain HTTP.
func Start(name string, authority *Authority) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("API server %s: %w", name, err)
	}
	return StartAt(l, name, authority), nil
}

// StartAt is like Start, but the server accepts the connections of a listener, and closes it.
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
		ErrorLog: log.New(io.Discard, "", 0), // connections that clients give up
	}
	if authority == nil {
		s.serving.Go(func() { _ = s.http.Serve(l) }) // until Close, which is what the error is about
		return s
	}
	s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{authority.certificate}}
	s.serving.Go(func() { _ = s.http.ServeTLS(l, "", "") })
	return s
}

// Close ends the server and all connections.
func (s *Server) Close() error {
	s.CutWatches()
	err := s.http.Close()
	s.serving.Wait()
	return err
}

// Addr returns the host and port that it listens at.
func (s *Server) Addr() string { return s.addr }

// Put creates an object, or replaces the one of its name. The server sets version, UID and time of creation.
func (s *Server) Put(o runtime.Object) error {
	return s.change(o, func(k kind, m metav1.Object) error {
		_, err := s.store.replace(k, m, o)
		return err
	})
}

// Delete deletes the object of that kind, namespace and name.
func (s *Server) Delete(o runtime.Object) error {
	return s.change(o, func(k kind, m metav1.Object) error {
		old, err := s.store.find(target{kind: k, namespace: m.GetNamespace(), name: m.GetName()})
		if err != nil {
			return err
		}
		return s.store.drop(k, old)
	})
}

// change calls f, which may use what needs the store's lock.
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

// TakeWrites makes the server take writes of clients, and have Leases, from now on. before is called before each
// write is looked at, and may change what there is by Put and Delete. after is called once it is done, with the
// object before (nil: there was none) and after it (nil: it is deleted); it must return soon, and must not call the
// Server. Either may be nil.
func (s *Server) TakeWrites(before func(resource, namespace, name string), after func(before, after runtime.Object)) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.writes = &writes{before, after}
}

// Objects returns those of a namespace, as Put or a client wrote them, with what the server has set, in the order of
// their names.
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

// Admit accepts a token from now on.
func (s *Server) Admit(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token] = true
}

// Revoke undoes Admit. Watches that are open stay.
func (s *Server) Revoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, token)
}

// Misbehave changes how requests are answered from now on. Watches that are open stay.
func (s *Server) Misbehave(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// CutWatches ends all watches, as servers do now and then, and all answers without end.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut()
	s.alive, s.cut = context.WithCancel(context.Background())
}

// Compact forgets what has happened so far: watches and lists that go on from before have expired.
func (s *Server) Compact() { s.store.compact() }

// Backup returns a function that restores the present objects. Versions count on from the present one then, and nothing
// earlier can be watched. Call CutWatches beside it, as a restart would.
func (s *Server) Backup() (restore func()) { return s.store.backup() }

// Kubeconfig returns a kubeconfig by which to reach the server at an address: its own, or that of a proxy before it.
func (s *Server) Kubeconfig(addr, token string) ([]byte, error) {
	cluster := clientcmdapi.Cluster{Server: "http://" + addr}
	if s.authority != nil {
		cluster = clientcmdapi.Cluster{Server: "https://" + addr, CertificateAuthorityData: s.authority.pem}
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[s.name], config.AuthInfos[s.name] = &cluster, &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[s.name], config.CurrentContext = &clientcmdapi.Context{Cluster: s.name, AuthInfo: s.name}, s.name
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
		_ = endless(ctx, w) // fails if the client has closed the connection, or watches are cut
	case !ask.options.Watch:
		s.list(r.Context(), w, ask)
	default:
		s.watch(ctx, w, ask)
	}
}

// cutWith ends what is written once ctx ends. The caller calls the result before it returns: net/http uses the writer
// for something else after that.
func cutWith(ctx context.Context, w http.ResponseWriter) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) // every writer of net/http can
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
	case ask.options.LabelSelector != "", ask.options.FieldSelector != "" && !(typed && of.resource == "secrets"):
		return nil, errors.New("label selectors, and field selectors but the type of Secrets, are not served")
	}
	ask.keep = func(o *object) bool {
		return (of.namespace == "" || o.namespace == of.namespace) && (!typed || o.secretType == secretType)
	}
	return ask, nil
}

// NewAuthority makes an authority, and the one certificate that all its servers have.
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

// statusOf returns the Status of an error.
func statusOf(err error) *metav1.Status {
	known := apierrors.APIStatus(nil)
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}

// refuse answers with the Status of an error.
func refuse(w http.ResponseWriter, err error) {
	status := statusOf(err)
	answerJSON(w, int(status.Code), status)
}

// failing is the error of a server that answers everything with a code.
func failing(code int) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    int32(code),
		Reason:  metav1.StatusReasonInternalError,
		Message: "the server fails",
	}}
}
