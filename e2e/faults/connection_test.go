package faults

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// connectionFaults returns faults of the connection to a healthy API server.
func connectionFaults() []fault {
	return []fault{{
		name: "deleted-unseen", state: "stale",
		inject: deleteUnseen, heal: restore, verify: servesPlainly,
	}}
}

// ownFaults returns faults of the local cluster.
func ownFaults() []fault {
	cut := func(m harness.FaultMode) func(context.Context, *stage) error {
		return func(_ context.Context, s *stage) error { return s.cut(m) }
	}
	return []fault{{
		name: "killed", state: "stale",
		inject: func(_ context.Context, s *stage) error { return s.faulty.site.cluster().Kill() }, heal: restart,
	}, {
		name: "refused", state: "stale", reason: "connection refused",
		inject: cut(harness.FaultMode{Refuse: true}), heal: restore,
	}, {
		name: "half-open", state: "stale", // connections are accepted, but nothing is forwarded
		inject: cut(harness.Silent), heal: restore,
	}}
}

func restore(_ context.Context, s *stage) error { return s.proxy.Set(harness.FaultMode{}) }

// deleteUnseen deletes objects of every kind while the cluster cannot be watched. Isthmus receives
// no events for the deletions, and must find them by comparing the next list with its cache.
func deleteUnseen(ctx context.Context, s *stage) error {
	at, pod, workload, doomed := s.far.site, s.far.addr(220), s.far.addr(221), s.far.addr(222)
	meshed, vm := kube.Mesh(kube.Pod(s.name, "far", "")), kube.ExternalWorkload(s.name, "far", workload.Addr().String())
	meshed.Labels["app"] = "far"
	vm.SetLabels(map[string]string{"app": "far"})
	ofVM := kube.PodEndpoint(workload.Addr().String(), s.name, "far")
	ofVM.TargetRef.Kind = vm.GetKind()
	if err := at.apply(ctx, s.name, meshed, kube.OpaqueServer(s.name, "far", "far", kube.Port), vm,
		kube.Pod(s.name, "doomed", ""),
		kube.Slice(s.name, "far", "pod", kube.PodEndpoint(pod.Addr().String(), s.name, "far")),
		kube.Slice(
			s.name,
			"far",
			"workload",
			ofVM,
			kube.PodEndpoint(doomed.Addr().String(), s.name, "doomed"),
		)); err != nil {
		return err
	}
	s.far.has(pod)
	err := within(ctx, patience, func() error {
		now := s.mirror.Snapshot().Get
		if !opaque(now, pod) || !now.Has(workload) || !now.Has(doomed) {
			return fmt.Errorf("the objects have no effect yet: %v", now.Addrs())
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.cut(harness.Silent); err != nil {
		return err
	}
	for _, path := range []string{
		"/apis/policy.linkerd.io/v1beta3/namespaces/$NS/servers/far",
		"/apis/workload.linkerd.io/v1beta1/namespaces/$NS/externalworkloads/far",
		"/apis/discovery.k8s.io/v1/namespaces/$NS/endpointslices/far-workload",
		"/api/v1/namespaces/$NS/pods/doomed",
	} {
		path = strings.ReplaceAll(path, "$NS", s.name)
		if err := at.client().Discovery().RESTClient().Delete().AbsPath(path).Do(ctx).Error(); err != nil {
			return fmt.Errorf("delete %s: %w", path, err)
		}
	}
	return nil
}

// servesPlainly returns an error while the deleted Server still has an effect.
func servesPlainly(_ context.Context, s *stage) error {
	if pod := s.far.addr(220); opaque(s.mirror.Snapshot().Get, pod) {
		return fmt.Errorf("%v is still opaque", pod)
	}
	return nil
}

// opaque reports whether the protocol hint for an address is opaque.
func opaque(state *proxy.GetState, addr netip.AddrPort) bool {
	return state.Endpoints()[addr].Weighted.GetProtocolHint().GetOpaque() != nil
}
