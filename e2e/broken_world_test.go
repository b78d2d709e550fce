package e2e

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

const month = 30 * 24 * time.Hour

// brokenWorld is a world in which much is wrong at once: the two clusters of a checkedWorld, and two more that are linked.
type brokenWorld struct {
	*checkedWorld
	north, south *kube.Client
	gateway      *harness.Replica
	contexts     string // a kubeconfig with one for west, which is the current one, and one for east
}

// newBrokenWorld breaks all of it before the gateway starts.
func newBrokenWorld(t *testing.T, faults []fault) *brokenWorld {
	w := &brokenWorld{checkedWorld: newCheckedWorld(t, "north", "south")}
	w.north, w.south = w.more[0], w.more[1]
	must(t, w.west.Apply(t.Context(), w.zoned("west-2", "zone-2", "10.244.2.0/24"), w.zoned("west-3", "zone-3", "10.244.3.0/24"),
		kube.Link("north", w.access(t, w.north, "isthmus-remote-access", month)),
		kube.Link("south", w.access(t, w.south, "isthmus-remote-access", month))))
	w.contexts = w.writeContexts(t)
	for _, f := range faults {
		f.spoil(t, w)
	}
	w.gateway = startGateway(t, harness.ReplicaConfig{Kubeconfig: w.kubeconfig})
	return w
}

func (w *brokenWorld) zoned(name, zone, cidr string) *corev1.Node {
	n := w.node(name, cidr)
	n.Labels[corev1.LabelTopologyZone] = zone
	return n
}

func (w *brokenWorld) writeContexts(t *testing.T) string {
	t.Helper()
	all := clientcmdapi.NewConfig()
	for _, c := range []*kube.Client{w.west, w.east} {
		text, err := c.Kubeconfig(c.Server(), c.Admin())
		must(t, err)
		one, err := clientcmd.Load(text)
		must(t, err)
		maps.Copy(all.Clusters, one.Clusters)
		maps.Copy(all.AuthInfos, one.AuthInfos)
		maps.Copy(all.Contexts, one.Contexts)
	}
	all.CurrentContext = "west"
	path := filepath.Join(t.TempDir(), "contexts")
	must(t, clientcmd.WriteToFile(*all, path))
	return path
}

// verb returns what runs a verb as a user does who follows a next step.
func verb(args ...string) change {
	return func(t *testing.T, w *brokenWorld) {
		t.Helper()
		args := append(slices.Clone(args), "--kubeconfig", w.contexts, "--admin", w.gateway.MetricsAddr())
		if args[0] == "unlink" {
			args = args[:len(args)-2] // it asks no gateway
		}
		if r := runVerb(t, w.isthmus, args...); r.code != 0 {
			t.Errorf("isthmus %v: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}

// access returns a kubeconfig of an account in a linked cluster, with a token that is good for so long.
func (w *brokenWorld) access(t *testing.T, c *kube.Client, account string, good time.Duration) []byte {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(good.Seconds()))}}
	answer, err := c.CoreV1().ServiceAccounts("linkerd-multicluster").CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	must(t, err)
	text, err := c.Kubeconfig(c.Server(), clientcmdapi.AuthInfo{Token: answer.Status.Token})
	must(t, err)
	return text
}

// change changes something in the world.
type change func(*testing.T, *brokenWorld)

// write returns what writes objects.
func write(to func(*brokenWorld) *kube.Client, objects ...runtime.Object) change {
	return func(t *testing.T, w *brokenWorld) {
		t.Helper()
		must(t, to(w).Apply(t.Context(), objects...))
	}
}

func inWest(w *brokenWorld) *kube.Client { return w.west }
func inEast(w *brokenWorld) *kube.Client { return w.east }

// both does one after the other.
func both(all ...change) change {
	return func(t *testing.T, w *brokenWorld) {
		t.Helper()
		for _, do := range all {
			do(t, w)
		}
	}
}

// deleteLink deletes a link Secret.
func deleteLink(secret string) change {
	return func(t *testing.T, w *brokenWorld) {
		t.Helper()
		must(t, w.west.CoreV1().Secrets(kube.LinkNamespace).Delete(t.Context(), secret, metav1.DeleteOptions{}))
	}
}

// strayLink returns the link Secret of a server.
func strayLink(name, server string, user clientcmdapi.AuthInfo) *corev1.Secret {
	text, err := kube.Kubeconfig(name, clientcmdapi.Cluster{Server: server, InsecureSkipTLSVerify: true}, user)
	if err != nil {
		panic(err)
	}
	return kube.Link(name, text)
}

// selectedPod returns a Pod that a Service selects, with its status.
func selectedPod(app, ip string, ready corev1.ConditionStatus) *unstructured.Unstructured {
	pod := kube.Pod("shop", app+"-1", "default")
	pod.Labels = map[string]string{"app": app}
	pod.Spec.NodeName = "east-1"
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: kube.Port}}
	u, err := kube.Unstructured(pod)
	if err != nil {
		panic(err)
	}
	u.Object["status"] = map[string]any{
		"phase": "Running", "podIP": ip, "podIPs": []any{map[string]any{"ip": ip}},
		"conditions": []any{map[string]any{"type": "Ready", "status": string(ready)}},
	}
	return u
}

// selecting returns a Service that selects the Pods of an app.
func selecting(app, targetPort string) *corev1.Service {
	s := kube.Service("shop", app)
	s.Spec.Selector = map[string]string{"app": app}
	s.Spec.Ports[0].TargetPort = intstr.FromString(targetPort)
	return s
}

func onPort(s *corev1.Service, port int32) *corev1.Service {
	s.Spec.Ports[0].Port = port
	return s
}

func annotated(s *corev1.Service, name, value string) *corev1.Service {
	s.Annotations[name] = value
	return s
}

func nodeLocal(name string, policy corev1.ServiceInternalTrafficPolicy) *corev1.Service {
	s := kube.Service("shop", name)
	s.Spec.InternalTrafficPolicy = &policy
	return s
}

// hinted returns an endpoint that is hinted to a zone; empty: to none.
func hinted(ip, zone string) discoveryv1.Endpoint {
	e := kube.Endpoint(ip)
	if zone != "" {
		e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
	}
	return e
}

func ipv6(name, ip string) *discoveryv1.EndpointSlice {
	s := kube.Slice("shop", name, "v6", kube.Endpoint(ip))
	s.AddressType = discoveryv1.AddressTypeIPv6
	return s
}

// member writes a Service in east with an endpoint.
func member(name, ip string) change {
	return write(inEast, kube.Service("shop", name), kube.Slice("shop", name, "a", kube.Endpoint(ip)))
}
