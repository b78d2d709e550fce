package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// migration consists of west, where Linkerd's service mirrors and Isthmus write Services in turn,
// and east, which exports.
type migration struct {
	*exporting
	binary  string                  // Linkerd's controller; if empty, a model replaces the service mirrors
	mirrors map[string]func() error // functions that stop the running mirrors by Link; "" is the local mirror
	starts  int

	services map[string]corev1.Service // Services at the last look
	states   map[string]string         // first result of each writer
	text     bytes.Buffer
	table    *tabwriter.Writer
}

// newMigration exports the headless Service db from east. In west, the Service web is a member.
func newMigration(t *testing.T) *migration {
	m := &migration{
		exporting: newExporting(t),
		binary:    os.Getenv("ISTHMUS_LINKERD_CONTROLLER"),
		mirrors:   make(map[string]func() error),
		states:    make(map[string]string),
	}
	m.table = tabwriter.NewWriter(&m.text, 0, 0, 2, ' ', 0)
	m.row("STAGE", "SERVICE", "WRITTEN BY", "SINCE THE STAGE BEFORE", "MEMBERS")
	m.grant(true)
	admin, err := m.east.Kubeconfig(m.east.Server(), m.east.Admin())
	must(t, err)
	for _, link := range []string{"east", "north"} { // north is another name for east, linked only to Linkerd
		secret := kube.Link(link, admin)
		secret.Namespace = "linkerd-multicluster"
		must(t, m.west.Apply(t.Context(), secret))
		must(t, m.west.ApplyYAML(t.Context(), fmt.Sprintf(`apiVersion: multicluster.linkerd.io/v1alpha3
kind: Link
metadata: {name: %[1]s, namespace: linkerd-multicluster}
spec:
  clusterCredentialsSecret: cluster-credentials-%[1]s
  targetClusterName: %[1]s
  targetClusterDomain: cluster.local
  targetClusterLinkerdNamespace: linkerd
  gatewayAddress: 127.0.0.1
  gatewayPort: "4143"
  gatewayIdentity: linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local
  selector: {matchLabels: {mirror.linkerd.io/exported: "true"}}
  remoteDiscoverySelector: {matchLabels: {mirror.linkerd.io/exported: remote-discovery}}
  federatedServiceSelector: {matchLabels: {mirror.linkerd.io/federated: member}}
`, link)))
	}
	m.export("db", map[string]string{exportedLabel: "remote-discovery", memberLabel: "member"})
	label(t, m.west, "web", map[string]string{memberLabel: "member", "team": "own"})
	return m
}

func (m *migration) row(cells ...string) { fmt.Fprintln(m.table, strings.Join(cells, "\t")) }

func (m *migration) export(name string, labels map[string]string) {
	m.t.Helper()
	s := kube.Service("shop", name)
	s.Labels, s.Annotations = labels, map[string]string{kube.OpaquePorts: "9000", "example.com/of": "east"}
	s.Spec.Ports[0].AppProtocol = new("kubernetes.io/h2c")
	if name == "db" {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	must(m.t, m.east.Apply(m.t.Context(), s))
}

// start starts Linkerd's service mirror for a Link, or the local one.
func (m *migration) start(link string) {
	m.t.Helper()
	if m.starts++; m.binary == "" {
		model := &modelMirror{own: m.west, remote: m.east, link: link}
		if link == "" {
			model.remote = m.west
		}
		ctx, stop := context.WithCancel(m.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- model.run(ctx) }()
		m.mirrors[link] = func() error { stop(); return <-ended }
		return
	}
	config := filepath.Join(m.t.TempDir(), "kubeconfig")
	text, err := m.west.Kubeconfig(m.west.Server(), m.west.Admin())
	must(m.t, err)
	must(m.t, os.WriteFile(config, text, 0o600))
	args := []string{
		"service-mirror",
		"-kubeconfig=" + config,
		"-namespace=linkerd-multicluster",
		"-metrics-addr=127.0.0.1:0",
	}
	if link == "" {
		args = append(args, "-local-mirror")
	} else {
		args = append(args, "-probe-service=probe-"+link, link)
	}
	log := new(harness.Tail)
	p, err := harness.StartProcess(harness.ProcessConfig{
		Path:   m.binary,
		Args:   args,
		Env:    []string{fmt.Sprintf("HOSTNAME=mirror-%d", m.starts)},
		Output: log,
	})
	must(m.t, err)
	m.mirrors[link] = func() error {
		if !p.Running() {
			return fmt.Errorf("Linkerd's service mirror of Link %q ended: %w", link, p.Err())
		}
		return p.Stop(20 * time.Second)
	}
	m.t.Cleanup(func() {
		if _ = p.Kill(); m.t.Failed() {
			m.t.Logf("Linkerd's service mirror of Link %q:\n%s", link, log.Lines(100))
		}
	})
}

func (m *migration) stop(links ...string) {
	m.t.Helper()
	for _, link := range links {
		leases := m.west.CoordinationV1().Leases("linkerd-multicluster")
		held, err := leases.Get(m.t.Context(), mirrorLease(link), metav1.GetOptions{})
		must(m.t, err)
		must(m.t, m.mirrors[link]())
		free, err := leases.Get(m.t.Context(), mirrorLease(link), metav1.GetOptions{})
		must(m.t, err)
		if of := *held.Spec.HolderIdentity; of == "" || *free.Spec.HolderIdentity != "" {
			m.t.Errorf("Lease %s was held by %q and is not released: %+v", free.Name, of, free.Spec)
		}
		m.row(
			"Linkerd's service mirror is stopped",
			free.Name,
			"",
			fmt.Sprintf("released; was held for %d s", *held.Spec.LeaseDurationSeconds),
			"",
		)
	}
}

func (m *migration) look() map[string]corev1.Service {
	list, err := m.west.CoreV1().
		Services("shop").
		List(m.t.Context(), metav1.ListOptions{LabelSelector: mirroredLabel + "=true"})
	must(m.t, err)
	all := make(map[string]corev1.Service)
	for _, s := range list.Items {
		all[s.Name] = s
	}
	return all
}

// writtenBy returns the last writer of a Service according to the mark.
func writtenBy(s corev1.Service) string {
	if s.Labels["isthmus.io/written-by"] != "" {
		return "isthmus"
	}
	return "linkerd"
}

func membersOf(s corev1.Service) string {
	return strings.Trim(s.Annotations[kube.LocalDiscovery]+","+s.Annotations[kube.RemoteDiscovery], ",")
}

// written waits until the named Services have been written by the given writer, or have been
// deleted (-NAME). All other Services must be unchanged since the last look. If members is set,
// web-federated must have these members.
func (m *migration) written(stage, by, members string, names ...string) {
	m.t.Helper()
	var now map[string]corev1.Service
	await(m.t, stage, func() (err error) {
		now = m.look()
		for _, name := range names {
			name, goes := strings.CutPrefix(name, "-")
			if s, ok := now[name]; ok == goes || ok && writtenBy(s) != by {
				err = errors.Join(
					err,
					fmt.Errorf("%s is not written by %s, or not deleted: %v %v", name, by, s.Labels, s.Annotations),
				)
			}
		}
		if got := membersOf(now["web-federated"]); members != "" && got != members {
			err = errors.Join(err, fmt.Errorf("web-federated has %s, want %s", got, members))
		}
		return err
	})
	m.record(stage, now, names...)
}

// record adds the current Services to the table. Services that are not named must be unchanged. No
// Service may have been deleted and created again.
func (m *migration) record(stage string, now map[string]corev1.Service, changed ...string) {
	m.t.Helper()
	var same []string
	may := make(map[string]bool)
	for _, name := range changed {
		may[strings.TrimPrefix(name, "-")] = true
	}
	for _, name := range []string{"web-federated", "web-east", "db-east", "late-east", "old-east"} {
		s, ok := now[name]
		before, was := m.services[name]
		since := ""
		switch {
		case !ok && !was:
			continue
		case !ok:
			since = "deleted"
		case !was:
			since = "new"
		case s.UID != before.UID || s.Spec.ClusterIP != before.Spec.ClusterIP:
			since = "ANOTHER OBJECT"
			m.t.Errorf(
				"%s: %s was recreated: UID %s, IP %s, previously %s, %s",
				stage,
				name,
				s.UID,
				s.Spec.ClusterIP,
				before.UID,
				before.Spec.ClusterIP,
			)
		case s.ResourceVersion != before.ResourceVersion:
			since = "changed; same UID and ClusterIP"
		}
		if since == "" {
			same = append(same, name)
			continue
		}
		if since != "new" && !may[name] {
			m.t.Errorf("%s: %s is %s, by %+v", stage, name, since, s.ManagedFields)
		}
		m.row(stage, name, writtenBy(s), since, membersOf(s))
	}
	if len(same) > 0 {
		m.row(stage, strings.Join(same, ", "), "", "unchanged", "")
	}
	m.services = now
}

func (m *migration) same(by string) {
	m.t.Helper()
	all := m.look()
	delete(all, "late-east") // deleted during the test
	for name, s := range all {
		s.ResourceVersion, s.ManagedFields = "", nil
		all[name] = s
	}
	text, err := json.MarshalIndent(all, "", " ")
	must(m.t, err)
	if first, ok := m.states[by]; ok && first != string(text) {
		m.t.Errorf("%s wrote other Services than the first time:\n%s\nfirst:\n%s", by, text, first)
	} else if !ok {
		m.states[by] = string(text)
	}
}

// proxies opens streams for web-federated and web-east, half of them each, and waits for their
// endpoints.
func (m *migration) proxies(g *harness.Replica, n int) (all []*proxy.Stream) {
	conn, err := proxy.Dial(g.Addr())
	must(m.t, err)
	m.t.Cleanup(func() { conn.Close() })
	for i := range n {
		name := []string{"web-federated", "web-east"}[i%2]
		s := proxy.NewStream(proxy.Config{
			Conn:      conn,
			MayBeLate: true,
			Kind:      proxy.Get,
			Authority: kube.Authority("shop", name),
			Token:     `{"ns":"shop"}`,
		})
		m.t.Cleanup(s.Close)
		must(m.t, s.Open(m.t.Context()))
		if name == "web-east" {
			awaitShop(m.t, s, "10.2.0.1")
		} else {
			awaitShop(m.t, s, "10.1.0.1", "10.2.0.1")
		}
		s.Mark()
		all = append(all, s)
	}
	return all
}

// undisturbed checks that no stream has ended or lost all endpoints.
func (m *migration) undisturbed(stage string, streams []*proxy.Stream) {
	m.t.Helper()
	ended, without := 0, 0
	for i, s := range streams {
		east, own := netip.AddrPortFrom(
			netip.MustParseAddr("10.2.0.1"),
			kube.Port,
		), netip.AddrPortFrom(
			netip.MustParseAddr("10.1.0.1"),
			kube.Port,
		)
		want := []netip.AddrPort{east, own}[:2-i%2]
		if status := s.Status(); status.Phase != proxy.Open || len(status.Faults) > 0 {
			ended++
			m.t.Errorf("%s: stream %d is %+v", stage, i, status)
		}
		if err := s.Flapped(want...); err != nil {
			without++
			m.t.Errorf("%s: stream %d: %v", stage, i, err)
		}
	}
	m.row(
		stage,
		fmt.Sprint(len(streams), " streams"),
		"",
		fmt.Sprintf("%d ended, %d without an endpoint", ended, without),
		"",
	)
}

// Labels and annotations of Linkerd's service mirror.
const (
	exportedLabel   = "mirror.linkerd.io/exported"
	memberLabel     = "mirror.linkerd.io/federated"
	mirroredLabel   = "mirror.linkerd.io/mirrored-service"
	mirrorOfLabel   = "mirror.linkerd.io/cluster-name"
	mirrorOfService = "mirror.linkerd.io/remote-svc-fq-name"
	mirrorOfVersion = "mirror.linkerd.io/remote-resource-version"
)

// modelMirror models Linkerd's service mirror for a Link, or the local one, as observed with `make
// mirror-migration`. While it holds its Lease, it writes all exports at the start and after each
// change, and overwrites existing Services.
type modelMirror struct {
	own, remote *kube.Client
	link        string            // empty for the local mirror
	seen        map[string]string // versions of the processed remote Services by name; nil at the start
}

// run runs until ctx ends and then releases the Lease.
func (m *modelMirror) run(ctx context.Context) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "linkerd-multicluster", Name: mirrorLease(m.link)},
			Client:    m.own.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "model"},
		},
		LeaseDuration:   30 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
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

// mirrorLease returns the name of the Lease for a Link's service mirror, or for the local one.
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

// removeOrphans deletes mirrors of Services that were deleted while no mirror was running.
func (m *modelMirror) removeOrphans(ctx context.Context, there map[string]string) error {
	services := m.own.CoreV1().Services("shop")
	list, err := services.List(
		ctx,
		metav1.ListOptions{LabelSelector: mirroredLabel + "=true," + mirrorOfLabel + "=" + m.link},
	)
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

// copyOf returns the common part of a mirror and a federated Service for a remote Service.
func copyOf(s *corev1.Service, name string) *corev1.Service {
	c := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   s.Namespace,
			Name:        name,
			Labels:      map[string]string{mirroredLabel: "true"},
			Annotations: map[string]string{},
		},
	}
	for key, value := range s.Labels {
		if !strings.HasPrefix(key, "mirror.linkerd.io") {
			c.Labels[key] = value
		}
	}
	maps.Copy(c.Annotations, s.Annotations)
	for _, p := range s.Spec.Ports {
		c.Spec.Ports = append(
			c.Spec.Ports,
			corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, TargetPort: p.TargetPort},
		)
	}
	return c
}

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

// federate adds a remote Service to its federated Service. The local member determines labels,
// annotations and ports. Without a local member, each remote Service overwrites them, whereas
// Linkerd uses those of the oldest Link.
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

// TestMirrorMigration migrates from Linkerd's service mirrors to Isthmus and back three times, as
// described in docs/exports.md. While service mirrors run or restart, Isthmus must not change their
// Services. When a link's mirror stops, Isthmus must adopt its mirror Services in place. It must
// adopt federated Services only after the last mirror has stopped. No stream may end or lose all
// endpoints, and each writer must write the same Services every time.
//
// By default, a model replaces Linkerd's controller. ISTHMUS_LINKERD_CONTROLLER selects the real
// one: `make mirror-migration LINKERD_CONTROLLER=FILE`.
func TestMirrorMigration(t *testing.T) {
	t.Parallel()
	m := newMigration(t)
	defer func() {
		_ = m.table.Flush()
		t.Logf("\n%s\nLinkerd's service mirror wrote:\n%s", m.text.String(), m.states["linkerd"])
	}()
	// The steps are separate because of errors in Linkerd's service mirror. It forgets a member
	// that becomes a mirror too or that joins at the same time as another. It deletes a mirror in
	// gateway mode after two simultaneous events.
	m.start("")
	m.written("Linkerd's local mirror", "linkerd", "web", "web-federated")
	m.start("east")
	m.written("Linkerd's mirror of east", "linkerd", "web", "db-east")
	web := map[string]string{memberLabel: "member", "team": "a", "argocd.argoproj.io/instance": "shop"}
	m.export("web", web)
	m.written("a member", "linkerd", "web,web@east", "web-federated")
	web[exportedLabel] = "remote-discovery"
	m.export("web", web)
	m.export("late", map[string]string{exportedLabel: "remote-discovery"})
	m.export("old", map[string]string{exportedLabel: "true"}) // gateway mode
	m.written("mirrors", "linkerd", "web,web@east", "web-east", "late-east", "old-east")
	m.start("north")
	m.written("another cluster is linked", "linkerd", "web,web@east,web@north", "web-federated")
	m.stop("north")
	m.unlink("north") // Linkerd's service mirror leaves the member of north
	m.record("the cluster is unlinked", m.look())

	reader := startGateway(t, harness.ReplicaConfig{
		Kubeconfig: gatewayKubeconfig(t, m.west),
		Hostname:   "isthmus-1",
		Args:       []string{"-shutdown-delay=0s", "-drain=0s"},
	})
	awaitReady(t, reader, "east")
	all := m.proxies(reader, 100)
	g := m.gateway("-exports=on", "-unlinked-after=10s")
	defer func() {
		if t.Failed() {
			t.Logf("%s\n%s", m.exports(g).stdout, g.Log(30))
		}
	}()
	m.settles(g, "left to linkerd")
	m.stop("east", "")
	m.start("")
	m.start("east")
	sleep(t, 16*time.Second) // Isthmus would adopt Services without a mirror after this time
	m.record("with Isthmus, after a restart of Linkerd's mirrors", m.look())
	m.settles(g, "left to linkerd")

	for round := range 3 {
		stage := func(text string) string { return fmt.Sprintf("%d: %s", round+1, text) }
		streams := m.proxies(g, 20)
		mirrors := []string{"web-east", "db-east"}
		if round == 0 { // one link after the other
			m.stop("east")
			must(
				t,
				m.east.CoreV1().Services("shop").Delete(t.Context(), "late", metav1.DeleteOptions{}),
			) // no service mirror sees this deletion
			m.written(stage("Linkerd's mirror of east is stopped"), "isthmus", "", mirrors...)
			m.stop("")
			m.written(stage("Linkerd's local mirror is stopped"), "isthmus", "web,web@east", "web-federated")
			mirrors = append(mirrors, "-late-east") // Linkerd's service mirror will delete it
		} else {
			m.stop("east", "")
			m.written(
				stage("Linkerd's mirrors are stopped"),
				"isthmus",
				"web,web@east",
				append(mirrors, "web-federated")...,
			)
		}
		m.settles(g, "written")
		m.same("isthmus")
		m.undisturbed(stage("adopted"), streams)

		// The way back migrates one link after the other.
		must(t, g.Restart(t.Context(), "-exports=off"))
		m.start("east")
		m.written(stage("Linkerd's mirror of east is started"), "linkerd", "web,web@east", mirrors...)
		m.start("")
		m.written(stage("Linkerd's local mirror is started"), "linkerd", "web,web@east", "web-federated")
		m.same("linkerd")
		m.undisturbed(stage("migrated back"), all)
		if round < 2 {
			must(t, g.Restart(t.Context(), "-exports=on"))
			awaitReady(t, g, "east")
			m.settles(g, "left to linkerd")
		}
	}
	m.stop("east", "")
}

// unlink has the effect of `linkerd multicluster unlink | kubectl delete`.
func (m *migration) unlink(link string) {
	m.t.Helper()
	links, _, err := m.west.ResourceNamed("link")
	must(m.t, err)
	must(m.t, m.west.In(links, "linkerd-multicluster").Delete(m.t.Context(), link, metav1.DeleteOptions{}))
	must(
		m.t,
		m.west.CoreV1().
			Secrets("linkerd-multicluster").
			Delete(m.t.Context(), "cluster-credentials-"+link, metav1.DeleteOptions{}),
	)
	for name, s := range m.look() {
		if s.Labels[mirrorOfLabel] == link {
			must(m.t, m.west.CoreV1().Services("shop").Delete(m.t.Context(), name, metav1.DeleteOptions{}))
		}
	}
}

// settles waits until all exports that can be written have the state, and no changes are pending.
func (m *migration) settles(g *harness.Replica, state string) {
	m.t.Helper()
	await(m.t, "all exports are "+state, func() error {
		states, changes, err := m.state(g)
		for _, of := range []string{
			"local shop/web-federated",
			"east shop/web-federated",
			"east shop/web-east",
			"east shop/db-east",
		} {
			if err == nil && (!slices.Contains(states, of+": "+state) || len(changes) > 0) {
				err = fmt.Errorf("the states are %q, with changes %q", states, changes)
			}
		}
		return err
	})
}

func sleep(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
