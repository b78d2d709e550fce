package faults

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"isthmus/e2e/faultproxy"
	"isthmus/e2e/object"
)

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	ofServers   = definitions + "/servers.policy.linkerd.io"
	servers     = "/apis/policy.linkerd.io/v1beta3/servers"
)

// definitionDeleted is the fault that a CRD is deleted while the cluster is away, and with it a Server that made a port
// opaque. No event and no list shows it. Afterwards it is made anew.
func definitionDeleted() fault {
	var definition *unstructured.Unstructured // while there is none
	return fault{
		name: "crd-deleted-while-away", state: "stale",
		inject: func(ctx context.Context, s *stage) (err error) {
			if err := s.opaquePod(ctx); err != nil {
				return err
			}
			if err := s.cut(faultproxy.Silent); err != nil {
				return err
			}
			definition, err = s.deleteDefinition(ctx)
			s.t.Cleanup(func() {
				if definition != nil {
					must(s.t, s.createDefinition(context.WithoutCancel(ctx), definition))
				}
			})
			return err
		},
		heal: restore,
		verify: func(ctx context.Context, s *stage) error {
			if definition == nil {
				return s.isOpaque(true)
			}
			if err := s.isOpaque(false); err != nil {
				return err
			}
			if err := s.createDefinition(ctx, definition); err != nil {
				return err
			}
			definition = nil
			if err := s.far.site.apply(ctx, s.name, object.OpaqueServer(s.name, "far", "far", object.Port)); err != nil {
				return err
			}
			return s.isOpaque(true)
		},
	}
}

// opaquePod makes a Pod behind the link, and a Server that makes its port opaque.
func (s *stage) opaquePod(ctx context.Context) error {
	addr, pod := s.far.addr(220), object.Mesh(object.Pod(s.name, "far", ""))
	pod.Labels["app"] = "far"
	if err := s.far.site.apply(ctx, s.name, pod, object.OpaqueServer(s.name, "far", "far", object.Port),
		object.Slice(s.name, "far", "pod", object.PodEndpoint(addr.Addr().String(), s.name, "far"))); err != nil {
		return err
	}
	s.far.has(addr)
	return within(ctx, patience, func() error { return s.isOpaque(true) })
}

// isOpaque returns an error unless the port of that Pod is opaque for a proxy, or is not.
func (s *stage) isOpaque(want bool) error {
	if addr := s.far.addr(220); opaque(s.mirror.Snapshot().Get, addr) != want {
		return fmt.Errorf("opaque for %v is not %v", addr, want)
	}
	return nil
}

// deleteDefinition deletes the CRD of Servers, and returns once the API server has neither.
func (s *stage) deleteDefinition(ctx context.Context) (*unstructured.Unstructured, error) {
	client := s.far.site.client().Discovery().RESTClient()
	text, err := client.Get().AbsPath(ofServers).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	definition := &unstructured.Unstructured{}
	if err := definition.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	definition.SetResourceVersion("")
	definition.SetUID("")
	if err := client.Delete().AbsPath(ofServers).Do(ctx).Error(); err != nil {
		return nil, err
	}
	return definition, within(ctx, recovery, func() error {
		if err := client.Get().AbsPath(servers).Do(ctx).Error(); !apierrors.IsNotFound(err) {
			return fmt.Errorf("Servers are still there: %w", err)
		}
		return nil
	})
}

// createDefinition creates the CRD again, and returns once there can be Servers.
func (s *stage) createDefinition(ctx context.Context, definition *unstructured.Unstructured) error {
	text, err := definition.MarshalJSON()
	if err != nil {
		return err
	}
	client := s.far.site.client().Discovery().RESTClient()
	if err := client.Post().AbsPath(definitions).SetHeader("Content-Type", "application/json").Body(text).Do(ctx).Error(); err != nil {
		return err
	}
	return within(ctx, recovery, func() error { return client.Get().AbsPath(servers).Do(ctx).Error() })
}
