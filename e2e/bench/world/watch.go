package world

import (
	"context"
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Watch watches the slices of all clusters in the plain way of client-go, until ctx ends. It calls changed for each change that
// comes from then on, by a goroutine for each cluster.
func (w *World) Watch(ctx context.Context, changed func(cluster int, service string, at time.Time)) error {
	for i, m := range w.clusters {
		slices := m.client.DiscoveryV1().EndpointSlices(Namespace)
		list, err := slices.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return fmt.Errorf("cluster %s: %w", m.name, err)
		}
		watch, err := slices.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return fmt.Errorf("cluster %s: %w", m.name, err)
		}
		go func() {
			for e := range watch.ResultChan() {
				if slice, ok := e.Object.(*discoveryv1.EndpointSlice); ok {
					changed(i, slice.Labels[discoveryv1.LabelServiceName], time.Now())
				}
			}
		}()
	}
	return nil
}
