package plan

import (
	"testing"
	"time"
)

// TestStartUnread: while ServiceImports have not been listed, at a start, what is written for them stays, and what
// went meanwhile goes soon after they have.
func TestStartUnread(t *testing.T) {
	s := newSim(cluster(""), cluster("west", export("web", "import", "http=80")))
	s.settle(t)
	s.of("west").Exports = nil
	s.memory = Memory{}
	imports := s.Imports
	s.Imports, s.MCSVersion = nil, ""
	s.pass()
	if s.service("web-clusterset") == "none" {
		t.Error("the derived Service has gone while ServiceImports are unread")
	}
	s.Imports, s.MCSVersion = imports, "v1beta1"
	s.settle(t)
	s.Now = s.Now.Add(2 * kindTime)
	s.settle(t)
	if o := s.service("web-clusterset"); o != "none" {
		t.Errorf("after %v: %s", 2*kindTime, o)
	}
}

// TestMembersTakenWhileUnlinked: what a cluster had that is linked no longer stays for its time, though somebody
// takes the members' names from the derived Service.
func TestMembersTakenWhileUnlinked(t *testing.T) {
	s := newSim(cluster("", export("web", "import", "http=80")), cluster("west", export("web", "import", "http=80")))
	s.settle(t)
	s.Clusters = s.Clusters[:1]
	s.settle(t)
	s.Now = s.Now.Add(time.Minute)
	o := *s.Services[ID{"shop", "web-clusterset"}]
	o.Annotations = map[string]string{markAnnotation: o.Annotations[markAnnotation]}
	s.Services[o.ID] = &o
	s.settle(t)
	if got := s.Services[o.ID].Annotations[remoteDiscovery]; got != "web@west" {
		t.Errorf("after a minute the members are %q", got)
	}
}
