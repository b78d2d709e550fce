package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/bench/world"
	"isthmus/e2e/object"
)

// List lists the Pods, Services and EndpointSlices of a fleet's clusters, all at once, in the plain way of client-go, and
// returns how many there are. It finds the linked clusters by their link Secrets.
func List(ctx context.Context, kubeconfig string) (objects int, err error) {
	local, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 0, err
	}
	l := &lister{ctx: ctx}
	own, err := l.start(local)
	if err != nil {
		return 0, err
	}
	links, err := own.CoreV1().Secrets(object.LinkNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, errors.Join(err, l.wait())
	}
	for _, link := range links.Items {
		linked, err := clientcmd.RESTConfigFromKubeConfig(link.Data["kubeconfig"])
		if err == nil {
			_, err = l.start(linked)
		}
		if err != nil {
			return 0, errors.Join(fmt.Errorf("link %s: %w", link.Name, err), l.wait())
		}
	}
	err = l.wait()
	return int(l.objects.Load()), err
}

// lister is lists under way.
type lister struct {
	ctx     context.Context
	running sync.WaitGroup
	objects atomic.Int64

	mu    sync.Mutex
	wrong error
}

// start begins to list a cluster.
func (l *lister) start(cfg *rest.Config) (kubernetes.Interface, error) {
	client, err := world.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	l.list(func() (runtime.Object, error) { return client.CoreV1().Pods("").List(l.ctx, metav1.ListOptions{}) })
	l.list(func() (runtime.Object, error) { return client.CoreV1().Services("").List(l.ctx, metav1.ListOptions{}) })
	l.list(func() (runtime.Object, error) {
		return client.DiscoveryV1().EndpointSlices("").List(l.ctx, metav1.ListOptions{})
	})
	return client, nil
}

func (l *lister) list(do func() (runtime.Object, error)) {
	l.running.Go(func() {
		list, err := do()
		if err == nil {
			l.objects.Add(int64(meta.LenList(list)))
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wrong = errors.Join(l.wrong, err)
	})
}

func (l *lister) wait() error {
	l.running.Wait()
	return l.wrong
}
