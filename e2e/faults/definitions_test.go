package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/gateway"
	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
	"isthmus/internal/apisim"
)

// largeService is a federated Service of many members, whose definition is dear: its members are in one linked cluster.
type largeService struct {
	west, north    *apisim.Server
	members, ports int
	gateway        *gateway.Gateway
}

const largeName = "large"

// TestDefinitions edits one annotation of a large Service ten times a second, so that half of its members come and go. New
// Services of another namespace are served as ever.
func TestDefinitions(t *testing.T) {
	inTurn(t)
	l := newLargeService(t, either(30, 100), 20)
	conn, err := proxy.Dial(l.gateway.Addr())
	must(t, err)
	defer conn.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for p := range l.ports {
		stream, err := get(ctx, conn, request(fmt.Sprintf("all.%s.svc.cluster.local:%d", largeName, 80+p), ""))
		must(t, err)
		var message []byte
		must(t, stream.RecvMsg(&message))
		go func() {
			var message []byte
			for stream.RecvMsg(&message) == nil {
			}
		}()
	}
	editing := make(chan error, 1)
	go func() { editing <- l.edit(ctx) }()
	for n := range either(2, 5) {
		select {
		case err := <-editing:
			t.Fatal(err)
		case <-time.After(10 * time.Second):
		}
		began := time.Now()
		name := fmt.Sprint("new-", n)
		must(t, l.west.Put(object.Service("quiet", name)))
		await(t, patience, func() error {
			stream, err := get(ctx, conn, request(object.Authority("quiet", name), ""))
			if err != nil {
				return err
			}
			var message []byte
			return stream.RecvMsg(&message)
		})
		t.Logf("a new Service of another namespace was served after %v", time.Since(began).Round(time.Millisecond))
	}
	stop()
	must(t, <-editing)
}

// newLargeService starts a gateway that knows the Service.
func newLargeService(t *testing.T, members, ports int) *largeService {
	t.Helper()
	authority, err := apisim.NewAuthority()
	must(t, err)
	start := func(name string) *apisim.Server {
		s, err := apisim.Start(name, authority)
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		s.Admit("token")
		return s
	}
	l := &largeService{west: start("west"), north: start("north"), members: members, ports: ports}
	for m := range members {
		name := fmt.Sprint("web-", m)
		l.put(t, l.north, l.withPorts(object.Service(largeName, name)))
		for s := range 10 {
			slice := object.Slice(largeName, name, fmt.Sprint(s))
			for i := range 100 {
				slice.Endpoints = append(slice.Endpoints, object.Endpoint(fmt.Sprintf("10.%d.%d.%d", 100+m, s, 1+i)))
			}
			l.put(t, l.north, slice)
		}
	}
	l.put(t, l.west, l.federated(members))
	link, err := l.north.Kubeconfig(l.north.Addr(), "token")
	must(t, err)
	l.put(t, l.west, object.Link("north", link))
	own, err := l.west.Kubeconfig(l.west.Addr(), "token")
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, own, 0o600))
	l.gateway, err = gateway.Start(t.Context(), gateway.Config{Kubeconfig: path, Args: []string{"-log-level=info"}})
	must(t, err)
	t.Cleanup(func() { must(t, l.gateway.Stop()) })
	return l
}

func (l *largeService) put(t *testing.T, at *apisim.Server, o runtime.Object) {
	t.Helper()
	must(t, at.Put(o))
}

// withPorts gives a Service its ports. All have the name of the one that its slices have.
func (l *largeService) withPorts(s *corev1.Service) *corev1.Service {
	name := s.Spec.Ports[0].Name
	s.Spec.Ports = nil
	for p := range l.ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Port: int32(80 + p)})
	}
	return s
}

// federated returns the Service with so many of its members.
func (l *largeService) federated(members int) *corev1.Service {
	var remote []string
	for m := range members {
		remote = append(remote, fmt.Sprintf("web-%d@north", m))
	}
	return l.withPorts(object.Federated(largeName, "all", "", remote...))
}

// edit edits the annotation ten times a second, until ctx ends.
func (l *largeService) edit(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.west.Put(l.federated(l.members - l.members/2*(n%2))); err != nil {
			return err
		}
	}
}
