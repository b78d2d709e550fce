package cluster_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"isthmus/e2e/cluster"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
	"isthmus/e2e/program"
)

// TestLife follows two clusters from their start to their end.
func TestLife(t *testing.T) {
	west, east := startTwo(t)
	client := clientOf(t, west.REST())
	t.Run("serves the version and the CRDs", func(t *testing.T) { checkDiscovery(t, client) })
	t.Run("keeps objects", func(t *testing.T) { writeObjects(t, client) })
	t.Run("keeps clusters apart", func(t *testing.T) {
		_, err := clientOf(t, east.REST()).CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("namespace shop of west, read in east: %v", err)
		}
	})
	t.Run("authorizes ServiceAccounts", func(t *testing.T) { checkRBAC(t, west.REST(), client) })
	t.Run("runs controllers", func(t *testing.T) { checkControllers(t, clientOf(t, east.REST())) })
	t.Run("comes back after a kill", func(t *testing.T) { checkRestart(t, west, client) })
	t.Run("pauses", func(t *testing.T) { checkPause(t, east) })
	t.Run("ends", func(t *testing.T) {
		if err := east.Pause(); err != nil { // being paused must not keep it alive
			t.Fatal(err)
		}
		checkClose(t, west)
		checkClose(t, east)
	})
}

func startTwo(t *testing.T) (west, east *cluster.Cluster) {
	t.Helper()
	binary, err := program.Controlplane.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	began := time.Now()
	both, err := cluster.StartAll(t.Context(),
		cluster.Config{Name: "west", Dir: filepath.Join(dir, "west"), Binary: binary},
		// A path that no socket could have.
		cluster.Config{Name: "east", Dir: filepath.Join(dir, strings.Repeat("long", 30), "east"), Binary: binary,
			Controllers: []string{"namespace", "serviceaccount", "token", "endpointslice", "gc", "clusterrole", "deployment", "replicaset", "disruption"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("two clusters were ready after %v", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		for _, c := range both {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return both[0], both[1]
}

func checkDiscovery(t *testing.T, client kubernetes.Interface) {
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(info.GitVersion, "v"+info.Major+"."+info.Minor+".") || *info == (version.Info{}) {
		t.Errorf("version %q of %s.%s", info.GitVersion, info.Major, info.Minor)
	}
	for resource, version := range map[string]string{
		"serviceprofiles":          "linkerd.io/v1alpha2",
		"servers":                  "policy.linkerd.io/v1beta3",
		"externalworkloads/status": "workload.linkerd.io/v1beta1",
		"links/status":             "multicluster.linkerd.io/v1alpha3",
	} {
		list, err := client.Discovery().ServerResourcesForGroupVersion(version)
		if err != nil {
			t.Errorf("%s: %v", version, err)
			continue
		}
		found := false
		for _, r := range list.APIResources {
			found = found || r.Name == resource && r.Namespaced
		}
		if !found {
			t.Errorf("%s has no namespaced %s", version, resource)
		}
	}
}

// writeObjects writes a namespace, a Pod, a Service and an EndpointSlice.
func writeObjects(t *testing.T, client kubernetes.Interface) {
	ctx := t.Context()
	if err := kube.Create(ctx, client.CoreV1().Namespaces(), object.Namespace("shop")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ServiceAccount default", func() error {
		_, err := client.CoreV1().ServiceAccounts("shop").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	pod, err := client.CoreV1().Pods("shop").Create(ctx, object.Pod("shop", "web-1", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}}}
	if _, err := client.CoreV1().Pods("shop").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := object.Service("shop", "web")
	service.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	if service, err = client.CoreV1().Services("shop").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if ips := service.Spec.ClusterIPs; len(ips) != 2 || !within("10.0.0.0/16", ips[0]) || !within("fd00:10::/108", ips[1]) {
		t.Errorf("cluster IPs %v", ips)
	}
	slice := object.Slice("shop", "web", "1", object.Endpoint("10.1.0.1"))
	if err := kube.Create(ctx, client.DiscoveryV1().EndpointSlices("shop"), slice); err != nil {
		t.Fatal(err)
	}
}

func within(cidr, ip string) bool {
	_, network, err := net.ParseCIDR(cidr)
	return err == nil && network.Contains(net.ParseIP(ip))
}

// checkRBAC acts as a ServiceAccount, which may do nothing until a role allows it.
func checkRBAC(t *testing.T, admin *rest.Config, client kubernetes.Interface) {
	ctx := t.Context()
	token, err := client.CoreV1().ServiceAccounts("shop").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	account := clientOf(t, config)
	read := func() error {
		_, err := account.CoreV1().Pods("shop").Get(ctx, "web-1", metav1.GetOptions{})
		return err
	}
	if err := read(); !apierrors.IsForbidden(err) {
		t.Errorf("reading a Pod without a role: %v", err)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
	}
	if _, err := client.RbacV1().Roles("shop").Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: "shop"}},
	}
	if _, err := client.RbacV1().RoleBindings("shop").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role takes effect", read)
	if err := account.CoreV1().Pods("shop").Delete(ctx, "web-1", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting a Pod with a role to read: %v", err)
	}
	config.BearerToken = "never issued"
	if _, err := clientOf(t, config).CoreV1().Pods("shop").List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("with a token that was never issued: %v", err)
	}
}

func checkRestart(t *testing.T, west *cluster.Cluster, client kubernetes.Interface) {
	ctx := t.Context()
	if err := west.Kill(); err != nil {
		t.Fatal(err)
	}
	if west.Running() {
		t.Error("Running after a kill")
	}
	if _, err := client.CoreV1().Pods("shop").Get(ctx, "web-1", metav1.GetOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("reading from a killed cluster: %v", err)
	}
	began := time.Now()
	if err := west.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("west was ready again after %v", time.Since(began).Round(time.Millisecond))
	// The same client: address, authority and credentials are those of before.
	pod, err := client.CoreV1().Pods("shop").Get(ctx, "web-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.PodIP != "10.1.0.1" {
		t.Errorf("the Pod's address is %q after the restart", pod.Status.PodIP)
	}
	if _, err := client.DiscoveryV1().EndpointSlices("shop").Get(ctx, "web-1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	checkDiscovery(t, client)
}

func checkPause(t *testing.T, east *cluster.Cluster) {
	if err := east.Pause(); err != nil {
		t.Fatal(err)
	}
	config := east.REST()
	config.Timeout = 300 * time.Millisecond
	hangs := func() bool {
		_, err := clientOf(t, config).Discovery().ServerVersion()
		return errors.Is(err, context.DeadlineExceeded) || err != nil && isTimeout(err)
	}
	for limit := time.Now().Add(time.Minute); !hangs(); { // a thread that runs may go on for a moment
		if time.Now().After(limit) {
			t.Fatal("a paused cluster answers")
		}
	}
	if !hangs() {
		t.Error("a paused cluster answered")
	}
	if !east.Running() {
		t.Error("not Running while paused")
	}
	if err := east.Resume(); err != nil {
		t.Fatal(err)
	}
	if _, err := clientOf(t, east.REST()).Discovery().ServerVersion(); err != nil {
		t.Errorf("after it went on: %v", err)
	}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// checkClose closes the cluster and sees that nothing is left of it.
func checkClose(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	pid := pidOf(t, c.Dir())
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("cluster %s, process %d: %v", c.Name(), pid, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("cluster %s: process %d after Close: %v", c.Name(), pid, err)
	}
	server, err := url.Parse(c.REST().Host)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", server.Host); err == nil {
		conn.Close()
		t.Errorf("cluster %s: a server listens on %s after Close", c.Name(), server.Host)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if err := c.Pause(); err == nil {
		t.Errorf("cluster %s: a closed cluster was paused", c.Name())
	}
	if err := c.Restart(t.Context()); err == nil {
		t.Errorf("cluster %s: a closed cluster was restarted", c.Name())
	}
}
