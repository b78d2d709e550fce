package faults

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

type site struct {
	cfg    harness.ClusterConfig
	subnet byte // Services have addresses in 10.subnet.0.0/16

	mu     sync.Mutex // guards the fields below, which change when the site is renewed
	server *harness.Cluster
	kube   *kube.Client
}

func newSite(server *harness.Cluster, cfg harness.ClusterConfig, subnet byte) (*site, error) {
	s := &site{cfg: cfg, subnet: subnet}
	return s, s.connect(server)
}

func (s *site) connect(server *harness.Cluster) error {
	client, err := kube.NewClient(s.cfg.Name, server.REST())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server, s.kube = server, client
	return nil
}

func (s *site) cluster() *harness.Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

func (s *site) client() *kube.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kube
}

func (s *site) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kube.Close()
	return s.server.Close()
}

// renew stops the API server, changes its directory, and starts it again with the credentials in
// the directory.
func (s *site) renew(ctx context.Context, change func(dir string) error) error {
	if err := s.close(); err != nil {
		return err
	}
	if err := change(s.cluster().Dir()); err != nil {
		return err
	}
	server, err := harness.StartCluster(ctx, s.cfg)
	if err != nil {
		return err
	}
	return s.connect(server)
}

func (s *site) apply(ctx context.Context, namespace string, objects ...runtime.Object) error {
	return s.client().Apply(ctx, append([]runtime.Object{kube.Namespace(namespace)}, objects...)...)
}

func (s *site) grant(ctx context.Context, namespace, rights string) error {
	return s.client().ApplyYAML(ctx, strings.ReplaceAll(rights, "$NS", namespace))
}

// slice writes an EndpointSlice with addresses that do not have Pods.
func (s *site) slice(
	ctx context.Context,
	namespace, service, name string,
	addrs ...netip.AddrPort,
) (*discoveryv1.EndpointSlice, error) {
	o := kube.Slice(namespace, service, name)
	for _, a := range addrs {
		o.Endpoints = append(o.Endpoints, kube.Endpoint(a.Addr().String()))
	}
	return kube.Put(ctx, s.client().DiscoveryV1().EndpointSlices(namespace), o)
}

// admit writes the objects of a linked cluster: a ServiceAccount with permissions, and the Service
// far.
func (s *site) admit(ctx context.Context, namespace string) error {
	return errors.Join(
		s.apply(ctx, namespace, kube.ServiceAccount(namespace, accountName), kube.Service(namespace, "far")),
		s.grant(ctx, namespace, rights),
	)
}

func startSites(t *testing.T, names ...string) []*site {
	t.Helper()
	var configs []harness.ClusterConfig
	for _, name := range names {
		configs = append(
			configs,
			harness.ClusterConfig{Name: name, Dir: t.TempDir(), Controllers: []string{"namespace", "serviceaccount"}},
		)
	}
	servers, err := harness.StartClusters(t.Context(), configs...)
	if err != nil {
		t.Fatal(err)
	}
	var sites []*site
	for i, server := range servers {
		s, err := newSite(server, configs[i], byte(i+1))
		t.Cleanup(func() {
			if err := errors.Join(err, s.close()); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		sites = append(sites, s)
	}
	return sites
}
