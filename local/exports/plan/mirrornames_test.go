package plan

import (
	"strings"
	"testing"
	"time"
)

// colliding returns a world in which the mirrors of web-eu in west and of web in eu-west have the
// same name. The mirror of the link first is written first. The export of the other link follows.
func colliding(t *testing.T, first string) *sim {
	exports := map[string]Export{
		"west":    export("web-eu", "mirror", "http=80"),
		"eu-west": export("web", "mirror", "http=81"),
	}
	s := newSim(cluster(""), cluster("west"), cluster("eu-west"))
	for _, name := range []string{first, map[string]string{"west": "eu-west", "eu-west": "west"}[first]} {
		s.of(name).Exports = []Export{exports[name]}
		s.settle(t)
	}
	return s
}

// TestMirrorNames checks that only link names decide which link's mirror gets a name. The age and
// the presence of exports do not matter.
func TestMirrorNames(t *testing.T) {
	for _, first := range []string{"west", "eu-west"} {
		s := colliding(t, first)
		s.want(t, "web-eu-west", "http=81 of eu-west")
		if got := s.states(); got != "eu-west/web mirror: written; west/web-eu mirror: name refused" {
			t.Errorf("first %s: %s", first, got)
		}
		eu := s.of("eu-west").Exports
		s.of("eu-west").Exports = nil
		s.settle(t)
		s.want(t, "web-eu-west", "none")
		s.of("eu-west").Exports = eu
		s.settle(t)
		s.want(t, "web-eu-west", "http=81 of eu-west")
	}
}

// TestMirrorNameOfUnlinked checks that a link reserves its mirror names until UnlinkedAfter has
// passed since its deletion. The exports of the link do not matter.
func TestMirrorNameOfUnlinked(t *testing.T) {
	for _, exports := range []bool{true, false} {
		s := colliding(t, "eu-west")
		if !exports {
			s.of("eu-west").Joins, s.of("eu-west").Exports = JoinsNone, nil
			s.settle(t)
		}
		s.Clusters = s.Clusters[:2]
		s.settle(t)
		until := s.Now.Add(s.UnlinkedAfter)
		s.Now = until.Add(-1)
		s.settle(t)
		if s.service("web-eu-west") == "http=80 of west" {
			t.Errorf("west has the name too early (%s)", s.states())
		}
		v := s.last.Verdicts[len(s.last.Verdicts)-1]
		if v.State != NameRefused || !v.Until.Equal(until) || !strings.Contains(v.Detail, "link eu-west") {
			t.Errorf("west's export is %+v", v)
		}
		s.Now = until
		s.settle(t)
		s.want(t, "web-eu-west", "http=80 of west")
	}
}

// TestMirrorLosesName checks that a mirror whose name passes to another link stays for
// UnlinkedAfter. The mirror is then deleted, and the mirror of the other link is a new Service.
func TestMirrorLosesName(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := newSim(cluster("west", export("web-eu", "mirror", "http=80")), cluster("other"))
		s.settle(t)
		s.want(t, "web-eu-west", "http=80 of west")
		before := s.Services[ID{"shop", "web-eu-west"}]
		s.of("other").Name = "eu-west"
		s.of("eu-west").Exports = []Export{export("web", "mirror", "http=81")}
		if writes := s.settle(t); len(writes) > 0 {
			t.Errorf("writes at once: %q", writes)
		}
		if got := s.states(); got != "eu-west/web mirror: taken; west/web-eu mirror: name refused" {
			t.Error(got)
		}
		if restarts {
			s.Now = s.Now.Add(s.UnlinkedAfter - time.Second)
			s.memory = Memory{}
			s.settle(t)
		}
		until := s.Now.Add(s.UnlinkedAfter)
		if !s.last.Due.Equal(until) {
			t.Errorf("due at %v", s.last.Due)
		}
		s.Now = until.Add(-1)
		if writes := s.settle(t); len(writes) > 0 {
			t.Errorf("writes before UnlinkedAfter: %q", writes)
		}
		s.Now = until
		if writes := s.settle(t); strings.Join(writes, ", ") != "delete shop/web-eu-west, put shop/web-eu-west" {
			t.Errorf("writes: %q", writes)
		}
		s.want(t, "web-eu-west", "http=81 of eu-west")
		if now := s.Services[before.ID]; now.UID == before.UID {
			t.Error("the Service was not created again")
		}
	}
}

// TestMirrorLosesNameInTime checks that nothing is written if the new link is deleted before
// UnlinkedAfter has passed.
func TestMirrorLosesNameInTime(t *testing.T) {
	s := newSim(cluster("west", export("web-eu", "mirror", "http=80")), cluster("eu-west"))
	all := s.Clusters
	s.Clusters = all[:1]
	s.settle(t)
	s.Clusters = all
	s.settle(t)
	s.of("west").Exports = []Export{export("web-eu", "mirror", "http=90")}
	s.Now = s.Now.Add(s.UnlinkedAfter / 2)
	if writes := s.settle(t); len(writes) > 0 {
		t.Errorf("writes while the mirror is held: %q", writes)
	}
	s.of("west").Exports = nil // without its export, the mirror is deleted
	s.settle(t)
	s.want(t, "web-eu-west", "none")
}

// TestLinkerdMirrorLosesName checks that a Service of Linkerd's service mirror stays as it is, even
// if its name belongs to another link.
func TestLinkerdMirrorLosesName(t *testing.T) {
	s := newSim(
		cluster("west", export("web-eu", "mirror", "http=80")),
		cluster("eu-west", export("web", "mirror", "http=81")))
	id := ID{"shop", "web-eu-west"}
	s.Services[id] = &Service{
		ID:         id,
		UID:        "linkerds",
		Type:       "ClusterIP",
		ClusterIPs: []string{"10.96.0.9"},
		Labels: map[string]string{
			mirroredLabel:   "true",
			clusterLabel:    "west",
			remoteDiscovery: "west",
			remoteService:   "web-eu",
		},
		Annotations: map[string]string{fqNameKey: "web-eu.shop.svc.cluster.local"},
		Ports:       []Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "80"}},
	}
	for range 2 {
		if writes := s.settle(t); len(writes) > 0 {
			t.Errorf("writes: %q", writes)
		}
		if got := s.states(); got != "eu-west/web mirror: taken; west/web-eu mirror: name refused" {
			t.Error(got)
		}
		s.Now = s.Now.Add(time.Hour)
	}
}

// TestMirrorNameNeedsPrefix checks that a mirror name has at least one character before the hyphen.
func TestMirrorNameNeedsPrefix(t *testing.T) {
	m := &maker{after: newMemory()}
	for _, name := range []string{"west", "eu-west", "a-eu-west"} {
		m.after.links[name] = time.Time{}
	}
	for mirror, want := range map[string]string{
		"web-west":      "west",
		"web-eu-west":   "eu-west",
		"web-a-eu-west": "a-eu-west",
		"a-eu-west":     "eu-west",
		"-west":         "",
		"x-":            "",
		"webwest":       "",
		"":              "",
	} {
		if got := m.linkOfName(mirror); got != want {
			t.Errorf("%s is a name of %q, want %q", mirror, got, want)
		}
	}
}
