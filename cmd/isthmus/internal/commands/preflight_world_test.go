package commands

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
	"isthmus/clusterstore/kube"
	"isthmus/cmd/isthmus/internal/check"
)

// checkedAPI is an API server that responds to the requests of checks.
type checkedAPI struct {
	answers map[string]any // by path: an object, a list in protobuf, or a failure code
	refused []string       // missing permissions of ServiceAccount isthmus or of a link, such as "list pods"
	ahead   time.Duration  // how far its clock is ahead
	status  int            // code of all responses; if zero, the requested ones
	body    string         // body of all responses, with status
	silent  bool           // if set, no request gets a response
	unblock chan struct{}
}

const (
	anchorsPath = "/api/v1/namespaces/linkerd/configmaps/" + kube.AnchorsConfigMap
	nodesPath   = "/api/v1/nodes"
	serversPath = "/apis/policy.linkerd.io/v1beta3"
)

func newCheckedAPI(anchors, cidr string) *checkedAPI {
	groups := metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups:   []metav1.APIGroup{{Name: "apps"}},
	}
	a := &checkedAPI{unblock: make(chan struct{}), answers: map[string]any{
		"/version": map[string]string{
			"gitVersion": "v1.36.3",
		}, nodesPath: nodes(cidr), anchorsPath: corev1.ConfigMap{Data: map[string]string{"ca-bundle.crt": anchors}},
	}}
	for path, resource := range map[string]string{
		"/apis/linkerd.io/v1alpha2":         "serviceprofiles",
		serversPath:                         "servers",
		"/apis/workload.linkerd.io/v1beta1": "externalworkloads",
	} {
		a.answers[path] = resources(path, resource)
		groups.Groups = append(
			groups.Groups,
			metav1.APIGroup{
				Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: strings.TrimPrefix(path, "/apis/")}},
			},
		)
	}
	a.answers["/apis"] = groups
	return a
}

// resources returns the discovery document for a path.
func resources(path string, names ...string) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: strings.TrimPrefix(path, "/apis/"),
		APIResources: []metav1.APIResource{},
	}
	for _, n := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: n})
	}
	return list
}

// nodes returns a list of Nodes with the given Pod CIDRs, in protobuf.
func nodes(cidrs ...string) []byte {
	var list corev1.NodeList
	for i, cidr := range cidrs {
		list.Items = append(
			list.Items,
			corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)},
				Spec:       corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}},
			},
		)
	}
	raw, _ := list.Marshal()
	data, _ := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Raw: raw}).Marshal()
	return append([]byte("k8s\x00"), data...)
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
	answer := a.answers[r.URL.Path]
	if strings.HasSuffix(r.URL.Path, "accessreviews") {
		answer = a.review(r.Body)
	} else if answer == nil {
		answer = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	switch x := answer.(type) {
	case []byte:
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		w.Write(x)
		return
	case int:
		w.WriteHeader(x)
		reason := metav1.StatusReason(strings.ReplaceAll(http.StatusText(x), " ", ""))
		answer = metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   "Failure",
			Reason:   reason,
			Code:     int32(x),
			Message:  string(reason),
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// review returns whether the user or the ServiceAccount isthmus has a permission.
func (a *checkedAPI) review(body io.Reader) any {
	text, _ := io.ReadAll(body)
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return http.StatusBadRequest
	}
	allowed := func(user string, asked *authorizationv1.ResourceAttributes) bool {
		return !slices.Contains(
			a.refused,
			user+asked.Verb+" "+strings.TrimSuffix(asked.Resource+"/"+asked.Subresource, "/"),
		)
	}
	switch o := o.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		o.Status.Allowed = allowed("", o.Spec.ResourceAttributes)
	case *authorizationv1.SubjectAccessReview:
		o.Status.Allowed = allowed(
			strings.TrimPrefix(o.Spec.User, "system:serviceaccount:linkerd:isthmus"), o.Spec.ResourceAttributes,
		)
	}
	return o
}

func (a *checkedAPI) start(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(a)
	s.EnableHTTP2 = true // like real API servers
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(a.unblock) })
	return s
}

// world is a local cluster and a linked cluster without faults.
type world struct {
	local, east *checkedAPI
	token       string // token of the link
	secrets     []corev1.Secret
	pre         bool
	exports     bool
	annotations map[string]string // annotations of the link
}

func newWorld(t *testing.T) *world {
	anchor := pemCertificate(t, time.Hour*24*365)
	return &world{
		local: newCheckedAPI(anchor, "10.1.0.0/16"),
		east:  newCheckedAPI(anchor, "10.2.0.0/16"),
		token: jwt(time.Now().Add(30 * 24 * time.Hour)),
	}
}

// run runs the checks and returns the results that are not OK, one per line.
func (w *world) run(t *testing.T) (bad []string, all []check.Result) {
	t.Helper()
	local, east := w.local.start(t), w.east.start(t)
	secret := linkSecret(t, "link-east", "east", east, w)
	maps.Copy(secret.Annotations, w.annotations)
	w.local.answers["/api/v1/namespaces/linkerd/secrets"] = corev1.SecretList{
		Items: append([]corev1.Secret{secret}, w.secrets...),
	}
	config := &rest.Config{
		Host:            local.URL,
		BearerToken:     "local-token",
		TLSClientConfig: rest.TLSClientConfig{CAData: authority(local)},
	}
	asking, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer asking.CloseIdleConnections()
	user, err := kube.NewTyped(config, asking)
	if err != nil {
		t.Fatal(err)
	}
	all = check.Judge(preflight(t.Context(), preflightOptions{
		config:    config,
		api:       user,
		namespace: "linkerd",
		account:   "isthmus",
		pre:       w.pre,
		exports:   w.exports,
	}))
	for _, r := range all {
		if r.Level != check.OK {
			bad = append(bad, fmt.Sprintf("%s %s %s: %s", r.Level, r.Check, r.Object, r.Text))
			if r.Hint == "" && r.Level != check.Unchecked {
				t.Errorf("no hint: %+v", r)
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
		"clusters": []any{
			map[string]any{
				"name":    "c",
				"cluster": map[string]any{"server": server.URL, "certificate-authority-data": authority(server)},
			},
		},
		"users": []any{map[string]any{"name": "u", "user": user}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "linkerd", Labels: map[string]string{
				"multicluster.linkerd.io/cluster-name": cluster,
			},
			Annotations: map[string]string{
				"multicluster.linkerd.io/trust-domain":   "cluster.local",
				"multicluster.linkerd.io/cluster-domain": "cluster.local",
			},
		},
		Type: clusterstore.SecretType, Data: map[string][]byte{"kubeconfig": text},
	}
}

// pemCertificate returns a certificate in PEM that is valid for the given time.
func pemCertificate(t *testing.T, good time.Duration) string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(
			now.UnixNano(),
		), Subject: pkix.Name{
			CommonName: "root",
		}, NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(good), IsCA: true,
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
