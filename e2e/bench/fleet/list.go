package fleet

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/harness/kube"
)

// List lists the Pods, Services and EndpointSlices of all clusters in a fleet in parallel with
// client-go, and returns the number of objects. It finds the linked clusters by their link Secrets.
func List(ctx context.Context, kubeconfig string) (objects int, err error) {
	local, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 0, err
	}
	l := &lister{}
	own, err := l.start(ctx, local)
	if err != nil {
		return 0, err
	}
	l.Go(func() error {
		links, err := own.CoreV1().Secrets(kube.LinkNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, link := range links.Items {
			linked, err := clientcmd.RESTConfigFromKubeConfig(link.Data["kubeconfig"])
			if err == nil {
				_, err = l.start(ctx, linked)
			}
			if err != nil {
				return fmt.Errorf("link %s: %w", link.Name, err)
			}
		}
		return nil
	})
	err = l.Wait()
	return int(l.objects.Load()), err
}

const protobuf = "application/vnd.kubernetes.protobuf"

type lister struct {
	errgroup.Group
	objects atomic.Int64
}

func (l *lister) start(ctx context.Context, cfg *rest.Config) (kubernetes.Interface, error) {
	cfg.QPS, cfg.ContentType, cfg.AcceptContentTypes = -1, protobuf, protobuf+",application/json"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	for _, list := range []func() (runtime.Object, error){
		func() (runtime.Object, error) { return client.CoreV1().Pods("").List(ctx, metav1.ListOptions{}) },
		func() (runtime.Object, error) { return client.CoreV1().Services("").List(ctx, metav1.ListOptions{}) },
		func() (runtime.Object, error) {
			return client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
		},
	} {
		l.Go(func() error {
			objects, err := list()
			if err == nil {
				l.objects.Add(int64(meta.LenList(objects)))
			}
			return err
		})
	}
	return client, nil
}
