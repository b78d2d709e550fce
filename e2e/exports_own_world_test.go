package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// own is a cluster, and gateways of which a namespace is the controller namespace. They write for exports in that namespace, so that
// gateways of other namespaces do not mind.
type own struct {
	t         *testing.T
	west      *kube.Client
	config    *rest.Config
	namespace string
}

// gateway starts one that is called so, and reaches the API server at that address; empty: at its own.
func (o *own) gateway(name, server string) *harness.Replica {
	o.t.Helper()
	if server == "" {
		server = o.west.Server()
	}
	user := o.west.Admin()
	if strings.HasPrefix(server, "http:") {
		user = clientcmdapi.AuthInfo{} // what stands in front has credentials
	}
	text, err := o.west.Kubeconfig(server, user)
	must(o.t, err)
	return startGateway(o.t, harness.ReplicaConfig{Kubeconfig: writeKubeconfig(o.t, text), Hostname: name, Args: []string{
		"-controller-namespace=" + o.namespace, "-exports=on", "-unlinked-after=10s", "-local-federated-selector=for=" + o.namespace,
		"-shutdown-delay=0s", "-drain=0s", "-log-level=info",
	}})
}

// intercept starts a server in front of the API server, and returns its address.
func (o *own) intercept(answer func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc)) string {
	o.t.Helper()
	target, err := url.Parse(o.config.Host)
	must(o.t, err)
	transport, err := rest.TransportFor(o.config)
	must(o.t, err)
	return harness.Intercept(o.t, target, transport, answer).URL
}

// export makes an exported Service, or gives it another label.
func (o *own) export(name, team string) {
	o.t.Helper()
	s := kube.Service(o.namespace, name)
	s.Labels = map[string]string{"for": o.namespace, "team": team}
	must(o.t, o.west.Apply(o.t.Context(), s))
}

// users makes a user's Service in the place of what is there. It may be called by any goroutine.
func (o *own) users(name string) {
	services := o.west.CoreV1().Services(o.namespace)
	if err := services.Delete(o.t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		o.t.Error(err)
	}
	s := kube.Service(o.namespace, name)
	s.Spec.Selector = map[string]string{"app": "users"}
	if _, err := services.Create(o.t.Context(), s, metav1.CreateOptions{}); err != nil {
		o.t.Error(err)
	}
}

func (o *own) get(name string) *corev1.Service {
	o.t.Helper()
	s, err := o.west.CoreV1().Services(o.namespace).Get(o.t.Context(), name, metav1.GetOptions{})
	must(o.t, err)
	return s
}

// await waits until what is written for an export has its label.
func (o *own) await(name, team string) {
	o.t.Helper()
	await(o.t, name+" is written", func() error {
		s, err := o.west.CoreV1().Services(o.namespace).Get(o.t.Context(), name+"-federated", metav1.GetOptions{})
		if err == nil && s.Labels["team"] != team {
			err = fmt.Errorf("its labels are %v", s.Labels)
		}
		return err
	})
}

// written are the Services that the gateways have written.
func (o *own) written() []corev1.Service {
	o.t.Helper()
	list, err := o.west.CoreV1().Services("").List(o.t.Context(), metav1.ListOptions{LabelSelector: "isthmus.io/written-by=" + o.namespace})
	must(o.t, err)
	return list.Items
}

func (o *own) hasWritten(right func(n int) bool) error {
	if n := len(o.written()); !right(n) {
		return fmt.Errorf("%d are written", n)
	}
	return nil
}

// writes returns how many writes a gateway has counted.
func (o *own) writes(g *harness.Replica) float64 {
	o.t.Helper()
	samples, err := harness.ReadMetrics(o.t.Context(), g.MetricsAddr())
	must(o.t, err)
	n, _ := harness.SumSamples(samples, regexp.MustCompile(`^isthmus_service_writes_total\{`))
	return n
}

// holder is who holds the Lease.
func (o *own) holder() string {
	o.t.Helper()
	l, err := o.west.CoordinationV1().Leases(o.namespace).Get(o.t.Context(), "isthmus-exports-write", metav1.GetOptions{})
	must(o.t, err)
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}
