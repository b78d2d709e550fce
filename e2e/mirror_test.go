package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
)

// TestMirrorMigration: from Linkerd's service mirrors to the gateway and back, three times, as docs/exports.md says. Beside them the
// gateway changes nothing, also while they restart. Once they have been stopped, each link's mirrors are adopted, and federated
// Services not before the last, all in place: no stream ends, nor is without an endpoint. What each writes is the same every time.
//
// A model plays Linkerd's, unless ISTHMUS_LINKERD_CONTROLLER names Linkerd's controller:
// `make mirror-migration LINKERD_CONTROLLER=FILE`.
func TestMirrorMigration(t *testing.T) {
	t.Parallel()
	m := newMigration(t)
	defer func() {
		_ = m.table.Flush()
		t.Logf("\n%s\nLinkerd's wrote:\n%s", m.text.String(), m.states["linkerd"])
	}()
	// One after the other: Linkerd's forgets a member that is to be a mirror too, or that joins as another does, and deletes a mirror in
	// gateway mode that it hears of twice at once.
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
	m.unlink("north") // Linkerd's leaves its member
	m.record("and unlinked", m.look())

	reader := startGateway(t, harness.ReplicaConfig{Kubeconfig: gatewayKubeconfig(t, m.west), Hostname: "isthmus-1", Args: []string{"-shutdown-delay=0s", "-drain=0s"}})
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
	sleep(t, 16*time.Second) // what is free now for that long is adopted
	m.record("the gateway beside them, and a restart of theirs", m.look())
	m.settles(g, "left to linkerd")

	for round := range 3 {
		stage := func(text string) string { return fmt.Sprintf("%d: %s", round+1, text) }
		streams := m.proxies(g, 20)
		mirrors := []string{"web-east", "db-east"}
		if round == 0 { // one link after the other
			m.stop("east")
			must(t, m.east.CoreV1().Services("shop").Delete(t.Context(), "late", metav1.DeleteOptions{})) // nobody minds its mirror now
			m.written(stage("Linkerd's mirror of east is stopped"), "isthmus", "", mirrors...)
			m.stop("")
			m.written(stage("and the local one"), "isthmus", "web,web@east", "web-federated")
			mirrors = append(mirrors, "-late-east") // which Linkerd's will delete
		} else {
			m.stop("east", "")
			m.written(stage("Linkerd's mirrors are stopped"), "isthmus", "web,web@east", append(mirrors, "web-federated")...)
		}
		m.settles(g, "written")
		m.same("isthmus")
		m.undisturbed(stage("adopted"), streams)

		// Back: one link after the other.
		must(t, g.Restart(t.Context(), "-exports=off"))
		m.start("east")
		m.written(stage("handed back, east first"), "linkerd", "web,web@east", mirrors...)
		m.start("")
		m.written(stage("and the local one"), "linkerd", "web,web@east", "web-federated")
		m.same("linkerd")
		m.undisturbed(stage("handed back"), all)
		if round < 2 {
			must(t, g.Restart(t.Context(), "-exports=on"))
			awaitReady(t, g, "east")
			m.settles(g, "left to linkerd")
		}
	}
	m.stop("east", "")
}

// unlink does what `linkerd multicluster unlink | kubectl delete` does.
func (m *migration) unlink(link string) {
	m.t.Helper()
	links, _, err := m.west.ResourceNamed("link")
	must(m.t, err)
	must(m.t, m.west.In(links, "linkerd-multicluster").Delete(m.t.Context(), link, metav1.DeleteOptions{}))
	must(m.t, m.west.CoreV1().Secrets("linkerd-multicluster").Delete(m.t.Context(), "cluster-credentials-"+link, metav1.DeleteOptions{}))
	for name, s := range m.look() {
		if s.Labels[mirrorOfLabel] == link {
			must(m.t, m.west.CoreV1().Services("shop").Delete(m.t.Context(), name, metav1.DeleteOptions{}))
		}
	}
}

// settles waits until all that is exported, and can be written, has a state, and nothing is to be changed.
func (m *migration) settles(g *harness.Replica, state string) {
	m.t.Helper()
	await(m.t, "all is "+state, func() error {
		states, changes, err := m.state(g)
		for _, of := range []string{"local shop/web-federated", "east shop/web-federated", "east shop/web-east", "east shop/db-east"} {
			if err == nil && (!slices.Contains(states, of+": "+state) || len(changes) > 0) {
				err = fmt.Errorf("it is %q, with changes %q", states, changes)
			}
		}
		return err
	})
}

// sleep waits, unless the test ends.
func sleep(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
