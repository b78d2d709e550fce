package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/e2e/cluster"
	"isthmus/e2e/gateway"
	"isthmus/e2e/intercept"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
)

var created = regexp.MustCompile(`"creationTimestamp":"[^"]*"`)

// dated answers with another time of creation.
type dated struct {
	http.ResponseWriter
	as string
}

func (d dated) Write(b []byte) (int, error) {
	_, err := d.ResponseWriter.Write(created.ReplaceAll(b, []byte(`"creationTimestamp":"`+d.as+`"`)))
	return len(b), err
}

func (d dated) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// dating starts a server in front of an API server whose objects of a resource it makes as old as that, and returns a kubeconfig for it.
func dating(t *testing.T, c *kube.Client, of *cluster.Cluster, resource, as string) []byte {
	t.Helper()
	target, err := url.Parse(c.Server())
	must(t, err)
	transport, err := rest.TransportFor(of.REST())
	must(t, err)
	s := intercept.Start(t, target, transport, func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc) {
		if strings.Contains(r.URL.Path, "/"+resource) {
			w = dated{w, as}
		}
		if r.Method == http.MethodPut { // the API refuses another time than the one it has set
			body, _ := io.ReadAll(r.Body) // an end that comes too early the API server sees too
			body = created.ReplaceAll(body, []byte(`"creationTimestamp":null`))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		forward(w, r)
	})
	text, err := c.Kubeconfig(s.URL, api.AuthInfo{Token: "none"}) // what stands in front has credentials
	must(t, err)
	return text
}

// TestImportsStay: a ServiceImport that is not new keeps its type and ports while an export has them, however old another one says it is;
// one that says it is from the future decides nothing. Statements 26, 70 of services of other clusters.
func TestImportsStay(t *testing.T) {
	t.Parallel()
	servers := startClusters(t, []string{"namespace", "serviceaccount"}, "west", "east")
	west, east := client(t, servers[0]), client(t, servers[1])
	export := func(c *kube.Client, namespace string, port int32, ip string) {
		s := object.Service(namespace, "web")
		s.Spec.Ports[0].Port, s.Spec.ClusterIP = port, ip
		must(t, c.Apply(t.Context(), object.Namespace(namespace), s))
		must(t, c.ApplyYAML(t.Context(), fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: web, namespace: %s}}", namespace)))
	}
	must(t, west.Apply(t.Context(), object.Namespace("linkerd")))
	for _, c := range []*kube.Client{west, east} {
		must(t, c.ServeMCS(t.Context(), kube.MCSVersions...))
	}
	export(east, "shop", 81, "None")
	export(east, "team", 81, "None")
	export(west, "shop", 80, "")
	export(west, "team", 80, "")
	imports, _, err := west.ResourceNamed("serviceimport")
	must(t, err)
	expect := func(what, namespace string, typ mcs.ServiceImportType, port int32, clusters ...string) {
		t.Helper()
		await(t, what, func() error {
			o, err := west.In(imports, namespace).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			var i mcs.ServiceImport
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &i); err != nil {
				return err
			}
			var of []string
			for _, c := range i.Status.Clusters {
				of = append(of, c.Cluster)
			}
			if i.Spec.Type != typ || len(i.Spec.Ports) != min(int(port), 1) || port > 0 && i.Spec.Ports[0].Port != port || !slices.Equal(of, clusters) {
				return fmt.Errorf("it is %+v, of %q", i.Spec, of)
			}
			return nil
		})
	}
	path := writeKubeconfig(t, dating(t, west, servers[0], "serviceimports", "2020-01-01T00:00:00Z"))
	startGateway(t, gateway.Config{Kubeconfig: path, Args: []string{"-exports=on", "-unlinked-after=10s", "-shutdown-delay=0s", "-drain=0s"}})
	expect("the own export alone", "shop", mcs.ClusterSetIP, 80, "local")
	expect("the own export alone", "team", mcs.ClusterSetIP, 80, "local")
	for link, as := range map[string]string{"shop": "1970-01-01T00:00:00Z", "team": "2100-01-01T00:00:00Z"} {
		secret := object.Link(link, dating(t, east, servers[1], "serviceexports", as))
		secret.Annotations["isthmus.io/export-namespaces"] = link
		must(t, west.Apply(t.Context(), secret))
	}
	expect("an older export, by its own account", "shop", mcs.ClusterSetIP, 80, "local", "shop")
	expect("an export of the future", "team", mcs.ClusterSetIP, 80, "local", "team")
	exports, _, err := west.ResourceNamed("serviceexport")
	must(t, err)
	must(t, west.In(exports, "shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	expect("the last export of its type has gone", "shop", mcs.Headless, 0, "shop")
}
