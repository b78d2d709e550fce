package faults

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"isthmus/e2e/cluster"
	"isthmus/e2e/shop"
)

// site is an API server, and an administrator's clients of it.
type site struct {
	cfg    cluster.Config
	subnet byte // of the addresses behind its Services: 10.subnet.0.0/16

	mu     sync.Mutex // guards the rest, which is another after the site has been renewed
	server *cluster.Cluster
	kube   *kubernetes.Clientset
	shop   *shop.Cluster
}

func newSite(server *cluster.Cluster, cfg cluster.Config, subnet byte) (*site, error) {
	s := &site{cfg: cfg, subnet: subnet}
	return s, s.connect(server)
}

func (s *site) connect(server *cluster.Cluster) error {
	kube, err := kubernetes.NewForConfig(server.REST())
	if err != nil {
		return err
	}
	objects, err := shop.New(s.cfg.Name, s.subnet, server.REST())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server, s.kube, s.shop = server, kube, objects
	return nil
}

func (s *site) cluster() *cluster.Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

func (s *site) client() *kubernetes.Clientset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kube
}

// close ends the API server.
func (s *site) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shop.Close()
	return s.server.Close()
}

// renew ends the API server, changes its folder, and starts it again, with whatever credentials it then has.
func (s *site) renew(ctx context.Context, change func(dir string) error) error {
	if err := s.close(); err != nil {
		return err
	}
	if err := change(s.cluster().Dir()); err != nil {
		return err
	}
	server, err := cluster.Start(ctx, s.cfg)
	if err != nil {
		return err
	}
	return s.connect(server)
}

// apply writes YAML objects, with $NS replaced by a namespace, which is made if need be.
func (s *site) apply(ctx context.Context, namespace, objects string, replace ...string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := s.client().CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%s: %w", s.cfg.Name, err)
	}
	s.mu.Lock()
	writer := s.shop
	s.mu.Unlock()
	return writer.Apply(ctx, strings.NewReader(strings.NewReplacer(append(replace, "$NS", namespace)...).Replace(objects)))
}

// slice writes an EndpointSlice of bare addresses.
func (s *site) slice(ctx context.Context, namespace, service, name string, addrs ...netip.AddrPort) (*discoveryv1.EndpointSlice, error) {
	o := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-" + name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(servicePort))}},
	}
	for _, a := range addrs {
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{a.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	slices := s.client().DiscoveryV1().EndpointSlices(namespace)
	written, err := slices.Update(ctx, o, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return slices.Create(ctx, o, metav1.CreateOptions{})
	}
	return written, err
}

const servicePort = 8080

// startSites runs clusters until the test ends.
func startSites(t *testing.T, names ...string) []*site {
	t.Helper()
	var configs []cluster.Config
	for _, name := range names {
		configs = append(configs, cluster.Config{Name: name, Dir: t.TempDir(), Controllers: []string{"namespace", "serviceaccount"}})
	}
	servers, err := cluster.StartAll(t.Context(), configs...)
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
