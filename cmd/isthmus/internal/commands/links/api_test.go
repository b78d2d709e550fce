package links

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// apiServer is an API server that stores objects in memory. Tests use the URL of the server in a
// kubeconfig, and run commands like a user.
type apiServer struct {
	url     string
	hostile map[string]http.HandlerFunc // handlers that take precedence, by method and path

	mu      sync.Mutex
	asked   []string                              // received requests, by method and path
	denied  map[string]bool                       // verbs and resources that the user lacks, such as "list secrets"
	objects map[string]*unstructured.Unstructured // by path
	writes  int                                   // number of writes, which is the last resource version
}

// requests returns the received requests, by method and path.
func (s *apiServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// deny removes a permission of the user, such as "list secrets".
func (s *apiServer) deny(permission string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[permission] = true
}

// store stores an object at a path.
func (s *apiServer) store(path string, o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(path, o)
}

// put is store for callers that hold the lock.
func (s *apiServer) put(path string, o *unstructured.Unstructured) {
	s.writes++
	o.SetResourceVersion(fmt.Sprint(s.writes))
	s.objects[path] = o
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, _ := io.ReadAll(r.Body)
	what := r.Method + " " + r.URL.Path
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
	if answer := s.hostile[what]; answer != nil {
		s.mu.Unlock()
		defer s.mu.Lock()
		answer(w, r)
		return
	}
	status, answer := s.answer(r, sent)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

// answer executes a request, and returns the status and the body of the response.
func (s *apiServer) answer(r *http.Request, sent []byte) (int, any) {
	at := r.URL.Path
	switch {
	case strings.HasSuffix(at, "/selfsubjectaccessreviews"):
		var review authorizationv1.SelfSubjectAccessReview
		json.Unmarshal(sent, &review)
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = !s.denied[asked.Verb+" "+asked.Resource]
		return http.StatusCreated, &review
	case strings.HasSuffix(at, "/selfsubjectreviews"):
		user := authenticationv1.UserInfo{Username: "system:serviceaccount:linkerd-multicluster:isthmus-remote-access"}
		return http.StatusCreated, &authenticationv1.SelfSubjectReview{
			Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: user},
		}
	case strings.HasSuffix(at, "/token"):
		return http.StatusCreated, json.RawMessage(
			`{"status":{"token":"NEW","expirationTimestamp":"2080-01-02T03:04:05Z"}}`)
	}
	verb := map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete",
	}[r.Method]
	resource := path.Base(path.Dir(at))
	if r.Method == http.MethodPost || strings.HasSuffix(at, "/secrets") {
		resource = path.Base(at)
	}
	if verb == "get" && resource == path.Base(at) {
		verb = "list"
	}
	if s.denied[verb+" "+resource] {
		return refusal(metav1.StatusReasonForbidden, http.StatusForbidden)
	}
	switch verb {
	case "list":
		return http.StatusOK, s.list(r)
	case "create":
		o := s.create(at, sent)
		return http.StatusCreated, o.Object
	}
	o := s.objects[at]
	if o == nil {
		return refusal(metav1.StatusReasonNotFound, http.StatusNotFound)
	}
	var change map[string]any
	json.Unmarshal(sent, &change)
	switch verb {
	case "update":
		o = &unstructured.Unstructured{Object: change}
		s.put(at, o)
	case "patch":
		merge(o.Object, change)
		s.put(at, o)
	case "delete":
		delete(s.objects, at)
		s.writes++
	}
	return http.StatusOK, o.Object
}

// list returns the objects of a collection that match the selectors of a request.
func (s *apiServer) list(r *http.Request) any {
	items := []any{}
	selector, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	kind, byType := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "type=")
	for _, at := range slices.Sorted(maps.Keys(s.objects)) {
		o := s.objects[at]
		if path.Dir(at) == r.URL.Path && selector.Matches(labels.Set(o.GetLabels())) &&
			(!byType || o.Object["type"] == kind) {
			items = append(items, o.Object)
		}
	}
	return map[string]any{"items": items}
}

// create stores a new object of a collection. Like a real API server, create completes a generated
// name, and adds the token to a token Secret of a ServiceAccount.
func (s *apiServer) create(collection string, sent []byte) *unstructured.Unstructured {
	o := new(unstructured.Unstructured)
	json.Unmarshal(sent, &o.Object)
	if o.GetName() == "" {
		o.SetName(fmt.Sprint(o.GetGenerateName(), "new"))
	}
	if o.Object["type"] == string(corev1.SecretTypeServiceAccountToken) {
		o.Object["data"] = map[string]any{"token": base64.StdEncoding.EncodeToString([]byte("NEW"))}
	}
	s.put(collection+"/"+o.GetName(), o)
	return o
}

// merge applies a JSON merge patch.
func merge(to, change map[string]any) {
	for name, value := range change {
		part, isMap := value.(map[string]any)
		old, wasMap := to[name].(map[string]any)
		switch {
		case value == nil:
			delete(to, name)
		case isMap && wasMap:
			merge(old, part)
		default:
			to[name] = value
		}
	}
}

func refusal(reason metav1.StatusReason, code int) (int, any) {
	return code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Reason:   reason,
		Code:     int32(code),
		Message:  "the API server says so",
	}
}

const tokens = "/api/v1/namespaces/linkerd-multicluster/secrets"

// startClusters starts the API servers of two clusters, west and east. startClusters returns a
// kubeconfig with a context for each of them. The current context is west.
func startClusters(
	t *testing.T,
) (west, east *apiServer, kubeconfig string, config *clientcmdapi.Config) {
	t.Helper()
	config = clientcmdapi.NewConfig()
	config.CurrentContext = "west"
	start := func(name string) *apiServer {
		api := &apiServer{denied: make(map[string]bool), objects: make(map[string]*unstructured.Unstructured)}
		system := new(unstructured.Unstructured)
		system.SetUnstructuredContent(map[string]any{"metadata": map[string]any{"uid": "uid-" + name}})
		api.store("/api/v1/namespaces/kube-system", system)
		server := httptest.NewUnstartedServer(api)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.Config.SetKeepAlivesEnabled(false) // an idle connection stops the clock of a synctest bubble
		server.StartTLS()
		t.Cleanup(server.Close)
		api.url = server.URL
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "SECRET-" + name}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
		return api
	}
	west = start("west")
	east = start("east")
	kubeconfig = filepath.Join(t.TempDir(), "config")
	write(t, kubeconfig, config)
	return west, east, kubeconfig, config
}

// hostileWorld is like startClusters, with handlers that take precedence in the cluster east.
func hostileWorld(
	t *testing.T, hostile map[string]http.HandlerFunc,
) (kubeconfig string, east *apiServer, config *clientcmdapi.Config) {
	t.Helper()
	_, east, kubeconfig, config = startClusters(t)
	east.hostile = hostile
	return kubeconfig, east, config
}

func write(t *testing.T, file string, config *clientcmdapi.Config) {
	t.Helper()
	text, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
