package faults

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// stage is the environment of one fault: a namespace in all clusters and a link, both with the
// fault's name.
type stage struct {
	*world
	t       *testing.T
	name    string
	cluster string              // name of the faulty cluster in Isthmus
	proxy   *harness.FaultProxy // proxy in front of the faulty cluster
	server  string              // address in the link

	near, calm, far *member // members of the Service all: in the local cluster, in north, and in the linked cluster
	faulty          *member // the member in the faulty cluster
	all, mirror     *proxy.Stream
	subscribed      []*proxy.Stream // all, mirror and later streams
	profile         *proxy.Stream   // for the Service all
	churn           *churn
}

// rights contains the permissions from manifests/link/remote-access.yaml for a namespace's
// ServiceAccount.
const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $NS}
rules:
- {apiGroups: [""], resources: [pods, services, endpoints], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
- {apiGroups: [apps], resources: [replicasets], verbs: [get, list, watch]}
- {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch]}
- {apiGroups: [policy.linkerd.io], resources: [servers], verbs: [get, list, watch]}
- {apiGroups: [workload.linkerd.io], resources: [externalworkloads], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $NS}
subjects: [{kind: ServiceAccount, name: gateway, namespace: $NS}]
`

// populate writes the stage's objects, subscribes proxies, and waits until they have received
// everything.
func (s *stage) populate(behindLink *site) {
	s.t.Helper()
	number := byte(s.stages.Add(1))
	s.near = newMember(s.west, s.name, "near", 2*number)
	s.calm = newMember(s.north, s.name, "calm", 2*number)
	s.far = newMember(behindLink, s.name, "far", 2*number+1)
	ctx := s.t.Context()
	must(s.t, behindLink.admit(ctx, s.name))
	must(s.t, s.north.apply(ctx, s.name, kube.Service(s.name, "calm")))
	must(s.t, s.west.apply(
		ctx,
		s.name,
		kube.Service(s.name, "near"),
		kube.Federated(
			s.name,
			"all",
			"near",
			"calm@calm",
			"far@"+s.name,
		),
		kube.Mirror(s.name, "mirror", s.name, "far"),
	))
	for _, m := range s.members() {
		must(s.t, m.begin(ctx))
	}
	must(s.t, s.relink(ctx))
	s.t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		must(s.t, s.unlink(ctx, s.name))
		for _, m := range s.members() {
			must(s.t, m.end(ctx))
		}
	})
	s.awaitState(s.t, s.name, "ready", recovery)
	s.all, s.mirror = s.subscribe(s.t, proxy.Get, "all", s.name), s.subscribe(s.t, proxy.Get, "mirror", s.name)
	s.subscribed = []*proxy.Stream{s.all, s.mirror}
	s.converge()
	for _, stream := range s.subscribed {
		stream.Mark()
	}
	s.profile = s.subscribe(s.t, proxy.GetProfile, "all", s.name)
	await(s.t, patience, s.profiled)
}

// profiled returns an error unless the proxy has received exactly one profile for the Service all,
// because the profile never changes.
func (s *stage) profiled() error {
	now := s.profile.Snapshot()
	name := now.Profile.Profile().GetFullyQualifiedName()
	if now.Phase != proxy.Open || now.Messages != 1 || name != "all."+s.name+".svc.cluster.local" {
		return fmt.Errorf(
			"the profile has the name %q; the stream is %v (%v) and received %v",
			name,
			now.Phase,
			now.Err,
			s.profile.Recent(),
		)
	}
	return nil
}

func (s *stage) open() int { return len(s.subscribed) + 1 }

func (s *stage) members() []*member { return []*member{s.near, s.calm, s.far} }

func (s *stage) healthy() []*member {
	return slices.DeleteFunc(s.members(), func(m *member) bool { return m == s.faulty })
}

func (s *stage) relink(ctx context.Context) error {
	token, err := s.far.site.client().Token(ctx, s.name, accountName)
	if err != nil {
		return err
	}
	return s.link(ctx, s.name, credentials{server: s.server, site: s.far.site, token: token})
}

// cut resets the connections to the faulty cluster, and applies the mode to new ones.
func (s *stage) cut(m harness.FaultMode) error {
	if err := s.proxy.Set(m); err != nil {
		return err
	}
	s.proxy.ResetAll()
	return nil
}

func (s *stage) stable(members ...*member) (addrs []netip.AddrPort) {
	for _, m := range members {
		addrs = append(addrs, m.stable...)
	}
	return addrs
}

// late subscribes another proxy, which must receive all known endpoints. The verify method checks
// the time until its first message.
func (s *stage) late() {
	s.t.Helper()
	stream := s.subscribe(s.t, proxy.Get, "all", s.name)
	want := s.stable(s.members()...)
	await(s.t, 10*time.Second, func() error {
		now := stream.Snapshot()
		if now.First == nil {
			return fmt.Errorf("a new stream received no message: %v", now.Err)
		}
		for _, a := range want {
			if !now.Get.Has(a) {
				return fmt.Errorf("a new stream has %[2]v, want %[1]v", a, now.Get.Addrs())
			}
		}
		return nil
	})
	stream.Mark()
	s.subscribed = append(s.subscribed, stream)
}

// explains returns an error unless /debug/clusters contains a string about the faulty cluster.
func (s *stage) explains(ctx context.Context, what string) error {
	c, err := s.world.cluster(ctx, s.cluster)
	if err == nil && !strings.Contains(fmt.Sprintf("%+v", c), what) {
		err = fmt.Errorf("/debug/clusters does not show %q: %+v", what, c)
	}
	return err
}

// shows returns an error unless the value of a series is 1.
func (s *stage) shows(ctx context.Context, series string) error {
	v, err := s.metric(ctx, series)
	if err == nil && v != 1 {
		err = fmt.Errorf("%s is %v", series, v)
	}
	return err
}

func (s *stage) converge() {
	s.t.Helper()
	all := slices.Concat(s.near.now(), s.calm.now(), s.far.now())
	slices.SortFunc(all, netip.AddrPort.Compare)
	began := time.Now()
	for _, stream := range s.subscribed {
		want := all
		if stream == s.mirror {
			want = s.far.now()
		}
		await(s.t, recovery, func() error {
			if now := stream.Snapshot(); !slices.Equal(now.Get.Addrs(), want) || now.Phase != proxy.Open {
				return fmt.Errorf("a stream (%v, %v) has\n%v, want\n%v; its last messages are %v",
					now.Phase, now.Err, now.Get.Addrs(), want, stream.Recent())
			}
			return nil
		})
	}
	s.t.Logf("%d streams converged within %v", len(s.subscribed), time.Since(began).Round(time.Millisecond))
}

// verify checks the history of all proxies for lost endpoints and faults.
func (s *stage) verify() {
	s.t.Helper()
	for i, stream := range s.subscribed {
		kept := s.members()
		if stream == s.mirror {
			kept = []*member{s.far}
		}
		if err := stream.Flapped(s.stable(kept...)...); err != nil {
			s.t.Errorf("stream %d: %v", i, err)
		}
		if faults := stream.Snapshot().Faults; len(faults) > 0 {
			s.t.Errorf("stream %d received: %v", i, faults)
		}
	}
	if err := s.profiled(); err != nil {
		s.t.Error(err)
	}
}

func (s *stage) startChurn() *churn {
	life, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	c := &churn{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			select {
			case <-life.Done():
				return
			case <-tick.C:
			}
			if c.err = c.step(s); c.err != nil {
				return
			}
		}
	}()
	s.t.Cleanup(func() { stop(); <-c.done })
	return c
}

// large creates a Service whose endpoints exceed the flow-control window of a stream.
func (s *stage) large(t *testing.T) {
	t.Helper()
	must(t, s.west.apply(t.Context(), s.name, kube.Service(s.name, "large")))
	const slices = 12
	for n := range slices {
		_, err := s.west.slice(t.Context(), s.name, "large", fmt.Sprint(n), block(byte(200+n), largeSlice)...)
		must(t, err)
	}
	stream := s.subscribeToNew(t, proxy.Get, "large", s.name)
	defer stream.Close()
	await(t, patience, func() error {
		if n := stream.Snapshot().Get.Len(); n != slices*largeSlice {
			return fmt.Errorf("%d endpoints", n)
		}
		return nil
	})
}

// restartWith changes the API server's directory during a restart.
func (s *stage) restartWith(ctx context.Context, change func(dir string) error) error {
	server := s.faulty.site.cluster()
	if err := server.Kill(); err != nil {
		return err
	}
	if err := change(server.Dir()); err != nil {
		return err
	}
	return server.Restart(ctx)
}

func (s *stage) turns(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	for first := s.faulty.turns(); s.faulty.turns() < first+n; {
		select {
		case <-time.After(pace / 2):
		case <-s.churn.done:
			return s.churn.err
		case <-ctx.Done():
			return fmt.Errorf("the cluster does not accept writes: %w", ctx.Err())
		}
	}
	return nil
}
