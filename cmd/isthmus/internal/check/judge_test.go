package check

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"isthmus/internal/adminapi"
)

// TestJudge checks that Judge finds exactly the problems on the pages of a replica.
func TestJudge(t *testing.T) {
	const silent = "the API server does not answer"
	old, soon, late := time.Unix(0, 0), time.Now().Add(72*time.Hour), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 MST") }
	anchors := func(expires ...time.Time) *adminapi.TrustAnchors {
		a := new(adminapi.TrustAnchors)
		for _, at := range expires {
			a.List = append(a.List, adminapi.Anchor{SHA256: at.String(), Expires: at})
		}
		return a
	}
	for name, c := range map[string]struct {
		change func(own, east *adminapi.Cluster, s *Input)
		want   []string
	}{
		"all is well": {func(_, _ *adminapi.Cluster, _ *Input) {}, nil},
		"an unknown field": {func(_, east *adminapi.Cluster, _ *Input) {
			east.Ignored = []string{"an unknown field on line 9: api-version"}
		}, []string{"warning link-secret link-east: links cluster east by a kubeconfig with " +
			"an unknown field on line 9: api-version: it is ignored"}},
		"rights": {func(own, east *adminapi.Cluster, _ *Input) {
			own.API.Refused = []adminapi.RefusedRequest{{Verb: "get", Resource: "leases.coordination.k8s.io/x",
				Status: 403}, {Verb: "watch", Resource: "pods", Status: 403}}
			east.API.Refused = []adminapi.RefusedRequest{{Verb: "list",
				Resource: "externalworkloads.workload.linkerd.io", Status: 403},
				{Verb: "list", Resource: "jobs.batch", Status: 403}}
		}, []string{
			"warning rights east: not permitted: list jobs.batch " +
				"(the metric labels of endpoints do not include the names of the cluster's CronJobs)",
			"failure rights local: not permitted: watch pods (replicas do not become ready)",
		}},
		"an optional right": {func(_, east *adminapi.Cluster, _ *Input) {
			east.API.Refused = []adminapi.RefusedRequest{{Verb: "list", Resource: "nodes", Status: 403}}
			east.API.Networks = &adminapi.PodNetworks{Error: "the credentials may not read Nodes"}
		}, []string{"unchecked pod-networks east: the credentials may not read Nodes"}},
		"kinds": {func(own, east *adminapi.Cluster, _ *Input) {
			own.API.Refused = []adminapi.RefusedRequest{{Verb: "list", Resource: "servers.policy.linkerd.io",
				Status: 404}}
			east.API.Refused = own.API.Refused
		}, []string{"warning crds local: not installed: servers.policy.linkerd.io"}},
		"a kind that is hidden": {func(own, _ *adminapi.Cluster, _ *Input) {
			own.API.Refused = []adminapi.RefusedRequest{{Verb: "list",
				Resource: "externalworkloads.workload.linkerd.io", Status: 403}}
		}, []string{"warning rights local: not permitted: list externalworkloads.workload.linkerd.io " +
			"(ExternalWorkloads are not served)",
			"unchecked crds local: the API server did not report whether it serves " +
				"externalworkloads.workload.linkerd.io"}},
		"a missing kind, and a missing right to it": {func(own, _ *adminapi.Cluster, s *Input) {
			s.FromHere = true
			own.API.Refused = []adminapi.RefusedRequest{{Verb: "list", Resource: "servers.policy.linkerd.io",
				Status: 403}, {Verb: "get", Resource: "servers.policy.linkerd.io", Status: 404},
				{Verb: "list", Resource: "externalworkloads.workload.linkerd.io", Status: 403}}
		}, []string{"warning rights local: not permitted: list servers.policy.linkerd.io (opaque ports in " +
			"Servers have no effect); list externalworkloads.workload.linkerd.io (ExternalWorkloads are not served)",
			"warning crds local: not installed: servers.policy.linkerd.io"}},
		"credentials that are refused now": {func(_, east *adminapi.Cluster, _ *Input) {
			east.State, east.Reason = adminapi.Stale, "pods: Unauthorized"
			east.API.Refused = []adminapi.RefusedRequest{{Verb: "list", Resource: "pods", Status: 401}}
		}, []string{"failure api east: the API server answers 401 Unauthorized to list pods", "unchecked rights " +
			"east: the API server responds with an error", "failure link-state east: it is stale: pods: Unauthorized",
			"unchecked link-expiry east: the API server rejects its credentials",
			"unchecked trust-anchors east: the API server responds with an error",
			"unchecked pod-networks east: the API server responds with an error"}},
		"an API server that fails": {func(_, east *adminapi.Cluster, _ *Input) {
			east.State, east.Reason = adminapi.Stale, "pods: later"
			east.API.Refused = []adminapi.RefusedRequest{{Verb: "list", Resource: "pods", Status: 503}}
		}, []string{"failure api east: the API server answers 503 Service Unavailable to list pods",
			"unchecked rights east: the API server responds with an error",
			"failure link-state east: it is stale: pods: later",
			"unchecked trust-anchors east: the API server responds with an error",
			"unchecked pod-networks east: the API server responds with an error"}},
		"one resource that fails": {func(_, east *adminapi.Cluster, _ *Input) {
			east.API.Refused = []adminapi.RefusedRequest{{Verb: "list", Resource: "jobs.batch", Status: 500}}
		}, nil},
		"an API server that no longer responds": {func(_, east *adminapi.Cluster, _ *Input) {
			east.State, east.Reason, east.API.Error = adminapi.Stale, "pods: refused", "connection refused"
		}, []string{"failure api east: the API server cannot be reached: connection refused", "failure link-state " +
			"east: it is stale: pods: refused"}},
		"a client certificate that is refused": {func(_, east *adminapi.Cluster, _ *Input) {
			east.API.Error, east.API.ClientCertificate = "remote error: tls: expired certificate", "expired certificate"
		}, []string{"failure api east: the API server rejects the client certificate: expired certificate"}},
		"one that has never answered": {func(_, east *adminapi.Cluster, _ *Input) {
			east.State, east.Reason, east.API = adminapi.Unreachable, "pods: refused",
				&adminapi.APIServer{Error: "connection refused"}
		}, []string{"failure api east: the API server cannot be reached: connection refused", "unchecked clock-skew " +
			"east: " + silent, "unchecked rights east: " + silent,
			"failure link-state east: it is unreachable: pods: refused",
			"unchecked trust-anchors east: " + silent, "unchecked pod-networks east: " + silent}},
		"another's certificate": {func(_, east *adminapi.Cluster, _ *Input) {
			east.API.Error, east.API.Certificate, east.API.OtherAuthority = "tls: no", "the issuer x is unknown", true
		}, []string{"failure api east: the API server cannot be reached: its certificate is not valid: the " +
			"issuer x is unknown"}},
		"new credentials": {func(_, east *adminapi.Cluster, _ *Input) {
			east.NewCredentials = "new credentials do not work; the old credentials stay in use: Unauthorized"
		},
			[]string{"failure link-state east: new credentials do not work; the old credentials stay in use: " +
				"Unauthorized"}},
		"new credentials that wait": {func(_, east *adminapi.Cluster, _ *Input) {
			east.NewCredentials, east.Awaited = "they lack the permission", []string{"servers.policy.linkerd.io"}
		}, []string{"failure link-state east: they lack the permission"}},
		"a kind that fails": {func(_, east *adminapi.Cluster, _ *Input) {
			east.Resources = append(east.Resources,
				adminapi.Resource{Resource: "servers", Err: "webhook", Failure: adminapi.Failing})
		}, []string{"warning objects east: servers have never been read, " +
			"so the cluster appears to have none: webhook"}},
		"a kind that is refused or absent, or was read": {func(own, east *adminapi.Cluster, _ *Input) {
			east.Resources = append(east.Resources,
				adminapi.Resource{Resource: "nodes", Err: "no RBAC", Failure: adminapi.Forbidden},
				adminapi.Resource{Resource: "servers", Err: "gone", Failure: adminapi.Absent},
				adminapi.Resource{Resource: "jobs", Err: "gone", Failure: adminapi.Failing, Synced: true})
		}, nil},
		"what is not read yet": {func(_, east *adminapi.Cluster, _ *Input) {
			east.API.Anchors, east.API.Networks = nil,
				nil
		},
			[]string{"unchecked trust-anchors east: not read yet", "unchecked pod-networks east: not read yet"}},
		"link Secrets": {func(_, _ *adminapi.Cluster,
			s *Input) {
			s.Secrets = adminapi.LinkSecrets{Reason: "forbidden"}
		},
			[]string{"failure link-secrets : link Secrets cannot be read: forbidden"}},
		"a Secret that has become invalid": {func(_, east *adminapi.Cluster,
			_ *Input) {
			east.SecretRefused = "no kubeconfig"
		},
			[]string{"failure link-secret link-east: the current version of the Secret cannot be used; " +
				"the previous version stays in use for cluster east: no kubeconfig"}},
		"a token": {func(_, east *adminapi.Cluster, _ *Input) {
			east.API.Expiry = &adminapi.Expiry{What: "token", At: time.Unix(0, 0)}
		},
			[]string{"failure link-expiry east: its token expired at 1970-01-01 00:00 UTC"}},
		"a client certificate that expires soon": {func(_, east *adminapi.Cluster, _ *Input) {
			east.API.Expiry = &adminapi.Expiry{What: "client certificate", At: soon}
		}, []string{"warning link-expiry east: its client certificate expires in 3 days, at " + clock(soon)}},
		"an anchor that has expired": {func(own, east *adminapi.Cluster, _ *Input) {
			own.API.Anchors, east.API.Anchors = anchors(old), anchors(old)
		}, []string{"failure trust-anchors east: the trust anchor expired at 1970-01-01 00:00 UTC",
			"failure trust-anchors local: the trust anchor expired at 1970-01-01 00:00 UTC"}},
		"an anchor that expires soon": {func(own, east *adminapi.Cluster, _ *Input) {
			own.API.Anchors, east.API.Anchors = anchors(soon), anchors(soon)
		}, []string{"warning trust-anchors east: the trust anchor expires in 3 days, at " + clock(soon),
			"warning trust-anchors local: the trust anchor expires in 3 days, at " + clock(soon)}},
		"an old anchor among good ones": {func(own, east *adminapi.Cluster, _ *Input) {
			own.API.Anchors, east.API.Anchors = anchors(old, late), anchors(late, old)
		}, []string{"warning trust-anchors east: 1 of 2 trust anchors have expired; " +
			"the anchor with the latest expiry is valid until 2100-01-01 00:00 UTC",
			"warning trust-anchors local: 1 of 2 trust anchors have expired; " +
				"the anchor with the latest expiry is valid until 2100-01-01 00:00 UTC"}},
		"more anchors": {func(own, east *adminapi.Cluster, _ *Input) {
			own.API.Anchors, east.API.Anchors = anchors(late), anchors(late, late.Add(time.Hour))
		}, []string{"warning trust-anchors east: the trust anchors differ: 1 in the local cluster, 2 in the " +
			"linked cluster, 1 in common: " +
			"a proxy rejects certificates whose trust anchor is missing from the proxy's cluster"}},
		"fewer anchors": {func(own, east *adminapi.Cluster, _ *Input) {
			own.API.Anchors, east.API.Anchors = anchors(late, late.Add(time.Hour)), anchors(late)
		}, []string{"warning trust-anchors east: the trust anchors differ: 2 in the local cluster, 1 in the " +
			"linked cluster, 1 in common: " +
			"a proxy rejects certificates whose trust anchor is missing from the proxy's cluster"}},
		"no Nodes": {func(_, east *adminapi.Cluster, _ *Input) { east.API.Networks = &adminapi.PodNetworks{} }, nil},
		"Nodes without a Pod CIDR": {func(_, east *adminapi.Cluster,
			_ *Input) {
			east.API.Networks = &adminapi.PodNetworks{Nodes: 1}
		},
			[]string{"unchecked pod-networks east: its Nodes have no Pod CIDR"}},
	} {
		seen := goodInput()
		c.change(&seen.Local, &seen.Clusters.Clusters[0], &seen)
		if got := found(seen); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
		}
	}
}

// TestOverlaps checks that each pair of clusters with overlapping ranges on one network is reported
// once, with the second cluster.
func TestOverlaps(t *testing.T) {
	seen := goodInput()
	seen.Clusters.Clusters = nil
	for _, c := range []struct {
		name, network string
		cidrs         []string
	}{
		{"local", "", []string{"10.0.0.0/8"}}, {"east", "", []string{"10.1.0.0/16", "10.2.0.0/16"}},
		{"north", "", []string{"10.1.2.0/24", "fd00::/64"}},
		{"south", "", []string{"fd00::/80", "192.168.0.0/16", "none"}}, {"twin", "", []string{"192.168.0.0/16"}},
		{"b", "far", []string{"10.0.0.0/24"}}, {"c", "far", []string{"10.0.0.0/24"}},
		{"d", "farther", []string{"10.0.0.0/24"}},
	} {
		one := goodCluster(c.name)
		one.Network, one.API.Networks = c.network, &adminapi.PodNetworks{Nodes: 1, CIDRs: c.cidrs}
		if c.network != "" {
			one.Gateways = []adminapi.ClusterGateway{{State: "alive"}}
		}
		if c.name == "local" {
			seen.Local = one
		} else {
			seen.Clusters.Clusters = append(seen.Clusters.Clusters, one)
		}
	}
	want := []string{
		"warning pod-networks c: Pod CIDRs overlap: 10.0.0.0/24 is also used by b",
		"warning pod-networks east: Pod CIDRs overlap: 10.1.0.0/16 overlaps 10.0.0.0/8 of local",
		"warning pod-networks north: Pod CIDRs overlap: 10.1.2.0/24 overlaps 10.0.0.0/8 of local; 10.1.2.0/24 " +
			"overlaps 10.1.0.0/16 of east",
		"warning pod-networks south: Pod CIDRs overlap: fd00::/80 overlaps fd00::/64 of north",
		"warning pod-networks twin: Pod CIDRs overlap: 192.168.0.0/16 is also used by south",
	}
	if got := found(seen); !slices.Equal(got, want) {
		t.Errorf("found\n%s", strings.Join(got, "\n"))
	}
}

// TestOverlapOfAny checks that overlap finds an overlap exactly if a comparison of all pairs of
// ranges finds one.
func TestOverlapOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lists [2][]netip.Prefix
		for i := range lists {
			for range rapid.IntRange(0, 6).Draw(t, "ranges") {
				a := netip.AddrFrom4([4]byte{10, rapid.ByteRange(0, 3).Draw(t, "b"),
					rapid.ByteRange(0, 3).Draw(t, "c") << 6, 0})
				p := netip.PrefixFrom(a, rapid.IntRange(7, 24).Draw(t, "bits")).Masked()
				if !slices.ContainsFunc(lists[i], p.Overlaps) {
					lists[i] = append(lists[i], p)
				}
			}
			slices.SortFunc(lists[i], netip.Prefix.Compare)
		}
		want := slices.ContainsFunc(lists[0],
			func(x netip.Prefix) bool { return slices.ContainsFunc(lists[1], x.Overlaps) })
		x, y, got := overlap(lists[0], lists[1])
		if got != want || got && !(slices.Contains(lists[0], x) && slices.Contains(lists[1], y) && x.Overlaps(y)) {
			t.Fatalf("%v, want %v: %v and %v, of %v", got, want, x, y, lists)
		}
	})
}

// TestAge checks that facts that were not read for this check are shown with their age.
func TestAge(t *testing.T) {
	for name, x := range map[string]struct {
		anchors, networks int
		want              []string
	}{
		"as young as can be expected": {anchors: 15, networks: 65},
		"old": {anchors: 16, networks: 1900, want: []string{
			"unchecked pod-networks east: the credentials may not read Nodes (read 32 minutes ago)",
			"unchecked trust-anchors east: ConfigMap x is not there (read 16 seconds ago)",
		}},
	} {
		seen := goodInput()
		api := *seen.Clusters.Clusters[0].API
		seen.Clusters.Clusters[0].API = &api
		api.Anchors = &adminapi.TrustAnchors{Error: "ConfigMap x is not there", AgeSeconds: x.anchors}
		api.Networks = &adminapi.PodNetworks{Error: "the credentials may not read Nodes", AgeSeconds: x.networks}
		if x.want == nil {
			x.want = []string{
				"unchecked pod-networks east: the credentials may not read Nodes",
				"unchecked trust-anchors east: ConfigMap x is not there",
			}
		}
		got := found(seen)
		slices.Sort(got)
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: found\n%s", name, strings.Join(got, "\n"))
		}
	}
}
