package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// TestMemberHint checks that the hint depends on the reason why the member is not serving, in the
// words of package federation.
func TestMemberHint(t *testing.T) {
	for status, want := range map[federation.MemberStatus]string{
		{Link: federation.Ready}:                                   "create the Service in the member's cluster",
		{Link: federation.Ready, Service: federation.ExternalName}: "create the Service in the member's cluster",
		{Link: federation.Unlinked}:                                "correct the cluster's name",
		{Link: federation.Pending}:                                 "see the checks for links and API servers",
		{Link: federation.Ready, Service: federation.Present,
			Unreached: true}: "see the check of the cluster's gateways",
	} {
		if hint := memberHint("shop/web", status.String()); !strings.HasPrefix(hint, want) {
			t.Errorf("%v: %s, want %s…", status, hint, want)
		}
	}
}

func TestServiceChecks(t *testing.T) {
	const missing, unlinked = "no such Service in the cluster", "cluster is unlinked"
	web := func(members ...adminapi.Member) adminapi.Service {
		for i := range members {
			members[i].Service = "shop/web"
		}
		return adminapi.Service{Service: "shop/web", Federated: true, Members: members}
	}
	preferring := web()
	preferring.Preference = &adminapi.Preference{Unlinked: []string{"esat"}}
	twice := web()
	twice.Ports = []adminapi.Port{{Port: 80,
		Members: []adminapi.PortMember{{Cluster: "east"}, {Cluster: "north", Service: "shop/web", Conflicts: 2}}}}
	for name, c := range map[string]struct {
		service adminapi.Service
		writer  *adminapi.SliceWriter
		want    []string
	}{
		"a member": {web(adminapi.Member{Cluster: "east", Reason: missing}, adminapi.Member{Cluster: "north"}), nil,
			[]string{"warning members shop/web: shop/web of cluster east does not serve: " +
				"no such Service in the cluster"}},
		"all members": {web(adminapi.Member{Cluster: "east", Reason: missing},
			adminapi.Member{Cluster: "north", Reason: unlinked}), nil,
			[]string{"failure members shop/web: shop/web of cluster east does not serve: no such Service in the " +
				"cluster", "failure members shop/web: shop/web of cluster north does not serve: cluster is unlinked"}},
		"ports": {web(adminapi.Member{Cluster: "east", LacksPorts: []string{"80 (http is 8080 there)", "81"}}), nil,
			[]string{"warning ports shop/web: " +
				"shop/web in cluster east does not declare port 80 (http is 8080 there), 81: " +
				"clients connect to the same port on the Service's Pods"}},
		"a preference": {preferring, nil,
			[]string{"warning definitions shop/web: annotation isthmus.io/prefer: no cluster esat is linked"}},
		"a problem": {adminapi.Service{Service: "shop/odd", Problems: []string{"bad"}}, nil,
			[]string{"warning definitions shop/odd: bad"}},
		"a panic": {adminapi.Service{
			Service:  "shop/odd",
			Failures: []adminapi.Failure{{Where: "service", Since: time.Unix(0, 0), Panics: 2, Panic: "boom"}},
		}, nil, []string{
			"failure updates shop/odd: because of a bug in Isthmus, " +
				"the code that processes updates has panicked 2 times since 1970-01-01T00:00:00Z (service: boom); " +
				"clients keep the data that they received before the first panic"}},
		"addresses": {twice, nil, []string{
			"warning addresses shop/web: port 80: " +
				"shop/web in cluster north offers 2 addresses that another member also offers"}},
		"the Lease": {web(), &adminapi.SliceWriter{Holder: "a", LeaseError: "forbidden"},
			[]string{"warning slice-writer : " +
				"Isthmus cannot use the Lease that decides which replica writes EndpointSlices: forbidden"}},
		"nobody's Lease": {web(), &adminapi.SliceWriter{},
			[]string{"warning slice-writer : no replica holds the Lease for writing EndpointSlices"}},
		"writing": {web(), &adminapi.SliceWriter{Holder: "a", Error: "conflict"},
			[]string{"warning slice-writer : EndpointSlices for ExternalWorkloads cannot be written: conflict"}},
		"a Lease that is held": {web(), &adminapi.SliceWriter{Holder: "a"}, nil},
	} {
		seen := goodInput()
		seen.Services, seen.Writer = []adminapi.Service{c.service}, c.writer
		if got := found(seen); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
		}
	}
}

// found returns the results that are not OK, one per line.
func found(s Input) (bad []string) {
	for _, x := range Judge(s) {
		if x.Level != OK {
			bad = append(bad, fmt.Sprintf("%s %s %s: %s", x.Level, x.Check, x.Object, x.Text))
			if x.Hint == "" && x.Level != Unchecked {
				bad = append(bad, "no hint")
			}
		}
	}
	return bad
}

// TestLeftovers checks that leftover mirrors are named with the command that deletes them. The
// result also says if a service mirror may still write the mirrors.
func TestLeftovers(t *testing.T) {
	seen := goodInput()
	seen.Leftovers = []adminapi.LeftoverMirrors{
		{Cluster: "old", Number: 12, Services: []string{"shop/a-old", "shop/b-old"}},
		{Cluster: "other", Number: 1, Services: []string{"shop/a-other"}, Unknown: "Leases cannot be read"},
	}
	got, want := found(seen), []string{
		"warning leftover-mirrors old: the cluster is not linked, but Linkerd's service mirror " +
			"left 12 mirrors behind: " +
			"shop/a-old, shop/b-old and 10 more",
		"unchecked leftover-mirrors other: the cluster has no link Secret, and Isthmus cannot tell " +
			"whether Linkerd still writes 1 mirror: shop/a-other (Leases cannot be read)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	const selector = "--selector 'mirror.linkerd.io/mirrored-service=true," +
		"mirror.linkerd.io/cluster-name=old,!isthmus.io/written-by'"
	if !slices.ContainsFunc(Judge(seen), func(r Result) bool { return strings.Contains(r.Hint, selector) }) {
		t.Error("the hint has no command")
	}
}

// TestConflicts checks that addresses that several objects claim are reported once the conflict has
// lasted, and that the list is bounded.
func TestConflicts(t *testing.T) {
	conflict := func(n int, age time.Duration) adminapi.AddressConflict {
		ip := fmt.Sprint("10.0.0.", n)
		return adminapi.AddressConflict{
			Address: ip,
			Claimed: "2 Pods with IP " + ip,
			Objects: []string{"Pod a/x", "Pod b/y"},
			Since:   time.Now().Add(-age),
		}
	}
	var many []adminapi.AddressConflict
	for n := range 14 {
		many = append(many, conflict(n, time.Hour))
	}
	for name, x := range map[string]struct {
		conflicts []adminapi.AddressConflict
		more      int
		results   int
		first     string
		last      string
	}{
		"none":  {nil, 0, 0, "", ""},
		"brief": {[]adminapi.AddressConflict{conflict(1, conflictLasts/2)}, 0, 0, "", ""},
		"one lasts": {[]adminapi.AddressConflict{conflict(1, 5*time.Minute), conflict(2, time.Second)}, 0, 1,
			"warning address-conflicts 10.0.0.1: 2 Pods with IP 10.0.0.1 have claimed it for 5 minutes: " +
				"Pod a/x, Pod b/y; GetProfile returns Unavailable until only one object claims the address", ""},
		"many": {many, 100, maxConflicts + 1,
			"warning address-conflicts : 104 more addresses are claimed by several objects", "10.0.0.9"},
	} {
		seen := goodInput()
		seen.Conflicts, seen.MoreConflicts = x.conflicts, x.more
		got := found(seen)
		if len(got) != x.results || len(got) > 0 && (got[0] != x.first || !strings.Contains(got[len(got)-1], x.last)) {
			t.Errorf("%s:\n%s", name, strings.Join(got, "\n"))
		}
		fine := slices.ContainsFunc(Judge(seen), func(r Result) bool { return r.Check == Conflicts && r.Level == OK })
		if fine != (x.results == 0) {
			t.Errorf("%s: the check is OK: %v", name, fine)
		}
	}
}

// TestCopies checks the results about copies of stale clusters.
func TestCopies(t *testing.T) {
	const lost = "newly started replicas do not serve a linked cluster whose API is unreachable"
	for name, x := range map[string]struct {
		copies *adminapi.CacheCopies
		want   []string
	}{
		"older replica": {nil, nil},
		"off":           {&adminapi.CacheCopies{Off: true, Error: "forbidden"}, nil},
		"fine":          {&adminapi.CacheCopies{}, nil},
		"no permission": {&adminapi.CacheCopies{Error: "forbidden"},
			[]string{"unchecked copies : " + lost + ": ConfigMaps cannot be listed: forbidden"}},
		"missing": {&adminapi.CacheCopies{
			LeaseError: "refused",
			Missing:    []adminapi.MissingCopy{{Cluster: "east", Reason: "no leader"}},
		}, []string{"warning copies east: " +
			"the cache of the stale cluster could not be copied: no leader: refused; " + lost}},
	} {
		seen := goodInput()
		seen.Copies = x.copies
		if got := found(seen); !slices.Equal(got, x.want) {
			t.Errorf("%s:\n%s", name, strings.Join(got, "\n"))
		}
	}
}
