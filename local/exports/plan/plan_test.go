package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPortsUnited(t *testing.T) {
	for _, c := range []struct{ east, west, want, conflict string }{
		{"http=80", "http=8080", "http=80", "port http: 80 (east, used), 8080 (west)"},
		{"http=80", "metrics=80", "http=80", `port http: 80 (east, used), named "metrics" (west)`},
		{"=80", "http=8080,admin=9090", "tcp-80=80,http=8080,admin=9090", ""},
		{"tcp=53", "udp=53/UDP", "tcp=53,udp=53/UDP", ""},
		{"=80", "tcp-80=81", "tcp-80-2=80,tcp-80=81", ""},
		{"http=80", "UPPER=81,x=0,ok=82", "http=80,ok=82", ""},
	} {
		s := newSim(cluster("east", export("web", "federated", c.east)), cluster(
			"west", export("web", "federated", c.west),
		))
		s.settle(t)
		s.want(t, "web-federated", c.want+" of east,west")
		var texts []string
		for _, one := range s.last.Conflicts {
			texts = append(texts, one.Message)
		}
		if got := strings.Join(texts, "; "); got != c.conflict {
			t.Errorf("%s and %s: conflict %q", c.east, c.west, got)
		}
	}
}

func TestNotOurs(t *testing.T) {
	for name, theirs := range map[string]*Service{
		"with selector": {Selector: true},
		"with Linkerd's labels too": {
			Selector:    true,
			Labels:      map[string]string{mirroredLabel: "true", clusterLabel: "east"},
			Annotations: map[string]string{fqNameKey: "web.shop.svc.cluster.local"},
		},
		"a copy of ours": {
			Labels:      map[string]string{markLabel: "linkerd"},
			Annotations: map[string]string{markAnnotation: "Service shop/other-east"},
		},
		"another gateway's": {
			Labels:      map[string]string{markLabel: "linkerd-2"},
			Annotations: map[string]string{markAnnotation: "Service shop/web-east"},
		},
		"mirror of another cluster": {
			Labels:      map[string]string{mirroredLabel: "true", clusterLabel: "west"},
			Annotations: map[string]string{fqNameKey: "web.shop.svc.cluster.local"},
		},
		"headless, written by Linkerd": {
			ClusterIPs:  []string{"None"},
			Labels:      map[string]string{mirroredLabel: "true", clusterLabel: "east"},
			Annotations: map[string]string{fqNameKey: "web.shop.svc.cluster.local"},
		},
		"ours, with a selector since": {
			Selector:    true,
			Labels:      map[string]string{markLabel: "linkerd"},
			Annotations: map[string]string{markAnnotation: "Service shop/web-east"},
		},
		"ours, and our mark is off": {
			Labels: map[string]string{clusterLabel: "east", remoteDiscovery: "east", remoteService: "web"},
		},
		"ours, its annotation taken off": {
			Labels: map[string]string{markLabel: "linkerd", remoteDiscovery: "east", remoteService: "web"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(cluster("east", export("web", "mirror", "http=80")))
			theirs.ID, theirs.Type, theirs.UID = ID{"shop", "web-east"}, "ClusterIP", "theirs"
			s.Services[theirs.ID] = theirs
			if writes := s.settle(t); len(writes) > 0 {
				t.Errorf("writes: %q", writes)
			}
			if got := s.states(); got != "east/web mirror: taken" {
				t.Error(got)
			}
			s.of("east").Exports = nil
			if writes := s.settle(t); len(writes) > 0 {
				t.Errorf("writes after the export was deleted: %q", writes)
			}
			delete(s.Services, theirs.ID)
			s.of("east").Exports = []Export{export("web", "mirror", "http=80")}
			s.settle(t)
			s.want(t, "web-east", "http=80 of east")
		})
	}
}

func TestLinkerd(t *testing.T) {
	s := newSim(cluster("", export("web", "federated", "http=80")), cluster(
		"east", export("web", "federated mirror", "http=80"),
	))
	mirror := &Service{ID: ID{"shop", "web-east"},
		UID:        "linkerds",
		Type:       "ClusterIP",
		ClusterIPs: []string{"10.96.0.9"},
		Labels: map[string]string{
			mirroredLabel:   "true",
			clusterLabel:    "east",
			remoteDiscovery: "east",
			remoteService:   "web",
			"team":          "a",
			"mine":          "b",
			"helm.sh/chart": "c",
		},
		Annotations: map[string]string{
			fqNameKey:                "web.shop.svc.cluster.local",
			versionKey:               "17",
			"config.linkerd.io/of":   "east",
			"config.linkerd.io/mine": "d",
		},
		Ports: []Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "80"}}}
	federated := &Service{ID: ID{"shop", "web-federated"},
		UID:         "linkerds-too",
		Type:        "ClusterIP",
		ClusterIPs:  []string{"10.96.0.8"},
		Labels:      map[string]string{mirroredLabel: "true", "team": "own"},
		Annotations: map[string]string{localDiscovery: "web", remoteDiscovery: "web@east,web@gone"},
		Ports:       mirror.Ports}
	s.Services[mirror.ID], s.Services[federated.ID] = mirror, federated
	s.of("").Exports[0].Service.Labels["team"] = "own"
	maps.Copy(s.of("east").Exports[0].Service.Labels, map[string]string{"team": "a", "helm.sh/chart": "c"})
	s.of("east").Exports[0].Service.Annotations = map[string]string{"config.linkerd.io/of": "east"}
	for _, lease := range []Lease{Held, Unknown} {
		s.of("east").Lease = lease
		if writes := s.settle(t); len(writes) > 0 {
			t.Errorf("Lease %d: %q", lease, writes)
		}
		if got, want := s.states(), "local/web federated: left to linkerd; east/web federated: left to linkerd; "+
			"east/web mirror: left to linkerd"; got != want {
			t.Error(got)
		}
	}
	east := s.of("east").Exports
	s.of("east").Exports = nil
	if writes := s.settle(t); len(writes) > 0 {
		t.Errorf("writes of a federated Service although Linkerd may still write for a member's link: %q", writes)
	}
	s.of("east").Exports, s.of("east").Lease = east, Free
	s.settle(t)
	s.want(t, "web-federated", "http=80 of local,east,gone")
	o := s.Services[mirror.ID]
	if o.UID != "linkerds" || o.Labels[markLabel] != "linkerd" || o.Annotations[versionKey] != "0" ||
		o.Labels["mine"] != "b" {
		t.Errorf("the adopted Service is %+v", o)
	}
	// Values that equal a member's were copied. Excluded values are removed, and other copied
	// values follow the member. Values that differ belong to the user.
	s.of("east").Exports[0].Service.Labels["team"] = "c"
	s.settle(t)
	if o := s.Services[mirror.ID]; o.Labels["team"] != "c" || o.Labels["mine"] != "b" ||
		o.Labels["helm.sh/chart"] != "" || o.Annotations["config.linkerd.io/of"] != "" ||
		o.Annotations["config.linkerd.io/mine"] != "d" {
		t.Errorf("labels %v, annotations %v", o.Labels, o.Annotations)
	}
	s.Now = s.Now.Add(s.UnlinkedAfter)
	s.of("").Exports[0].Service.Labels["team"] = "other" // the existing value was kept until now
	s.settle(t)
	s.want(t, "web-federated", "http=80 of local,east")
	if o := s.Services[federated.ID]; o.Labels["team"] != "other" {
		t.Errorf("labels %v", o.Labels)
	}
}

// TestGoingAway checks that the objects of a cluster stay for a while if most of its exports
// disappear at once.
func TestGoingAway(t *testing.T) {
	const later, known, unknown = 2 * massTime, -1, -2 // known and unknown replace a number of exports
	for name, tc := range map[string]struct {
		first int
		steps []step
	}{
		"most at once": {40, []step{{0, 5, 40}, {10*time.Minute - 1, 5, 40}, {1, 5, 5}}},
		"a few of these while the cluster is not known for a moment": {40, []step{
			{0, 15, 40}, {later, 31, 40}, {0, unknown, 40}, {0, known, 40}, {10*time.Minute - later, 31, 31},
		}},
		"most of the rest while some are held": {60, []step{
			{0, 25, 60},
			{10*time.Minute - time.Second, 5, 60},
			{time.Second, 5, 25},
			{10*time.Minute - time.Second, 5, 5},
		}},
		"one by one: 9 of 12 are not yet a mass, 12 of 12 within a minute are": {12, []step{
			{time.Second, 11, 11},
			{time.Second, 10, 10},
			{time.Second, 9, 9},
			{time.Second, 8, 8},
			{time.Second, 7, 7},
			{time.Second, 6, 6},
			{time.Second, 5, 5},
			{time.Second, 4, 4}, {time.Second, 3, 3}, {time.Second, 0, 3},
		}},
	} {
		s := newSim(cluster("east"))
		export := func(n int) {
			s.of("east").Exports = nil
			for i := range n {
				s.of("east").Exports = append(s.of("east").Exports, export(
					fmt.Sprintf("web%02d", i), "mirror", "http=80",
				))
			}
		}
		export(tc.first)
		s.settle(t)
		for i, step := range tc.steps {
			s.Now = s.Now.Add(step.after)
			switch step.exports {
			case unknown:
				s.of("east").Joins = Unreadable
			case known:
				s.of("east").Joins = JoinsAll
			default:
				export(step.exports)
			}
			if s.settle(t); len(s.Services) != step.left {
				t.Errorf("%s: after step %d, %d Services exist, want %d", name, i, len(s.Services), step.left)
			}
			if name == "most at once" && i == 0 && s.last.Due != start.Add(s.UnlinkedAfter) {
				t.Errorf("due at %v", s.last.Due)
			}
		}
	}
}

type step = struct {
	after         time.Duration // since the previous step
	exports, left int           // exports from this step on, and Services after this step
}

func TestNames(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		s := newSim(cluster("east",
			export(strings.Repeat("a", 60), "mirror import", "http=80"),
			export("1st", "mirror", "http=80"),
			export("1st.x", "mirror", "http=80")))
		s.settle(t)
		s.want(t, "1st-east", "http=80 of east")
		if len(s.Services) != 2 {
			t.Error(s.states())
		}
		o := s.Imports[ID{"shop", strings.Repeat("a", 60)}]
		if o == nil || s.Services[ID{"shop", o.Annotations[derivedKey]}] == nil ||
			!strings.HasPrefix(o.Annotations[derivedKey], "derived-") {
			t.Errorf("the ServiceImport is %+v", o)
		}
	})
}

// TestDeleting checks that an object that is being deleted is neither changed nor created again
// until it no longer exists.
func TestDeleting(t *testing.T) {
	s := newSim(cluster("east", export("web", "mirror", "http=80")))
	s.settle(t)
	id := ID{"shop", "web-east"}
	o := *s.Services[id]
	o.Deleting = true
	s.Services[id] = &o
	s.of("east").Exports = []Export{export("web", "mirror", "http=81")}
	if w := s.settle(t); len(w) > 0 || s.states() != "east/web mirror: waiting" {
		t.Errorf("writes: %q, %s", w, s.states())
	}
	s.of("east").Exports = nil
	if w := s.settle(t); len(w) > 0 {
		t.Errorf("writes: %q", w)
	}
}

// TestKeysTaken checks that labels and annotations that others have removed are restored. An
// unneeded object that no longer names its exports is deleted.
func TestKeysTaken(t *testing.T) {
	s := newSim(cluster("east", export("web", "mirror federated import", "http=80")))
	s.settle(t)
	strip := func() {
		for id, o := range s.Services {
			stripped := *o
			stripped.Labels, stripped.Annotations = map[string]string{
				markLabel: o.Labels[markLabel],
			}, map[string]string{markAnnotation: o.Annotations[markAnnotation]}
			s.Services[id] = &stripped
		}
	}
	before := s.service("web-east") + s.service("web-federated") + s.service("web-clusterset")
	strip()
	s.settle(t)
	if now := s.service("web-east") + s.service("web-federated") + s.service("web-clusterset"); now != before {
		t.Errorf("%s, want %s (%s)", now, before, s.states())
	}
	strip()
	s.of("east").Exports = nil
	s.settleSoon(t)
	if len(s.Services) > 0 {
		t.Errorf("remaining Services: %v", s.Services)
	}
}

// TestUnusableLink checks that nothing is written for an unusable link.
func TestUnusableLink(t *testing.T) {
	s := newSim(cluster("east", export("web", "federated mirror", "http=80")), cluster(
		"west", export("web", "federated", "http=80"),
	))
	s.settle(t)
	*s.of("east") = Cluster{Name: "east", Age: s.of("east").Age, LinkSettings: LinkSettings{Joins: Unreadable}}
	if writes := s.settle(t); len(writes) > 0 {
		t.Errorf("writes: %q", writes)
	}
	s.want(t, "web-federated", "http=80 of east,west")
}

// TestAdoptsExportedOnly checks that a plan does not adopt Services without exports, whether
// Linkerd's service mirror or a user wrote them. A Service with a member that is not exported is
// not adopted either.
func TestAdoptsExportedOnly(t *testing.T) {
	byHand := func() *Service {
		return &Service{ID: ID{"shop", "web-federated"},
			UID:         "theirs",
			Type:        "ClusterIP",
			ClusterIPs:  []string{"10.96.0.8"},
			Labels:      map[string]string{mirroredLabel: "true"},
			Annotations: map[string]string{localDiscovery: "web", remoteDiscovery: "web@east,web@north"},
			Ports:       []Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "80"}}}
	}
	s := newSim(cluster(""), cluster("east"), cluster("north"))
	s.Services[ID{"shop", "web-federated"}] = byHand()
	for i := range 12 {
		name := fmt.Sprint("orphan-", i)
		s.Services[ID{
			"shop", name + "-east",
		}] = &Service{ID: ID{"shop", name + "-east"},
			UID:        "theirs",
			Type:       "ClusterIP",
			ClusterIPs: []string{"10.96.0.9"},
			Labels: map[string]string{
				mirroredLabel:   "true",
				clusterLabel:    "east",
				remoteDiscovery: "east",
				remoteService:   name,
			},
			Annotations: map[string]string{fqNameKey: name + ".shop.svc.cluster.local"}, Ports: byHand().Ports}
	}
	unwritten := func(when string) {
		t.Helper()
		if writes := s.settle(t); len(writes) > 0 {
			t.Errorf("%s: %q", when, writes)
		}
	}
	unwritten("nothing is exported")
	s.of("north").Synced, s.of("east").Synced = false, false
	unwritten("the clusters are not seen")
	s.of("north").Synced, s.of("east").Synced = true, true
	unwritten("they are again")
	s.Clusters = s.Clusters[:2]
	unwritten("north is linked no longer")
	s.Now = s.Now.Add(2 * s.UnlinkedAfter)
	unwritten("for long")
	s.of("").Exports = []Export{export("web", "federated", "http=80")}
	unwritten("a member is not exported")
	if got, want := s.states(), "local/web federated: taken; north/web federated: taken"; got != want {
		t.Error(got)
	}
	s.of("east").Exports = []Export{export("web", "federated", "http=80")}
	s.settle(t)
	s.want(t, "web-federated", "http=80 of local,east,north")
}

// TestLeaseOfUnlinked checks that the plan leaves objects of an unlinked cluster to Linkerd's
// service mirror, which may still serve that cluster.
func TestLeaseOfUnlinked(t *testing.T) {
	s := newSim(cluster("", export("web", "federated", "http=80")))
	s.Services[ID{
		"shop", "web-federated",
	}] = &Service{ID: ID{"shop", "web-federated"},
		UID:         "linkerds",
		Type:        "ClusterIP",
		ClusterIPs:  []string{"10.96.0.8"},
		Labels:      map[string]string{mirroredLabel: "true"},
		Annotations: map[string]string{localDiscovery: "web", remoteDiscovery: "web@east"},
		Ports:       []Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "80"}}}
	for _, lease := range []Lease{Held, Unknown} {
		s.LeaseOf = func(string) Lease { return lease }
		if writes := s.settle(t); len(writes) > 0 || s.states() != "local/web federated: left to linkerd" {
			t.Errorf("Lease %d: %q, %s", lease, writes, s.states())
		}
	}
	s.LeaseOf = nil
	s.settle(t)
	s.want(t, "web-federated", "http=80 of local,east")
}

// TestDerivedNameTakenLater checks a ServiceImport whose derived Service is replaced by another
// user's object. The ServiceImport reports the problem, has no IPs, and still follows its exports.
func TestDerivedNameTakenLater(t *testing.T) {
	s := newSim(cluster("west", export("web", "import", "http=80")))
	s.settle(t)
	id := ID{"shop", "web-clusterset"}
	s.Services[id] = &Service{ID: id, UID: "users"}
	s.settle(t)
	s.of("west").Exports[0] = export("web", "import", "http=81")
	s.settle(t)
	if o := s.imported(t, "web"); len(o.IPs) > 0 || len(o.Ports) != 1 || o.Ports[0].Number != 81 ||
		o.Conditions[0].Reason != "Pending" ||
		o.Conditions[0].Message != "the Service web-clusterset is not managed by this installation" {
		t.Errorf("import %+v", o)
	}
	if s.Services[id].UID != "users" || s.states() != "west/web import: taken" {
		t.Errorf("%+v, %s", s.Services[id], s.states())
	}
	delete(s.Services, id)
	s.settle(t)
	s.want(t, "web-clusterset", "http=81 of west")
	if o := s.imported(t, "web"); len(o.IPs) != 1 || o.Conditions[0].Status != "True" {
		t.Errorf("import %+v", o)
	}
}

// TestHeadlessNeedsNoName checks that a headless ServiceImport neither needs nor reserves the name
// of a derived Service.
func TestHeadlessNeedsNoName(t *testing.T) {
	for who, put := range map[string]func(s *sim){
		"none": func(s *sim) {
			s.Services[ID{"shop", "web-clusterset"}] = &Service{ID: ID{"shop", "web-clusterset"}, UID: "users"}
		},
		"http=80 of clusterset": func(s *sim) {
			s.Clusters = append(
				s.Clusters, newSim(cluster("clusterset", export("web", "mirror", "http=80"))).Clusters[0],
			)
		},
	} {
		e := export("web", "import", "http=90")
		e.Service.ClusterIPs = []string{"None"}
		s := newSim(cluster("", e))
		put(s)
		for range 2 {
			s.settle(t)
			if o := s.imported(t, "web"); o.Type != "Headless" ||
				!strings.Contains(s.states(), "local/web import: written") {
				t.Errorf("import %+v, %s", o, s.states())
			}
			if o := s.Services[ID{"shop", "web-clusterset"}]; o.UID != "users" {
				s.want(t, "web-clusterset", who)
			}
			s.of("").Exports[0].Service.ClusterIPs = []string{"10.0.0.1"} // the name still belongs to the other object
			s.settle(t)
			if got := s.states(); !strings.Contains(got, "local/web import: taken") {
				t.Error(got)
			}
			s.of("").Exports[0].Service.ClusterIPs = []string{"None"}
		}
	}
}

// TestNoUsablePort checks exports without a usable port. No Service is created for an export
// without a usable port. An existing Service keeps its ports, and loses members that are no longer
// exported.
func TestNoUsablePort(t *testing.T) {
	hostile := "x" + strings.Repeat("X", 10_000)
	s := newSim(
		cluster("east", export("web", "mirror federated import", strings.Repeat(hostile+"=1,", 100)+hostile+"=2")),
		cluster("west", export("api", "mirror", "http=80")),
	)
	if writes := s.settle(t); !slices.Equal(writes, []string{"put shop/api-west"}) {
		t.Errorf("writes: %q", writes)
	}
	if got, want := s.states(), "east/web federated: no usable port; east/web import: no usable port; east/web "+
		"mirror: no usable port; west/api mirror: written"; got != want {
		t.Error(got)
	}
	for _, v := range s.last.Verdicts {
		if len(v.Detail) > 2_000 {
			t.Errorf("a detail of %d bytes", len(v.Detail))
		}
	}
	s.of("west").Exports = []Export{export("api", "mirror", hostile+"=80")}
	s.settle(t)
	s.want(t, "api-west", "http=80 of west")

	s = newSim(cluster("east", export("web", "federated import", "http=80")), cluster(
		"west", export("web", "federated import", "http=80"),
	))
	s.settle(t)
	s.of("west").Exports, s.of("east").Exports = []Export{export("web", "federated import", hostile+"=80")}, nil
	s.settleSoon(t)
	s.want(t, "web-federated", "http=80 of west")
	s.want(t, "web-clusterset", "http=80 of west")
}

// TestLinkWithoutDomain checks that only one annotation is incomplete if the domain of a link is
// unknown.
func TestLinkWithoutDomain(t *testing.T) {
	s := newSim(cluster("east", export("web", "mirror", "http=80")))
	s.of("east").Domain = ""
	s.settle(t)
	s.want(t, "web-east", "http=80 of east")
}

// TestNotLinkerds checks that a plan does not adopt Services that Linkerd's service mirror did not
// write. Services that have changed since they were planned are not adopted either.
func TestNotLinkerds(t *testing.T) {
	federated := func(local, remote string) *Service {
		o := &Service{ID: ID{"shop", "web-federated"},
			UID:         "theirs",
			Type:        "ClusterIP",
			ClusterIPs:  []string{"10.96.0.8"},
			Labels:      map[string]string{mirroredLabel: "true"},
			Annotations: map[string]string{remoteDiscovery: remote},
			Ports:       []Port{{Name: "http", Protocol: "TCP", Number: 80, Target: "80"}}}
		if local != "" {
			o.Annotations[localDiscovery] = local
		}
		return o
	}
	t.Run("members with other names", func(t *testing.T) {
		for _, o := range []*Service{
			federated("backend", "web@east"), federated("", "web@east,api@west"), federated("", "web@east,"),
		} {
			s := newSim(cluster("east", export("web", "federated", "http=80")), cluster("west"))
			s.Services[o.ID] = o
			if writes := s.settle(t); len(writes) > 0 || s.states() != "east/web federated: taken" {
				t.Errorf("%v: %q, %s", o.Annotations, writes, s.states())
			}
		}
	})
	t.Run("exports beyond the limit", func(t *testing.T) {
		s := newSim(cluster("east"))
		for i := range DefaultPerNamespace {
			s.of("east").Exports = append(s.of("east").Exports, export(fmt.Sprint("a", i), "mirror", "http=80"))
		}
		s.settle(t)
		s.of("east").Exports = append(s.of("east").Exports, export("web", "federated", "http=80"))
		s.Services[ID{"shop", "web-federated"}] = federated("", "web@gone")
		if writes := s.settle(t); len(writes) > 0 {
			t.Errorf("writes: %q", writes)
		}
	})
	t.Run("changed since planned", func(t *testing.T) {
		s := newSim(cluster("east", export("web", "federated", "http=80")))
		o := federated("", "web@east")
		s.Services[o.ID] = o
		p, _ := Make(s.World, Memory{})
		if len(p.Services) != 1 || !p.Services[0].Mine(o) {
			t.Fatalf("the plan does not adopt the Service: %+v", p.Services)
		}
		whole := federated("", "web@east") // a World holds only a part of the Service
		whole.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
		if !p.Services[0].Mine(whole) {
			t.Error("the freshly read Service is not adopted")
		}
		another := federated("", "web@east")
		another.UID = "another"
		for name, now := range map[string]*Service{
			"another":             another,
			"with another member": federated("", "web@east,web@west"),
			"with a local member": federated("web", "web@east"),
		} {
			if p.Services[0].Mine(now) {
				t.Errorf("%s: the write is allowed", name)
			}
		}
	})
}

// TestOtherInstallation checks that only the full mark of another namespace names another
// installation.
func TestOtherInstallation(t *testing.T) {
	s, id := Settings{Controller: "linkerd"}, ID{Namespace: "shop", Name: "web"}
	for _, c := range []struct{ by, as, want string }{
		{"my-mesh", "Service shop/web", "the installation of Isthmus in namespace my-mesh"},
		{"linkerd", "Service shop/web", ""},
		{"my-mesh", "Service shop/other", ""},
		{"", "", ""},
	} {
		got := s.otherInstallation("Service", id,
			map[string]string{markLabel: c.by}, map[string]string{markAnnotation: c.as})
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestStartUnread checks that objects of ServiceImports stay after a start until ServiceImports
// have been listed. Members that disappeared meanwhile are removed soon afterwards.
func TestStartUnread(t *testing.T) {
	s := newSim(cluster(""), cluster("west", export("web", "import", "http=80")))
	s.settle(t)
	s.of("west").Exports = nil
	s.memory = Memory{}
	imports := s.Imports
	s.Imports, s.MCSVersion = nil, ""
	s.pass()
	if s.service("web-clusterset") == "none" {
		t.Error("the derived Service was deleted before ServiceImports were listed")
	}
	s.Imports, s.MCSVersion = imports, "v1beta1"
	s.settle(t)
	s.Now = s.Now.Add(2 * kindTime)
	s.settle(t)
	if o := s.service("web-clusterset"); o != "none" {
		t.Errorf("after %v: %s", 2*kindTime, o)
	}
}

// TestMembersTakenWhileUnlinked checks that the members of an unlinked cluster stay until
// UnlinkedAfter has passed. The members stay even if somebody removes their names from the derived
// Service.
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
