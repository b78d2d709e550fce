package main

import (
	"fmt"
	"slices"
	"testing"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// oneService is an own cluster with one Service, and links without clusters.
type oneService struct {
	id      federation.ServiceID
	service *cluster.Service
	linked  []federation.ClusterName
}

func (o oneService) Service(id federation.ServiceID) *cluster.Service {
	if id == o.id {
		return o.service
	}
	return nil
}

func (o oneService) Followed(name federation.ClusterName) (*cluster.Cluster, cluster.State) {
	if slices.Contains(o.linked, name) {
		return nil, cluster.Pending
	}
	return nil, ""
}

// nothing is known of any Service.
var nothing = members{oneService{}, oneService{}}

func TestLackedPorts(t *testing.T) {
	ports := func(list ...cluster.ServicePort) *cluster.Service { return &cluster.Service{Ports: list} }
	own := ports(cluster.ServicePort{Name: "http", Number: 80}, cluster.ServicePort{Number: 81}, cluster.ServicePort{Name: "admin", Number: 99})
	there := ports(cluster.ServicePort{Name: "http", Number: 8080}, cluster.ServicePort{Name: "x", Number: 99})
	if got := fmt.Sprint(lackedPorts(own, there)); got != "[80 (http is 8080 there) 81]" {
		t.Error(got)
	}
}

// TestUnlinked: of a Service's own preference those clusters are named that are not linked; the gateway's may name any.
func TestUnlinked(t *testing.T) {
	web := federation.ServiceID{Namespace: "shop", Name: "web"}
	named := func(c federation.ClusterName) federation.Tier {
		return federation.Tier{{Kind: federation.Named, Cluster: c}}
	}
	p := &federation.Preference{Tiers: []federation.Tier{named("east"), named("esat"), {{Kind: federation.AnyCluster}}}}
	own := oneService{web, &cluster.Service{}, []federation.ClusterName{"east"}}
	if got := (members{own, own}).unlinked(web, p); got != nil {
		t.Errorf("%q of the gateway's own", got)
	}
	own.service.Annotations = map[string]string{"isthmus.io/prefer": "east, esat, any"}
	if got := (members{own, own}).unlinked(web, p); !slices.Equal(got, []string{"esat"}) {
		t.Errorf("%q", got)
	}
}

// TestUnlinkedOnPage: they are shown also of a service that proxies watch.
func TestUnlinkedOnPage(t *testing.T) {
	w := newTiered(t, federation.Preference{}, federation.Options{})
	own := oneService{w.web, &cluster.Service{Annotations: map[string]string{"isthmus.io/prefer": "local, east+north"}}, []federation.ClusterName{"east"}}
	s := newServicesPage(w.Table, nil, nil, members{own, own})[0]
	if len(s.Clients) == 0 || !slices.Equal(s.Preference.Unlinked, []string{"north"}) {
		t.Errorf("preference %+v of %d kinds of clients", s.Preference, len(s.Clients))
	}
}
