package local

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/panics"
)

// known holds the destinations of a scripted cluster.
type known struct {
	services  map[federation.ServiceID]*cluster.Service
	profiles  map[string]*federation.ServiceProfile // by namespace/name; nil if invalid
	problems  map[string]string                     // of profiles
	found     map[netip.AddrPort]cluster.Found
	instances map[string]*federation.Endpoint // by hostname
	owners    map[netip.Addr]string
	asked     int // calls of AddressOwner
}

func (k *known) Service(id federation.ServiceID) *cluster.Service { return k.services[id] }

func (k *known) ServiceProfile(namespace, name string) (*federation.ServiceProfile, bool) {
	p, ok := k.profiles[namespace+"/"+name]
	return p, ok
}

func (k *known) ServiceProfileProblem(namespace, name string) (problem string, exists bool) {
	_, exists = k.profiles[namespace+"/"+name]
	return k.problems[namespace+"/"+name], exists
}

func (k *known) LookupAddress(addr netip.AddrPort) cluster.Found {
	if f, ok := k.found[addr]; ok {
		return f
	}
	return cluster.Found{Endpoint: &federation.Endpoint{Addr: addr}}
}

func (k *known) AddressOwner(ip netip.Addr) string { k.asked++; return k.owners[ip] }

func (k *known) Instance(svc federation.ServiceID, hostname string, port uint16) *federation.Endpoint {
	if e := k.instances[hostname]; e != nil && svc == shopWeb {
		made := *e
		made.Addr = netip.AddrPortFrom(e.Addr.Addr(), port)
		return &made
	}
	return nil
}

const (
	webName  = "web.shop.svc.test.local"
	podAddr  = "10.0.0.1:80"
	webAddr  = "10.1.0.1:80"
	bothAddr = "10.1.0.9:80"
)

// aShop returns a Service web at 10.1.0.1, with the ports 80 and 3306 (opaque), and a Service far
// of type ExternalName.
func aShop() *known {
	opaque, err := cluster.ParsePorts("3306", nil)
	if err != nil {
		panic(err)
	}
	web := &cluster.Service{
		Ports:       []cluster.ServicePort{{Name: "http", Number: 80}, {Name: "sql", Number: 3306}},
		OpaquePorts: opaque,
	}
	far := &cluster.Service{Ports: []cluster.ServicePort{{Number: 80}}, ExternalName: true}
	pod := &federation.Endpoint{Addr: netip.MustParseAddrPort(podAddr), Kind: federation.Pod}
	k := &known{
		services: map[federation.ServiceID]*cluster.Service{shopWeb: web, {Namespace: "shop", Name: "far"}: far},
		profiles: make(map[string]*federation.ServiceProfile),
		found: map[netip.AddrPort]cluster.Found{
			pod.Addr:                          {Endpoint: pod},
			netip.MustParseAddrPort(bothAddr): {Claimed: "2 Services"},
		},
		instances: map[string]*federation.Endpoint{"web-0": pod},
	}
	for _, port := range []uint16{80, 81, 3306} {
		k.found[netip.AddrPortFrom(netip.MustParseAddr("10.1.0.1"), port)] = cluster.Found{ID: shopWeb, Service: web}
	}
	return k
}

// TestProfile checks the profiles of all kinds of destinations.
func TestProfile(t *testing.T) {
	mine, theirs := &federation.ServiceProfile{Namespace: "client"}, &federation.ServiceProfile{Namespace: "shop"}
	service := func(port uint16) federation.ProfileKey {
		return federation.ProfileKey{Service: shopWeb, Port: port, Namespace: "client"}
	}
	at := func(addr string) federation.ProfileKey {
		return federation.ProfileKey{Addr: netip.MustParseAddrPort(addr), Namespace: "client"}
	}
	unknown := service(80)
	unknown.Namespace = ""
	own := service(80)
	own.Namespace = "shop"
	type profiles = map[string]*federation.ServiceProfile
	profile := func(port uint16, routes *federation.ServiceProfile, opaque bool) federation.Profile {
		return federation.Profile{Service: shopWeb, Port: port, Name: webName, Routes: routes, Opaque: opaque}
	}
	rejected := profile(80, nil, false)
	rejected.Rejected = true
	missing := federation.ServiceID{Namespace: "shop", Name: "none"}
	far := federation.ServiceID{Namespace: "shop", Name: "far"}
	for _, x := range []struct {
		name     string
		key      federation.ProfileKey
		profiles profiles
		want     federation.Profile
	}{
		{"a service port", service(80), nil, profile(80, nil, false)},
		{"P-20 an opaque port", service(3306), nil, profile(3306, nil, true)},
		{
			"a missing service",
			federation.ProfileKey{Service: missing, Port: 80},
			nil,
			federation.Profile{Reason: federation.NoService},
		},
		{"a port that is not declared", service(81), nil, federation.Profile{Reason: federation.NoPort}},
		{
			"ExternalName",
			federation.ProfileKey{Service: far, Port: 80},
			nil,
			federation.Profile{Reason: federation.NoAddress},
		},
		{
			"ExternalName, a port that is not declared",
			federation.ProfileKey{Service: far, Port: 81},
			nil,
			federation.Profile{Reason: federation.NoPort},
		},
		{"FB-01 P-05 the client's only", service(80), profiles{"client/" + webName: mine}, profile(80, mine, false)},
		{"FB-02 P-03 the service's only", service(80), profiles{"shop/" + webName: theirs}, profile(80, theirs, false)},
		{
			"FB-05 both",
			service(80),
			profiles{"shop/" + webName: theirs, "client/" + webName: mine},
			profile(80, mine, false),
		},
		{
			"the client's can't be used",
			service(80),
			profiles{"shop/" + webName: theirs, "client/" + webName: nil},
			rejected,
		},
		{"the service's can't be used", service(80), profiles{"shop/" + webName: nil}, rejected},
		{
			"the service's can't be used, but the client's",
			service(80),
			profiles{"shop/" + webName: nil, "client/" + webName: mine},
			profile(80, mine, false),
		},
		{
			"of a client that is not known",
			unknown,
			profiles{"shop/" + webName: theirs, "/" + webName: mine},
			profile(80, theirs, false),
		},
		{
			"of a client of the service's namespace",
			own,
			profiles{"shop/" + webName: theirs},
			profile(80, theirs, false),
		},
		{
			"of another cluster domain",
			service(80),
			profiles{"shop/web.shop.svc.cluster.local": theirs},
			profile(80, nil, false),
		},
		{"P-06 a cluster IP", at(webAddr), profiles{"client/" + webName: mine}, profile(80, mine, false)},
		{"a cluster IP, an opaque port", at("10.1.0.1:3306"), nil, profile(3306, nil, true)},
		{
			"a cluster IP, a port that is not declared",
			at("10.1.0.1:81"),
			nil,
			federation.Profile{Reason: federation.NoPort},
		},
		{"several", at(bothAddr), nil, federation.Profile{Reason: federation.Ambiguous, Claimed: "2 Services"}},
		{
			"a Pod",
			at(podAddr),
			nil,
			federation.Profile{
				Endpoint: &federation.Endpoint{Addr: netip.MustParseAddrPort(podAddr), Kind: federation.Pod},
			},
		},
		{
			"P-14 an address of no object",
			at("10.9.9.9:1234"),
			nil,
			federation.Profile{Endpoint: &federation.Endpoint{Addr: netip.MustParseAddrPort("10.9.9.9:1234")}},
		},
		{"P-08 a hostname, any port", federation.ProfileKey{Service: shopWeb, Instance: "web-0", Port: 99}, nil,
			federation.Profile{
				Endpoint: &federation.Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:99"), Kind: federation.Pod},
			}},
		{
			"an unknown hostname",
			federation.ProfileKey{Service: shopWeb, Instance: "web-1", Port: 80},
			nil,
			federation.Profile{Reason: federation.NoInstance},
		},
		{
			"a hostname of a missing service",
			federation.ProfileKey{Service: missing, Instance: "web-0", Port: 80},
			nil,
			federation.Profile{Reason: federation.NoService},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			k := aShop()
			if x.profiles != nil {
				k.profiles = x.profiles
			}
			l := &Cluster{cluster: &scripted{known: k}, domain: "test.local"}
			got := l.profile(x.key)
			if !got.Equal(&x.want) || got.Routes != x.want.Routes {
				t.Errorf("got %+v, want %+v", got, x.want)
			}
		})
	}
}

// TestProfileProblem checks that the problem is that of the ServiceProfile that applies to the
// client.
func TestProfileProblem(t *testing.T) {
	k := aShop()
	k.profiles = map[string]*federation.ServiceProfile{
		"shop/" + webName:   nil,
		"client/" + webName: nil,
		"fine/" + webName:   nil,
	}
	k.problems = map[string]string{"shop/" + webName: "theirs", "client/" + webName: "mine"}
	l := &Cluster{cluster: &scripted{known: k}, domain: "test.local"}
	for client, want := range map[string]string{
		"client": "ServiceProfile client/" + webName + ": mine",
		"other":  "ServiceProfile shop/" + webName + ": theirs",
		"":       "ServiceProfile shop/" + webName + ": theirs",
		"shop":   "ServiceProfile shop/" + webName + ": theirs",
		"fine":   "",
	} {
		if got := l.ProfileProblem(shopWeb, client); got != want {
			t.Errorf("for clients of %q: %q, want %q", client, got, want)
		}
	}
	if got := l.ProfileProblem(federation.ServiceID{Namespace: "shop", Name: "none"}, ""); got != "" {
		t.Errorf("without a ServiceProfile: %q", got)
	}
}

// TestProfilesReference opens and closes watches while objects change at random, and compares the
// watched profiles with a reference.
func TestProfilesReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := make(map[cluster.Topic]int) // versions of topics, which profiles show as their ports
		p := newProfiles(func(k federation.ProfileKey) *federation.Profile {
			return &federation.Profile{Port: uint16(now[topicOf(k)])}
		}, nil)
		keys := rapid.SampledFrom([]federation.ProfileKey{
			{
				Service: shopWeb,
				Port:    80,
			},
			{Service: shopWeb, Port: 81},
			{Service: shopWeb, Port: 80, Namespace: "a"},
			{Service: shopWeb, Port: 80, Instance: "h"},
			{
				Addr: netip.MustParseAddrPort(podAddr),
			}, {Addr: netip.MustParseAddrPort("10.0.0.1:81")}, {Addr: netip.MustParseAddrPort(webAddr)},
		})
		type open struct {
			*federation.Watch[*federation.Profile]
			key federation.ProfileKey
		}
		var list []open
		t.Repeat(map[string]func(*rapid.T){
			"watch": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				list = append(list, open{p.watch(k), k})
			},
			"close": func(t *rapid.T) {
				if len(list) > 0 {
					i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
					list[i].Close()
					list = append(list[:i:i], list[i+1:]...)
				}
			},
			"change": func(t *rapid.T) {
				k := topicOf(keys.Draw(t, "key"))
				before := make(map[int]*federation.Profile)
				for i, w := range list {
					before[i], _ = w.Get()
				}
				changed := rapid.Bool().Draw(t, "really")
				if changed {
					now[k]++
				}
				p.changed(k)
				for i, w := range list {
					if after, _ := w.Get(); (after != before[i]) != (changed && topicOf(w.key) == k) {
						t.Fatalf("%+v: %+v, before %+v", w.key, after, before[i])
					}
				}
			},
			"": func(t *rapid.T) {
				distinct := make(map[federation.ProfileKey]bool)
				for _, w := range list {
					distinct[w.key] = true
					if got, _ := w.Get(); int(got.Port) != now[topicOf(w.key)] {
						t.Fatalf("%+v is %d, want %d", w.key, got.Port, now[topicOf(w.key)])
					}
				}
				if len(p.watched) != len(distinct) {
					t.Fatalf("%d profiles are cached, want %d", len(p.watched), len(distinct))
				}
			},
		})
	})
}

// TestProfilesAfterPanic checks that a profile whose build panics is not cached. The next watch
// builds it again.
func TestProfilesAfterPanic(t *testing.T) {
	broken := true
	p := newProfiles(func(federation.ProfileKey) *federation.Profile {
		if broken {
			panic("broken")
		}
		return &federation.Profile{Name: "web"}
	}, nil)
	k := federation.ProfileKey{Service: federation.ServiceID{Namespace: "shop", Name: "web"}, Port: 80}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		p.watch(k)
	}()
	if len(p.watched)+len(p.topics) != 0 {
		t.Errorf("%d profiles and %d topics are still cached", len(p.watched), len(p.topics))
	}
	broken = false
	w := p.watch(k)
	defer w.Close()
	if got, _ := w.Get(); got == nil || got.Name != "web" {
		t.Errorf("got %+v", got)
	}
}

// TestPanicOfProfile checks that a profile whose build panics does not change until a retry
// succeeds. Other profiles of the topic are updated.
func TestPanicOfProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSupervisor(t)
		var broken atomic.Bool
		name := "before"
		p := newProfiles(func(k federation.ProfileKey) *federation.Profile {
			if broken.Load() && k.Port == 80 {
				panic("boom")
			}
			return &federation.Profile{Name: name}
		}, s)
		bad := p.watch(federation.ProfileKey{Service: shopWeb, Port: 80})
		good := p.watch(federation.ProfileKey{Service: shopWeb, Port: 81})
		defer bad.Close()
		defer good.Close()
		check := func(bads, goods string, failures int) {
			t.Helper()
			b, _ := bad.Get()
			g, _ := good.Get()
			if b.Name != bads || g.Name != goods || len(s.Failures()) != failures {
				t.Errorf("profiles %q and %q, failures %+v", b.Name, g.Name, s.Failures())
			}
		}
		broken.Store(true)
		name = "after"
		p.changed(cluster.Topic{Service: shopWeb})
		check("before", "after", 1)
		broken.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		check("after", "after", 0)
		if s.Count(panics.Profile) != 1 {
			t.Errorf("the panic count is %d", s.Count(panics.Profile))
		}
	})
}

// TestPanicOfProfileWatchedAnew checks that a profile without watches is not built again. The test
// also checks that a new watch with the same key gets the current profile.
func TestPanicOfProfileWatchedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSupervisor(t)
		var broken atomic.Bool
		var builds atomic.Int64
		name := "before"
		p := newProfiles(func(federation.ProfileKey) *federation.Profile {
			builds.Add(1)
			if broken.Load() {
				panic("boom")
			}
			return &federation.Profile{Name: name}
		}, s)
		k := federation.ProfileKey{Service: shopWeb, Port: 80}
		first := p.watch(k)
		old := p.watched[k]
		first.Close()
		again := p.watch(k)
		defer again.Close()
		broken.Store(true)
		name = "after"
		p.changed(cluster.Topic{Service: shopWeb})
		broken.Store(false)
		before := builds.Load()
		if p.refresh(old); builds.Load() != before {
			t.Error("a profile without watches was built")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got, _ := again.Get(); got.Name != "after" || len(s.Failures()) != 0 {
			t.Errorf("profile %q, failures %+v", got.Name, s.Failures())
		}
	})
}

// startSupervisor returns a Supervisor that runs until the end of the test.
func startSupervisor(t *testing.T) *panics.Supervisor {
	s := panics.New(zap.NewNop())
	go func() { _ = s.Run(t.Context()) }()
	return s
}
