package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
	"isthmus/clusterstore/check"
	"isthmus/clusterstore/facts"
	"isthmus/clusterstore/typed"
	"isthmus/cmd/isthmus/internal/client"
)

// api is an API server with what checks ask for.
type checkedAPI struct {
	refused []string // rights of ServiceAccount isthmus or of a link, as "list pods"
	kinds   map[string][]string
	anchors string // nil: the ConfigMap is not there
	cidrs   []string
	account string        // a ServiceAccount in namespace linkerd
	ahead   time.Duration // of its clock
	status  int           // of all answers; 0: as asked for
	body    string        // with status
	mayRead func(resource string) bool
	silent  bool            // it answers nothing
	secrets []corev1.Secret // in namespace linkerd
	unblock chan struct{}
}

func newCheckedAPI(anchors, cidr string) *checkedAPI {
	return &checkedAPI{
		kinds: map[string][]string{
			"linkerd.io/v1alpha2": {"serviceprofiles"}, "policy.linkerd.io/v1beta3": {"servers"}, "workload.linkerd.io/v1beta1": {"externalworkloads"},
		},
		anchors: anchors, cidrs: []string{cidr}, unblock: make(chan struct{}),
	}
}

func (a *checkedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.silent {
		select {
		case <-a.unblock:
		case <-r.Context().Done():
		}
		return
	}
	w.Header().Set("Date", time.Now().Add(a.ahead).UTC().Format(http.TimeFormat))
	if a.status != 0 {
		w.WriteHeader(a.status)
		io.WriteString(w, a.body)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	fail := func(code int, reason metav1.StatusReason) {
		w.WriteHeader(code)
		answer(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Code: int32(code), Message: string(reason)})
	}
	path := r.URL.Path
	for _, resource := range []string{"configmaps", "nodes"} {
		if strings.Contains(path, "/"+resource) && a.mayRead != nil && !a.mayRead(resource) {
			fail(http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		}
	}
	switch {
	case path == "/version":
		answer(map[string]string{"gitVersion": "v1.36.3"})
	case strings.HasSuffix(path, "accessreviews"):
		body, _ := io.ReadAll(r.Body)
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			fail(http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		var asked *authorizationv1.ResourceAttributes
		switch o := o.(type) {
		case *authorizationv1.SelfSubjectAccessReview:
			asked, o.Status.Allowed = o.Spec.ResourceAttributes, true
			o.Status.Allowed = !slices.Contains(a.refused, asked.Verb+" "+asked.Resource)
			o.Kind, o.APIVersion = "SelfSubjectAccessReview", "authorization.k8s.io/v1"
			answer(o)
		case *authorizationv1.SubjectAccessReview:
			asked = o.Spec.ResourceAttributes
			resource := strings.TrimSuffix(asked.Resource+"/"+asked.Subresource, "/")
			o.Status.Allowed = !slices.Contains(a.refused, strings.TrimPrefix(o.Spec.User, "system:serviceaccount:linkerd:isthmus")+asked.Verb+" "+resource)
			o.Kind, o.APIVersion = "SubjectAccessReview", "authorization.k8s.io/v1"
			answer(o)
		}
	case path == "/api/v1/namespaces/linkerd/secrets":
		answer(corev1.SecretList{TypeMeta: metav1.TypeMeta{Kind: "SecretList", APIVersion: "v1"}, Items: a.secrets})
	case path == "/api/v1/namespaces/linkerd/configmaps/"+facts.AnchorsConfigMap && a.anchors != "":
		answer(corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, Data: map[string]string{"ca-bundle.crt": a.anchors}})
	case path == "/api/v1/namespaces/linkerd/serviceaccounts/"+a.account && a.account != "":
		answer(corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{Kind: "ServiceAccount", APIVersion: "v1"}})
	case path == "/api/v1/nodes":
		var list corev1.NodeList
		for i, cidr := range a.cidrs {
			list.Items = append(list.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}, Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}}})
		}
		raw, _ := list.Marshal()
		data, _ := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Raw: raw}).Marshal()
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
		_, _ = w.Write(append([]byte("k8s\x00"), data...))
	case path == "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{{Name: "apps"}}}
		for version := range a.kinds {
			list.Groups = append(list.Groups, metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: version}}})
		}
		answer(list)
	case strings.HasPrefix(path, "/apis/"):
		version := strings.TrimPrefix(path, "/apis/")
		names, ok := a.kinds[version]
		if !ok {
			fail(http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		}
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version}
		for _, n := range names {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: n})
		}
		answer(list)
	default:
		fail(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// start serves an API until the test ends.
func (a *checkedAPI) start(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(a)
	s.EnableHTTP2 = true // as API servers do
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(a.unblock) })
	return s
}

// world is a local cluster and one that is linked, in which all is well until a test changes it.
type world struct {
	local, east *checkedAPI
	token       string // of the link
	secrets     []corev1.Secret
	pre         bool
	exports     bool
	annotations map[string]string // of the link
}

func newWorld(t *testing.T) *world {
	anchor := pemCertificate(t, time.Hour*24*365)
	return &world{local: newCheckedAPI(anchor, "10.1.0.0/16"), east: newCheckedAPI(anchor, "10.2.0.0/16"), token: jwt(time.Now().Add(30 * 24 * time.Hour))}
}

// annotate adds an annotation to the link Secret.
func (w *world) annotate(name, value string) {
	if w.annotations == nil {
		w.annotations = make(map[string]string)
	}
	w.annotations[name] = value
}

// run runs the checks and returns those that are not OK, one in a line.
func (w *world) run(t *testing.T) (bad []string, all []check.Result) {
	t.Helper()
	local, east := w.local.start(t), w.east.start(t)
	secret := linkSecret(t, "link-east", "east", east, w)
	maps.Copy(secret.Annotations, w.annotations)
	w.local.secrets = append([]corev1.Secret{secret}, w.secrets...)
	config := &rest.Config{Host: local.URL, BearerToken: "local-token", TLSClientConfig: rest.TLSClientConfig{CAData: authority(local)}}
	asking, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer asking.CloseIdleConnections()
	user, err := typed.New(config, asking)
	if err != nil {
		t.Fatal(err)
	}
	all = check.Judge(seeFromHere(t.Context(), client.Preflight{Config: config, API: user, Namespace: "linkerd", Account: "isthmus", Pre: w.pre, Exports: w.exports}))
	for _, r := range all {
		if r.Level != check.OK {
			bad = append(bad, fmt.Sprintf("%s %s %s: %s", r.Level, r.Check, r.Object, r.Text))
			if r.Hint == "" && r.Level != check.Unchecked {
				t.Errorf("no hint what to do: %+v", r)
			}
		}
	}
	return bad, all
}

func authority(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func linkSecret(t *testing.T, name, cluster string, server *httptest.Server, w *world) corev1.Secret {
	t.Helper()
	user := map[string]any{"token": w.token}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": server.URL, "certificate-authority-data": authority(server)}}},
		"users":    []any{map[string]any{"name": "u", "user": user}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "linkerd", Labels: map[string]string{"multicluster.linkerd.io/cluster-name": cluster},
			Annotations: map[string]string{"multicluster.linkerd.io/trust-domain": "cluster.local", "multicluster.linkerd.io/cluster-domain": "cluster.local"},
		},
		Type: clusterstore.SecretType, Data: map[string][]byte{"kubeconfig": text},
	}
}

// pemCertificate returns one that is good for so long, in PEM.
func pemCertificate(t *testing.T, good time.Duration) string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "root"}, NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(good), IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func jwt(exp time.Time) string {
	payload := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"exp":%d}`, exp.Unix())))
	return "e30." + payload + ".c2lnbmF0dXJl"
}
