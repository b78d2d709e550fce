package plan

import (
	"strings"
	"testing"
	"time"
)

// colliding returns a world in which the mirrors of web-eu in west and of web in eu-west have one
// name. first is the link whose mirror is written first. The export of the other link comes after
// it.
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

// TestMirrorNames: the names of links alone decide which link's mirror has a name. It does not
// matter which export came first, or exists just now.
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

// TestMirrorNameOfUnlinked: a link's name counts whatever the link exports, and until UnlinkedAfter
// has passed since the link was deleted.
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
			t.Errorf("the name is west's too early (%s)", s.states())
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

// TestMirrorLosesName: a mirror whose name becomes another link's stays for UnlinkedAfter. Then it
// is deleted, and the mirror of the other link is another Service.
func TestMirrorLosesName(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := newSim(cluster("west", export("web-eu", "mirror", "http=80")), cluster("other"))
		s.settle(t)
		s.want(t, "web-eu-west", "http=80 of west")
		before := s.Services[ID{"shop", "web-eu-west"}]
		s.of("other").Name = "eu-west"
		s.of("eu-west").Exports = []Export{export("web", "mirror", "http=81")}
		if writes := s.settle(t); len(writes) > 0 {
			t.Errorf("written at once: %q", writes)
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
			t.Errorf("written too early: %q", writes)
		}
		s.Now = until
		if writes := s.settle(t); strings.Join(writes, ", ") != "delete shop/web-eu-west, put shop/web-eu-west" {
			t.Errorf("written: %q", writes)
		}
		s.want(t, "web-eu-west", "http=81 of eu-west")
		if now := s.Services[before.ID]; now.UID == before.UID {
			t.Error("it is the same Service")
		}
	}
}

// TestMirrorLosesNameInTime: if the new link is deleted in time, nothing is written.
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
		t.Errorf("written while the mirror is held: %q", writes)
	}
	s.of("west").Exports = nil // the export goes, and with it the mirror
	s.settle(t)
	s.want(t, "web-eu-west", "none")
}

// TestLinkerdMirrorLosesName: what Linkerd's service mirror wrote under a name that is another link's is not touched.
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
			t.Errorf("written: %q", writes)
		}
		if got := s.states(); got != "eu-west/web mirror: taken; west/web-eu mirror: name refused" {
			t.Error(got)
		}
		s.Now = s.Now.Add(time.Hour)
	}
}

// TestMirrorNameNeedsPrefix: a name needs a character before the hyphen.
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
			t.Errorf("%s is a name of %q, not %q", mirror, got, want)
		}
	}
}
