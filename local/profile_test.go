package local

import (
	"net/netip"
	"testing"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// known is what a scripted cluster knows of destinations.
type known struct {
	services  map[federation.ServiceID]*cluster.Service
	profiles  map[string]*federation.ServiceProfile // by namespace/name; nil: it can't be used
	problems  map[string]string                     // of profiles
	found     map[netip.AddrPort]cluster.Found
	instances map[string]*federation.Endpoint // by hostname
	owners    map[netip.Addr]string
	asked     int // calls of Owner
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

// Owner implements federation.Owner.
func (k *known) Owner(ip netip.Addr) string { k.asked++; return k.owners[ip] }

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

// aShop knows a Service web with ports 80 and 3306, which is opaque, at 10.1.0.1,
// and a Service far of type ExternalName.
func aShop() *known {
	opaque, err := cluster.ParsePorts("3306", nil)
	if err != nil {
		panic(err)
	}
	web := &cluster.Service{Ports: []cluster.ServicePort{{Name: "http", Number: 80}, {Name: "sql", Number: 3306}}, OpaquePorts: opaque}
	far := &cluster.Service{Ports: []cluster.ServicePort{{Number: 80}}, ExternalName: true}
	pod := &federation.Endpoint{Addr: netip.MustParseAddrPort(podAddr), Kind: federation.Pod}
	k := &known{
		services:  map[federation.ServiceID]*cluster.Service{shopWeb: web, {Namespace: "shop", Name: "far"}: far},
		profiles:  make(map[string]*federation.ServiceProfile),
		found:     map[netip.AddrPort]cluster.Found{pod.Addr: {Endpoint: pod}, netip.MustParseAddrPort(bothAddr): {Claimed: "2 Services"}},
		instances: map[string]*federation.Endpoint{"web-0": pod},
	}
	for _, port := range []uint16{80, 81, 3306} {
		k.found[netip.AddrPortFrom(netip.MustParseAddr("10.1.0.1"), port)] = cluster.Found{ID: shopWeb, Service: web}
	}
	return k
}

// TestProfile: the profiles of destinations.
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
		{"a missing service", federation.ProfileKey{Service: missing, Port: 80}, nil, federation.Profile{Reason: federation.NoService}},
		{"a port that is not declared", service(81), nil, federation.Profile{Reason: federation.NoPort}},
		{"ExternalName", federation.ProfileKey{Service: far, Port: 80}, nil, federation.Profile{Reason: federation.NoAddress}},
		{"ExternalName, a port that is not declared", federation.ProfileKey{Service: far, Port: 81}, nil, federation.Profile{Reason: federation.NoPort}},
		{"FB-01 P-05 the client's only", service(80), profiles{"client/" + webName: mine}, profile(80, mine, false)},
		{"FB-02 P-03 the service's only", service(80), profiles{"shop/" + webName: theirs}, profile(80, theirs, false)},
		{"FB-05 both", service(80), profiles{"shop/" + webName: theirs, "client/" + webName: mine}, profile(80, mine, false)},
		{"the client's can't be used", service(80), profiles{"shop/" + webName: theirs, "client/" + webName: nil}, rejected},
		{"the service's can't be used", service(80), profiles{"shop/" + webName: nil}, rejected},
		{"the service's can't be used, but the client's", service(80), profiles{"shop/" + webName: nil, "client/" + webName: mine}, profile(80, mine, false)},
		{"of a client that is not known", unknown, profiles{"shop/" + webName: theirs, "/" + webName: mine}, profile(80, theirs, false)},
		{"of a client of the service's namespace", own, profiles{"shop/" + webName: theirs}, profile(80, theirs, false)},
		{"of another cluster domain", service(80), profiles{"shop/web.shop.svc.cluster.local": theirs}, profile(80, nil, false)},
		{"P-06 a cluster IP", at(webAddr), profiles{"client/" + webName: mine}, profile(80, mine, false)},
		{"a cluster IP, an opaque port", at("10.1.0.1:3306"), nil, profile(3306, nil, true)},
		{"a cluster IP, a port that is not declared", at("10.1.0.1:81"), nil, federation.Profile{Reason: federation.NoPort}},
		{"several", at(bothAddr), nil, federation.Profile{Reason: federation.Ambiguous, Claimed: "2 Services"}},
		{"a Pod", at(podAddr), nil, federation.Profile{Endpoint: &federation.Endpoint{Addr: netip.MustParseAddrPort(podAddr), Kind: federation.Pod}}},
		{"P-14 an address of no object", at("10.9.9.9:1234"), nil, federation.Profile{Endpoint: &federation.Endpoint{Addr: netip.MustParseAddrPort("10.9.9.9:1234")}}},
		{"P-08 a hostname, any port", federation.ProfileKey{Service: shopWeb, Instance: "web-0", Port: 99}, nil,
			federation.Profile{Endpoint: &federation.Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:99"), Kind: federation.Pod}}},
		{"an unknown hostname", federation.ProfileKey{Service: shopWeb, Instance: "web-1", Port: 80}, nil, federation.Profile{Reason: federation.NoInstance}},
		{"a hostname of a missing service", federation.ProfileKey{Service: missing, Instance: "web-0", Port: 80}, nil, federation.Profile{Reason: federation.NoService}},
	} {
		t.Run(x.name, func(t *testing.T) {
			k := aShop()
			if x.profiles != nil {
				k.profiles = x.profiles
			}
			l := &Local{cluster: &scripted{known: k}, domain: "test.local"}
			got := l.profile(x.key)
			if !got.Equal(&x.want) || got.Routes != x.want.Routes {
				t.Errorf("got %+v, want %+v", got, x.want)
			}
		})
	}
}

// TestProfileProblem checks that the problem is that of the ServiceProfile which applies to the client.
func TestProfileProblem(t *testing.T) {
	k := aShop()
	k.profiles = map[string]*federation.ServiceProfile{
		"shop/" + webName:   nil,
		"client/" + webName: nil,
		"fine/" + webName:   nil,
	}
	k.problems = map[string]string{"shop/" + webName: "theirs", "client/" + webName: "mine"}
	l := &Local{cluster: &scripted{known: k}, domain: "test.local"}
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
