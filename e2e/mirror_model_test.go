package e2e

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"isthmus/e2e/harness/kube"
)

// Labels and annotations of what Linkerd's service mirror reads and writes.
const (
	exportedLabel   = "mirror.linkerd.io/exported"
	memberLabel     = "mirror.linkerd.io/federated"
	mirroredLabel   = "mirror.linkerd.io/mirrored-service"
	mirrorOfLabel   = "mirror.linkerd.io/cluster-name"
	mirrorOfService = "mirror.linkerd.io/remote-svc-fq-name"
	mirrorOfVersion = "mirror.linkerd.io/remote-resource-version"
)

// modelMirror plays Linkerd's service mirror of a Link, or the local one, as `make mirror-migration` sees the real one: while it
// holds its Lease, it writes what is exported when it begins and when that changes, over whatever is there.
type modelMirror struct {
	own, remote *kube.Client
	link        string            // empty: the local one
	seen        map[string]string // versions of the remote Services that have been dealt with, by name; nil: it begins
}

// run runs until ctx ends. Then the Lease is released.
func (m *modelMirror) run(ctx context.Context) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "linkerd-multicluster", Name: mirrorLease(m.link)},
			Client:    m.own.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "model"},
		},
		LeaseDuration: 30 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return err
	}
	var election sync.WaitGroup
	election.Go(func() { elector.Run(klog.NewContext(ctx, klog.Logger{})) })
	defer election.Wait()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !elector.IsLeader() {
			m.seen = nil
		} else if err := m.pass(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// mirrorLease is the name of the Lease of a Link's service mirror, or of the local one.
func mirrorLease(link string) string {
	if link == "" {
		return "local-service-mirror-write"
	}
	return "service-mirror-write-" + link
}

func (m *modelMirror) pass(ctx context.Context) error {
	list, err := m.remote.CoreV1().Services("shop").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	there := make(map[string]string)
	for _, s := range list.Items {
		if there[s.Name] = s.ResourceVersion; m.seen[s.Name] != s.ResourceVersion {
			err = errors.Join(err, m.mirror(ctx, &s), m.federate(ctx, &s))
		}
	}
	if m.seen == nil && m.link != "" {
		err = errors.Join(err, m.removeOrphans(ctx, there))
	}
	m.seen = there
	return err
}

// removeOrphans deletes mirrors of Services that went while nobody mirrored them.
func (m *modelMirror) removeOrphans(ctx context.Context, there map[string]string) error {
	services := m.own.CoreV1().Services("shop")
	list, err := services.List(ctx, metav1.ListOptions{LabelSelector: mirroredLabel + "=true," + mirrorOfLabel + "=" + m.link})
	if err != nil {
		return err
	}
	for _, s := range list.Items {
		if there[strings.TrimSuffix(s.Name, "-"+m.link)] == "" {
			err = errors.Join(err, services.Delete(ctx, s.Name, metav1.DeleteOptions{}))
		}
	}
	return err
}

// copyOf is what both kinds of Services have of a remote one.
func copyOf(s *corev1.Service, name string) *corev1.Service {
	c := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: map[string]string{mirroredLabel: "true"}, Annotations: map[string]string{}}}
	for key, value := range s.Labels {
		if !strings.HasPrefix(key, "mirror.linkerd.io") {
			c.Labels[key] = value
		}
	}
	maps.Copy(c.Annotations, s.Annotations)
	for _, p := range s.Spec.Ports {
		c.Spec.Ports = append(c.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, TargetPort: p.TargetPort})
	}
	return c
}

// mirror writes the mirror of a remote Service.
func (m *modelMirror) mirror(ctx context.Context, s *corev1.Service) error {
	mode := s.Labels[exportedLabel]
	if m.link == "" || mode != "true" && mode != "remote-discovery" {
		return nil
	}
	want := copyOf(s, s.Name+"-"+m.link)
	want.Labels[mirrorOfLabel] = m.link
	if mode == "remote-discovery" {
		want.Labels[kube.RemoteDiscovery], want.Labels[kube.RemoteService] = m.link, s.Name
	}
	want.Annotations[mirrorOfService] = kube.FullName(s.Namespace, s.Name)
	want.Annotations[mirrorOfVersion] = s.ResourceVersion
	return m.put(ctx, want, func(have *corev1.Service) {
		if of := have.Annotations[mirrorOfVersion]; of != "" && of != s.ResourceVersion {
			have.Labels, have.Annotations, have.Spec.Ports = want.Labels, want.Annotations, want.Spec.Ports
		}
	})
}

// federate has a remote Service join its federated Service. The own cluster's decides about labels, annotations and ports, and where
// it is no member each does: of several Links the oldest would.
func (m *modelMirror) federate(ctx context.Context, s *corev1.Service) error {
	if s.Labels[memberLabel] != "member" || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	want := copyOf(s, s.Name+"-federated")
	m.join(want, s.Name)
	return m.put(ctx, want, func(have *corev1.Service) {
		if _, local := have.Annotations[kube.LocalDiscovery]; m.link == "" || !local {
			for _, key := range []string{kube.LocalDiscovery, kube.RemoteDiscovery} {
				if value, ok := have.Annotations[key]; ok {
					want.Annotations[key] = value
				}
			}
			have.Labels, have.Annotations, have.Spec.Ports = want.Labels, want.Annotations, want.Spec.Ports
		}
		m.join(have, s.Name)
	})
}

// put creates a Service, or changes the one that is there.
func (m *modelMirror) put(ctx context.Context, want *corev1.Service, change func(have *corev1.Service)) error {
	services := m.own.CoreV1().Services(want.Namespace)
	have, err := services.Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = services.Create(ctx, want, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	next := have.DeepCopy()
	if change(next); reflect.DeepEqual(have, next) {
		return nil
	}
	_, err = services.Update(ctx, next, metav1.UpdateOptions{})
	return err
}

func (m *modelMirror) join(federated *corev1.Service, name string) {
	if m.link == "" {
		federated.Annotations[kube.LocalDiscovery] = name
		return
	}
	list := federated.Annotations[kube.RemoteDiscovery]
	if member := name + "@" + m.link; list == "" {
		federated.Annotations[kube.RemoteDiscovery] = member
	} else if !slices.Contains(strings.Split(list, ","), member) {
		federated.Annotations[kube.RemoteDiscovery] = list + "," + member
	}
}
