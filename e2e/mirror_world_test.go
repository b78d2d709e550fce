package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// migration is west, whose Services Linkerd's service mirrors and the gateway write in turn, and east, which exports.
type migration struct {
	*exporting
	binary  string                  // Linkerd's controllers; empty: a model plays its service mirrors
	mirrors map[string]func() error // end those that run, by Link; "": the local one
	starts  int

	services map[string]corev1.Service // as they were last looked at
	states   map[string]string         // by who writes: what that one made of them first
	text     bytes.Buffer
	table    *tabwriter.Writer
}

// newMigration exports db of east, which is headless. In west web is a member.
func newMigration(t *testing.T) *migration {
	m := &migration{exporting: newExporting(t), binary: os.Getenv("ISTHMUS_LINKERD_CONTROLLER"), mirrors: make(map[string]func() error), states: make(map[string]string)}
	m.table = tabwriter.NewWriter(&m.text, 0, 0, 2, ' ', 0)
	m.row("STAGE", "SERVICE", "WRITTEN BY", "SINCE THE STAGE BEFORE", "MEMBERS")
	m.grant(true)
	admin, err := m.east.Kubeconfig(m.east.Server(), m.east.Admin())
	must(t, err)
	for _, link := range []string{"east", "north"} { // north is east by another name, and linked to Linkerd alone
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

// export writes a Service of east with these labels.
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

// start starts Linkerd's service mirror of a Link, or the local one.
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
	args := []string{"service-mirror", "-kubeconfig=" + config, "-namespace=linkerd-multicluster", "-metrics-addr=127.0.0.1:0"}
	if link == "" {
		args = append(args, "-local-mirror")
	} else {
		args = append(args, "-probe-service=probe-"+link, link)
	}
	log := new(harness.Tail)
	p, err := harness.StartProcess(harness.ProcessConfig{Path: m.binary, Args: args, Env: []string{fmt.Sprintf("HOSTNAME=mirror-%d", m.starts)}, Output: log})
	must(m.t, err)
	m.mirrors[link] = func() error {
		if !p.Running() {
			return fmt.Errorf("Linkerd's service mirror of Link %q has ended: %w", link, p.Err())
		}
		return p.Stop(20 * time.Second)
	}
	m.t.Cleanup(func() {
		if _ = p.Kill(); m.t.Failed() {
			m.t.Logf("Linkerd's service mirror of Link %q:\n%s", link, log.Lines(100))
		}
	})
}

// stop ends service mirrors. They release their Leases.
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
			m.t.Errorf("Lease %s was held by %q, and is not released: %+v", free.Name, of, free.Spec)
		}
		m.row("Linkerd's is stopped", free.Name, "", fmt.Sprintf("released; was held for %d s", *held.Spec.LeaseDurationSeconds), "")
	}
}

// look reads the mirror and federated Services of west.
func (m *migration) look() map[string]corev1.Service {
	list, err := m.west.CoreV1().Services("shop").List(m.t.Context(), metav1.ListOptions{LabelSelector: mirroredLabel + "=true"})
	must(m.t, err)
	all := make(map[string]corev1.Service)
	for _, s := range list.Items {
		all[s.Name] = s
	}
	return all
}

// writtenBy is who wrote a Service last, by the mark.
func writtenBy(s corev1.Service) string {
	if s.Labels["isthmus.io/written-by"] != "" {
		return "isthmus"
	}
	return "linkerd"
}

func membersOf(s corev1.Service) string {
	return strings.Trim(s.Annotations[kube.LocalDiscovery]+","+s.Annotations[kube.RemoteDiscovery], ",")
}

// written waits until Services have been written by one, or have gone (-NAME), and all others are as they were when they were last looked at.
// web-federated has these members, if any are given.
func (m *migration) written(stage, by, members string, names ...string) {
	m.t.Helper()
	var now map[string]corev1.Service
	await(m.t, stage, func() (err error) {
		now = m.look()
		for _, name := range names {
			name, goes := strings.CutPrefix(name, "-")
			if s, ok := now[name]; ok == goes || ok && writtenBy(s) != by {
				err = errors.Join(err, fmt.Errorf("%s is not written by %s, or not gone: %v %v", name, by, s.Labels, s.Annotations))
			}
		}
		if got := membersOf(now["web-federated"]); members != "" && got != members {
			err = errors.Join(err, fmt.Errorf("web-federated has %s, not %s", got, members))
		}
		return err
	})
	m.record(stage, now, names...)
}

// record puts what the Services are now into the table. Those that are not named may not have changed. None may be another object.
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
			m.t.Errorf("%s: %s is another one: UID %s, IP %s, not %s, %s", stage, name, s.UID, s.Spec.ClusterIP, before.UID, before.Spec.ClusterIP)
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

// same compares all Services with what they were when the same one had written them before.
func (m *migration) same(by string) {
	m.t.Helper()
	all := m.look()
	delete(all, "late-east") // which goes in between
	for name, s := range all {
		s.ResourceVersion, s.ManagedFields = "", nil
		all[name] = s
	}
	text, err := json.MarshalIndent(all, "", " ")
	must(m.t, err)
	if first, ok := m.states[by]; ok && first != string(text) {
		m.t.Errorf("what %s wrote this time is not what it wrote first:\n%s\nfirst:\n%s", by, text, first)
	} else if !ok {
		m.states[by] = string(text)
	}
}

// proxies open streams of web-federated and of web-east, half of them each, and wait for their endpoints.
func (m *migration) proxies(g *harness.Replica, n int) (all []*proxy.Stream) {
	conn, err := proxy.Dial(g.Addr())
	must(m.t, err)
	m.t.Cleanup(func() { conn.Close() })
	for i := range n {
		name := []string{"web-federated", "web-east"}[i%2]
		s := proxy.NewStream(proxy.Config{Conn: conn, MayBeLate: true, Kind: proxy.Get, Authority: kube.Authority("shop", name), Token: `{"ns":"shop"}`})
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

// undisturbed checks that none of these streams has ended or been without an endpoint.
func (m *migration) undisturbed(stage string, streams []*proxy.Stream) {
	m.t.Helper()
	ended, without := 0, 0
	for i, s := range streams {
		east, own := netip.AddrPortFrom(netip.MustParseAddr("10.2.0.1"), kube.Port), netip.AddrPortFrom(netip.MustParseAddr("10.1.0.1"), kube.Port)
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
	m.row(stage, fmt.Sprint(len(streams), " streams"), "", fmt.Sprintf("%d ended, %d without an endpoint", ended, without), "")
}
