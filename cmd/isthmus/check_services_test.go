package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"isthmus/clusterstore/check"
	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// found returns the results that are not OK, one in a line.
func found(r *check.Report) (bad []string) {
	for _, x := range r.Results() {
		if x.Level != check.OK {
			bad = append(bad, fmt.Sprintf("%s %s %s: %s", x.Level, x.Check, x.Object, x.Text))
			if x.Hint == "" {
				bad = append(bad, "no hint")
			}
		}
	}
	return bad
}

// TestMemberHint: what to do depends on why the member does not serve.
func TestMemberHint(t *testing.T) {
	for status, want := range map[federation.MemberStatus]string{
		{Link: federation.Ready}: "create the Service there", {Link: federation.Unlinked}: "correct the cluster's name", {Link: federation.Pending}: "see why the cluster can't be read",
		{Link: federation.Ready, Service: federation.Present, Unreached: true}: "see the check of the cluster's gateways",
	} {
		if hint := memberHint(federation.Unserved{Status: status}); !strings.HasPrefix(hint, want) {
			t.Errorf("%v: %s, want %s…", status, hint, want)
		}
	}
}

func TestServiceChecks(t *testing.T) {
	web := federation.ServiceID{Namespace: "shop", Name: "web"}
	member := func(c federation.ClusterName) federation.Member {
		return federation.Member{Cluster: c, Service: web}
	}
	d := &federation.Definition{Federated: true, Members: []federation.Member{member("east"), member("north")}}
	all := map[federation.ServiceID]*federation.Definition{web: d}
	missing := federation.MemberStatus{Link: federation.Ready}
	ports := func(list ...cluster.ServicePort) *cluster.Service { return &cluster.Service{Ports: list} }
	for name, c := range map[string]struct {
		do   func(*serviceChecks)
		want []string
	}{
		"a member": {func(c *serviceChecks) {
			c.members([]federation.Unserved{{Service: web, Member: member("east"), Status: missing}}, all)
		},
			[]string{"warning members shop/web: shop/web of cluster east does not serve: no such Service in the cluster"}},
		"all members": {func(c *serviceChecks) {
			c.members([]federation.Unserved{{Service: web, Member: member("east"), Status: missing}, {Service: web, Member: member("north")}}, all)
		}, []string{"failure members shop/web: shop/web of cluster east does not serve: no such Service in the cluster", "failure members shop/web: shop/web of cluster north does not serve: cluster is unlinked"}},
		"ports": {func(c *serviceChecks) {
			c.ports(web, ports(cluster.ServicePort{Name: "http", Number: 80}, cluster.ServicePort{Number: 81}, cluster.ServicePort{Name: "admin", Number: 99}), d, func(m federation.Member) *cluster.Service {
				if m.Cluster == "north" {
					return nil
				}
				return ports(cluster.ServicePort{Name: "http", Number: 8080}, cluster.ServicePort{Name: "x", Number: 99})
			})
		}, []string{"warning ports shop/web: shop/web of cluster east has no port 80 (http is 8080 there), 81: clients of that port are sent to that port of its Pods"}},
		"a preference": {func(c *serviceChecks) {
			own := ports()
			named := func(c federation.ClusterName) federation.Tier {
				return federation.Tier{{Kind: federation.Named, Cluster: c}}
			}
			d := &federation.Definition{Preference: &federation.Preference{Tiers: []federation.Tier{named("east"), named("esat"), {{Kind: federation.AnyCluster}}}}}
			linked := map[federation.ClusterName]bool{"east": true}
			c.preferred(web, own, d, linked) // it is the gateway's
			own.Annotations = map[string]string{"isthmus.io/prefer": "east, esat, any"}
			c.preferred(web, own, d, linked)
		}, []string{"warning definitions shop/web: annotation isthmus.io/prefer: no cluster esat is linked"}},
		"addresses": {func(c *serviceChecks) {
			c.addresses([]federation.WatchedPort{{Service: web, Port: 80, Members: []federation.WatchedMember{{Member: member("east")}, {Member: member("north"), Yielded: 2}}}})
		}, []string{"warning addresses shop/web: port 80: another member too offers 2 addresses of shop/web of cluster north"}},
		"the Lease": {func(c *serviceChecks) {
			checkWriter(c.report, adminapi.SliceWriter{Holder: "a", LeaseError: "forbidden"})
		}, []string{"warning slice-writer : the Lease of the replica that writes EndpointSlices can't be used: forbidden"}},
		"nobody's Lease":       {func(c *serviceChecks) { checkWriter(c.report, adminapi.SliceWriter{}) }, []string{"warning slice-writer : no replica holds the Lease for writing EndpointSlices"}},
		"writing":              {func(c *serviceChecks) { checkWriter(c.report, adminapi.SliceWriter{Holder: "a", Error: "conflict"}) }, []string{"warning slice-writer : EndpointSlices for ExternalWorkloads can't be written: conflict"}},
		"a Lease that is held": {func(c *serviceChecks) { checkWriter(c.report, adminapi.SliceWriter{Holder: "a"}) }, nil},
	} {
		report := new(check.Report)
		c.do(&serviceChecks{report, make(map[string]bool)})
		if got := found(report); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
		}
	}
}
